import fc from 'fast-check'
import { expect, test } from 'vitest'
import { seedOf } from '../../../../test/support/seed.ts'
import { type Policy, type PolicyInput, policy } from '../../src/core/policy/policy.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { complete, requeued } from '../../src/store/conformance/bench/changes.ts'
import type { JobRow, Lease, Store, WorkerKey } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const RUNS = 60
const TIME_MS_MAX = 8_000
const TTL_MS = 30_000
const JOBS_MAX = 1_000
const seed = seedOf()

const TYPES = ['whole', 'keyed', 'both', 'metered'] as const
type TypeName = (typeof TYPES)[number]

const BEGINNING: Record<TypeName, PolicyInput> = {
  whole: { concurrency: 2 },
  keyed: { concurrency: { perKey: 1 } },
  both: { concurrency: { max: 3, perKey: 2 } },
  metered: { concurrency: 2, rate: { max: 2, per: '1s', burst: 2, scope: 'key' } },
}

type Step =
  | { do: 'submit'; type: TypeName; key: string | null; priority: number; delayMs: number; count: number }
  | { do: 'claim'; worker: number; max: number; lanes: number }
  | { do: 'close'; pick: number; how: 'complete' | 'retry' | 'snooze' }
  | { do: 'kill'; worker: number }
  | { do: 'maintain' | 'orphan' }
  | { do: 'advance'; ms: number }
  | { do: 'limit'; type: 'whole' | 'both'; max: number | null }

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('submit' as const),
      type: fc.constantFrom(...TYPES),
      key: fc.constantFrom(null, 'a', 'a', 'b', 'c'),
      priority: fc.constantFrom(0, 0, 1),
      delayMs: fc.constantFrom(0, 0, 0, 1_000),
      count: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('claim' as const),
      worker: fc.nat(2),
      max: fc.integer({ min: 1, max: 6 }),
      lanes: fc.integer({ min: 1, max: 15 }),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('close' as const),
      pick: fc.nat(1_000),
      how: fc.constantFrom('complete', 'complete', 'retry', 'snooze'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('kill' as const), worker: fc.nat(2) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constantFrom('maintain' as const, 'orphan' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.constantFrom(1, 400, 1_000, TTL_MS + 1) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('limit' as const),
      type: fc.constantFrom('whole' as const, 'both' as const),
      max: fc.constantFrom(null, 2, 3, 4),
    }),
  },
)

/** A store, three workers that may be killed, and maintenance. After each step it is counted what is under way. */
class LimitWorld {
  readonly clock = new VirtualClock()
  readonly store: Store = openSqlite({ path: ':memory:', nowMs: () => this.clock.nowMs() })
  readonly policies = new Map<string, Policy>()
  readonly dispatched: { atMs: number; key: string }[] = []
  readonly #workers: WorkerKey[] = []
  #held: { lease: Lease; worker: WorkerKey }[] = []
  #ids = 0

  static async open(): Promise<LimitWorld> {
    const world = new LimitWorld()
    for (const name of TYPES) await world.#declare(name, BEGINNING[name])
    for (let i = 0; i < 3; i++)
      world.#workers.push(await world.store.enlist({ id: `w${i}`, host: 'here', pid: i, types: [] }))
    return world
  }

  async #declare(name: TypeName, input: PolicyInput): Promise<void> {
    const made = policy({ orphan: 'requeue', retry: { max: 9, unknown: 'transient' }, ...input })
    this.policies.set(name, made)
    await this.store.register({ types: [{ name, queue: 'default', policy: made }] })
  }

  async take(step: Step): Promise<void> {
    switch (step.do) {
      case 'submit': {
        const { type, key: limitKey, priority, delayMs } = step
        const jobs = Array.from({ length: step.count }, () => ({
          ...{ id: `job-${++this.#ids}`, type, payload: '{}', owner: null, priority, delayMs, dedupe: null },
          ...{ retriedFrom: null, rejected: null, batch: null, limitKey },
        }))
        await this.store.submit({ jobs })
        return
      }
      case 'claim':
        return this.#claim(step)
      case 'close': {
        const one = this.#held[step.pick % Math.max(1, this.#held.length)]
        if (one === undefined) return
        this.#held = this.#held.filter((other) => other !== one)
        const { lease, worker } = one
        const back = requeued(step.how === 'retry' ? 'retry' : 'snoozed', lease, { delayMs: 500 })
        const change = step.how === 'complete' ? complete() : back
        await this.store.close({ worker, closes: [{ key: lease.key, attempt: lease.attempt, change, ranMs: 1 }] })
        return
      }
      case 'kill':
        this.#held = this.#held.filter(({ worker }) => worker !== this.#workers[step.worker])
        return
      case 'maintain':
      case 'orphan': {
        const stalled = await this.store.stalled({ unstartedForMs: 10 * TTL_MS, limit: 100 })
        const reclaims = stalled.map(({ key, attempt, spent }) => {
          const change = step.do === 'orphan' ? ({ to: 'orphaned' } as const) : requeued('reclaimed', { spent })
          return { key, attempt, expect: 'expired-unstarted' as const, change }
        })
        await this.store.reclaim({ reclaims })
        return
      }
      case 'advance':
        return this.clock.advance(step.ms)
      case 'limit':
        return this.#declare(step.type, { ...BEGINNING[step.type], concurrency: { max: step.max, perKey: null } })
    }
  }

  async #claim({ worker, max, lanes }: Extract<Step, { do: 'claim' }>): Promise<void> {
    const served = TYPES.filter((_, i) => (lanes & (1 << i)) !== 0)
    const key = this.#workers[worker] as WorkerKey
    const before = await this.#processing()
    const asked = served.map((type) => ({ type, ttlMs: TTL_MS }))
    const { leases } = await this.store.claim({ worker: key, lanes: asked, max })
    this.#held.push(...leases.map((lease) => ({ lease, worker: key })))
    const after = await this.#processing()
    const claimed = after.filter(({ id }) => leases.some((lease) => lease.id === id))
    for (const { type, limitKey } of claimed) {
      if (type === 'metered' && limitKey !== null) this.dispatched.push({ atMs: this.clock.nowMs(), key: limitKey })
    }
    expect(after).toHaveLength(before.length + leases.length)
    for (const row of claimed) this.#expectWithin(row, after)
    if (leases.length < max) await this.#expectNothingLeftBehind(served, after)
  }

  /** What was just claimed is within its limits; what ran before may be more, where the limit was lowered since. */
  #expectWithin({ type, limitKey }: JobRow, running: readonly JobRow[]): void {
    const { max, perKey } = (this.policies.get(type) as Policy).concurrency
    const ofType = running.filter((row) => row.type === type)
    expect(ofType.length).toBeLessThanOrEqual(max ?? Number.POSITIVE_INFINITY)
    if (limitKey === null) return
    const ofKey = ofType.filter((row) => row.limitKey === limitKey)
    expect(ofKey.length).toBeLessThanOrEqual(perKey ?? Number.POSITIVE_INFINITY)
  }

  /** A claim that brings less than was asked for leaves nothing that could have gone. */
  async #expectNothingLeftBehind(served: readonly TypeName[], running: readonly JobRow[]): Promise<void> {
    const queued = await this.store.jobs({ status: 'queued', limit: JOBS_MAX })
    const due = queued.filter(
      (row) => served.includes(row.type as TypeName) && (row.dueAtMs ?? 0) <= this.clock.nowMs(),
    )
    for (const { type, limitKey } of due) {
      const { max, perKey } = (this.policies.get(type) as Policy).concurrency
      const ofType = running.filter((row) => row.type === type)
      const ofKey = ofType.filter((row) => row.limitKey === limitKey)
      const isFull = max !== null && ofType.length >= max
      const isKeyFull = limitKey !== null && perKey !== null && ofKey.length >= perKey
      const { rateOpensAtMs } = await this.store.load({ type, limitKey })
      expect(isFull || isKeyFull || rateOpensAtMs !== null, `a ${type} of ${limitKey} could have gone`).toBe(true)
    }
  }

  #processing(): Promise<JobRow[]> {
    return this.store.jobs({ status: 'processing', limit: JOBS_MAX })
  }

  /** In any second at most the burst and what flows in. */
  expectRateKept(): void {
    for (const key of ['a', 'b', 'c']) {
      const times = this.dispatched.filter((one) => one.key === key).map(({ atMs }) => atMs)
      for (const from of times) {
        expect(times.filter((atMs) => atMs >= from && atMs < from + 1_000).length).toBeLessThanOrEqual(4)
      }
    }
  }
}

test(`claims, ends and deaths in any order: limits hold, and no job waits that could start (REDRESS_SEED=${seed})`, async () => {
  let claims = 0
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 20, maxLength: 80, size: 'max' }), async (steps) => {
      const world = await LimitWorld.open()
      for (const step of steps) await world.take(step)
      world.expectRateKept()
      claims += steps.filter((step) => step.do === 'claim').length
      await world.store.stop()
    }),
    { seed, numRuns: RUNS, interruptAfterTimeLimit: TIME_MS_MAX },
  )
  // A machine so slow that nothing was tried must not count as success.
  expect(claims).toBeGreaterThan(50)
})
