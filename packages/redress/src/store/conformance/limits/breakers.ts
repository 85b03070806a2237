import assert from 'node:assert/strict'
import { type PolicyInput, policy } from '../../../core/policy/policy.ts'
import type { StoredBreaker } from '../../contract/breakers.ts'
import type { Claimed, Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import type { BenchWorker } from '../bench/bench-worker.ts'
import { complete } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const BY = { actor: 'olga', reason: 'a test' }
const COOLDOWN_MS = 30_000
const RAMP_MS = 8_000

/** Opens at four calls of which half failed. */
const GATEWAY = {
  guards: 'gateway',
  windowCalls: 8,
  minCalls: 4,
  window: '1m',
  cooldown: COOLDOWN_MS,
  halfOpenProbes: 1,
  probesToClose: 2,
  ramp: RAMP_MS,
} as const

const LANES = ['convert', 'upload'].map((type) => ({ type, ttlMs: 120_000 }))

async function declare(bench: Bench, parts: Partial<NonNullable<PolicyInput['breaker']>> = {}): Promise<void> {
  const declared = policy({ orphan: 'requeue', breaker: { ...GATEWAY, ...parts } })
  for (const { type } of LANES) await bench.declare(type, declared)
}

async function report(store: Store, succeeded: number, failed: number, agoMs = 0): Promise<void> {
  const { epoch } = await standing(store)
  await store.countCalls({ counts: [{ name: 'gateway', epoch, buckets: [{ agoMs, succeeded, failed }] }] })
}

async function standing(store: Store): Promise<StoredBreaker> {
  const found = (await store.breakers()).find(({ name }) => name === 'gateway')
  assert(found !== undefined, 'the breaker is not there')
  return found
}

const status = async (store: Store): Promise<string> => (await standing(store)).state.status
const claim = (worker: BenchWorker, max = 10): Promise<Claimed> => worker.claim({ max, lanes: LANES })
const submit = async (bench: Bench, count: number, type = 'convert'): Promise<void> => {
  await bench.store.submit({ jobs: Array.from({ length: count }, () => bench.newJob({ type })) })
}

/** Broken, cooled down, and tried until it closed. */
async function heal(bench: Bench): Promise<void> {
  await report(bench.store, 0, 4)
  await bench.clock.advance(COOLDOWN_MS)
  await report(bench.store, 2, 0)
  // Nobody had written down yet that the cooldown is over; the report did, and is of the new epoch.
  if ((await status(bench.store)) !== 'closed') await report(bench.store, 2, 0)
  assert.equal(await status(bench.store), 'closed')
}

export const breakers = topic('breakers', {
  async 'a breaker is there, closed, as soon as a type that names it is declared'(bench) {
    await declare(bench)
    const found = await standing(bench.store)
    assert.equal(found.state.status, 'closed')
    assert.equal(found.forced, null)
    assert.deepEqual(
      found.types.map(({ name }) => name),
      ['convert', 'upload'],
    )
  },

  async 'its past is told from the newest on: the seconds with calls, and what happened to it'(bench) {
    await declare(bench, { minCalls: 8 })
    const startMs = bench.clock.nowMs()
    for (const failed of [0, 1, 0]) {
      await report(bench.store, 1, failed)
      await bench.clock.advance(1_000)
    }
    const past = async (seconds = 100, events = 100) => {
      const found = await bench.store.breakerPast({ name: 'gateway', seconds, events })
      return { ...found, events: found.events.map(({ kind, data }) => [kind, data.status, data.actor]) }
    }
    const second = (n: number) => Math.floor(startMs / 1_000 + n) * 1_000
    const calls = [
      { atMs: second(2), succeeded: 1, failed: 0 },
      { atMs: second(1), succeeded: 1, failed: 1 },
      { atMs: second(0), succeeded: 1, failed: 0 },
    ]
    assert.deepEqual(await past(), { calls, events: [] })
    assert.deepEqual((await past(2)).calls, calls.slice(0, 2))
    await bench.store.forceBreaker({ name: 'gateway', status: 'open', forMs: null, by: BY })
    await bench.store.releaseBreaker({ name: 'gateway', by: BY })
    await report(bench.store, 0, 8)
    const events = [
      ['opened', 'open', undefined],
      ['released', 'closed', 'olga'],
      ['forced', 'open', 'olga'],
    ]
    assert.deepEqual(await past(), { calls: [], events }, 'a change makes a new beginning for the calls')
    const [opened] = (await bench.store.breakerPast({ name: 'gateway', seconds: 0, events: 1 })).events
    assert.deepEqual(opened?.data.calls, [{ atMs: second(3), succeeded: 0, failed: 8 }, ...calls], 'and tells them')
    assert.deepEqual((await past(0, 2)).events, events.slice(0, 2))
    assert.deepEqual(await bench.store.breakerPast({ name: 'nobody', seconds: 9, events: 9 }), {
      calls: [],
      events: [],
    })
  },

  async 'declared again it keeps its state, and the last numbers win'(bench) {
    await declare(bench)
    await report(bench.store, 0, 4)
    await declare(bench, { cooldown: '1h' })
    const found = await standing(bench.store)
    assert.equal(found.state.status, 'open')
    assert.equal(found.policy.cooldownMs, 3_600_000)
  },

  async 'a breaker that no job type names any more is not shown, unless somebody has forced it'(bench) {
    await declare(bench)
    await report(bench.store, 0, 4)
    await declare(bench, { guards: 'other' })
    const names = async () => (await bench.store.breakers()).map(({ name }) => name)
    assert.deepEqual(await names(), ['other'])
    await bench.store.forceBreaker({ name: 'gateway', status: 'open', forMs: null, by: BY })
    assert.deepEqual(await names(), ['gateway', 'other'])
  },

  async 'it opens when enough calls were made and too many of them failed, whoever counted them'(bench) {
    await declare(bench)
    const [one, other] = await bench.openMany(2)
    await report(one, 1, 2)
    assert.equal(await status(one), 'closed', 'three calls are too few')
    await report(other ?? one, 1, 0)
    assert.equal(await status(one), 'open')
    assert.match((await standing(one)).state.reason, /^50 % of the last 4 calls failed$/)
  },

  async 'calls older than the window do not count, nor does one more than it has places'(bench) {
    await declare(bench)
    await report(bench.store, 0, 3)
    await bench.clock.advance(70_000)
    await report(bench.store, 0, 1)
    assert.equal(await status(bench.store), 'closed', 'three of the four are too old')
    await report(bench.store, 7, 0)
    await bench.clock.advance(2_000)
    await report(bench.store, 8, 0)
    const { window } = await standing(bench.store)
    assert.deepEqual(window, { calls: 8, failed: 0 })
  },

  async 'a late report is counted at the time of its calls'(bench) {
    await declare(bench)
    await bench.clock.advance(120_000)
    await report(bench.store, 0, 4, 65_000)
    assert.equal(await status(bench.store), 'closed')
  },

  async 'while it is open no job that it holds is claimed, and nothing is spent'(bench) {
    await declare(bench)
    await submit(bench, 3)
    await submit(bench, 3, 'upload')
    const worker = await bench.worker()
    await report(bench.store, 0, 4)
    const claimed = await claim(worker)
    assert.deepEqual(claimed.leases, [])
    assert.equal(claimed.nextDueAtMs, bench.clock.nowMs() + COOLDOWN_MS)
    for (const row of await bench.store.jobs({ limit: 10 })) {
      assert.deepEqual([row.status, row.attempt, row.spent], ['queued', 0, null])
    }
    assert.equal(await bench.store.countReady({ types: ['convert', 'upload'] }), 6)
  },

  async 'a job that becomes due while it is held is nothing to be woken for'(bench) {
    await declare(bench)
    const worker = await bench.worker()
    await report(bench.store, 0, 4)
    await bench.submit({ type: 'convert', delayMs: 1_000 })
    assert.equal((await claim(worker)).nextDueAtMs, bench.clock.nowMs() + 1_000)
    await bench.clock.advance(1_000)
    const { leases, nextDueAtMs } = await claim(worker)
    assert.deepEqual([leases.length, nextDueAtMs], [0, bench.clock.nowMs() + COOLDOWN_MS - 1_000])
  },

  async 'it holds only the types that name it'(bench) {
    await declare(bench)
    await submit(bench, 1)
    const free = await bench.submit()
    const worker = await bench.worker()
    await report(bench.store, 0, 4)
    const { leases } = await worker.claim({ max: 5, lanes: [...LANES, { type: 'plain', ttlMs: 30_000 }] })
    assert.deepEqual(
      leases.map(({ id }) => id),
      [free],
    )
  },

  async 'after the cooldown as many are claimed as may be tried at once, over all types and workers'(bench) {
    await declare(bench, { halfOpenProbes: 2 })
    await submit(bench, 3)
    await submit(bench, 3, 'upload')
    const [one, other] = [await bench.worker(), await bench.worker()]
    await report(bench.store, 0, 4)
    await bench.clock.advance(COOLDOWN_MS)
    const first = await claim(one)
    const second = await claim(other)
    assert.equal(first.leases.length + second.leases.length, 2)
    assert.equal(await status(bench.store), 'half-open')
    const [lease] = first.leases
    assert(lease !== undefined)
    await one.close(lease, complete())
    assert.equal((await claim(other)).leases.length, 1)
  },

  async "a call that hangs since before it opened takes nobody's place"(bench) {
    await declare(bench)
    await submit(bench, 2)
    const worker = await bench.worker()
    assert.equal((await claim(worker, 1)).leases.length, 1)
    await bench.clock.advance(1)
    await report(bench.store, 0, 4)
    await bench.clock.advance(COOLDOWN_MS)
    assert.equal((await claim(worker)).leases.length, 1)
  },

  async 'calls begun before it opened say nothing about how it is now'(bench) {
    await declare(bench)
    const { epoch } = await standing(bench.store)
    await report(bench.store, 0, 4)
    await bench.clock.advance(COOLDOWN_MS)
    await claim(await bench.worker())
    const late = { name: 'gateway', epoch, buckets: [{ agoMs: 0, succeeded: 5, failed: 5 }] }
    await bench.store.countCalls({ counts: [late] })
    assert.equal((await standing(bench.store)).state.passed, 0)
    await heal(bench)
    await bench.store.countCalls({ counts: [late] })
    assert.equal(await status(bench.store), 'closed')
  },

  async 'one failure while it tries opens it again, for a whole cooldown'(bench) {
    await declare(bench)
    await report(bench.store, 0, 4)
    await bench.clock.advance(COOLDOWN_MS)
    await submit(bench, 1)
    assert.equal((await claim(await bench.worker())).leases.length, 1)
    await report(bench.store, 1, 0)
    await report(bench.store, 0, 1)
    const { state } = await standing(bench.store)
    assert.deepEqual([state.status, state.triesAtMs], ['open', bench.clock.nowMs() + COOLDOWN_MS])
  },

  async 'enough successes in a row close it, and then the load grows step by step'(bench) {
    await declare(bench)
    await submit(bench, 100)
    await heal(bench)
    const worker = await bench.worker()
    assert.equal((await claim(worker, 100)).leases.length, 2)
    assert.equal((await claim(worker, 100)).leases.length, 0)
    await bench.clock.advance(RAMP_MS / 8)
    assert.equal((await claim(worker, 100)).leases.length, 2, 'four may be under way now')
    await bench.clock.advance(RAMP_MS)
    assert.equal((await claim(worker, 100)).leases.length, 96)
  },

  async 'where jobs fail fast they are claimed all the same, and only as many as may be tried may call'(bench) {
    await declare(bench, { mode: 'fail-fast' })
    await submit(bench, 3)
    const worker = await bench.worker()
    const mayCall = async () => (await claim(worker, 1)).leases.map(({ guard }) => guard?.mayCall)
    assert.deepEqual(await mayCall(), [true])
    await report(bench.store, 0, 4)
    assert.deepEqual(await mayCall(), [false])
    await submit(bench, 3)
    await bench.clock.advance(COOLDOWN_MS)
    const { leases } = await claim(worker, 4)
    assert.deepEqual(
      leases.map(({ guard }) => guard?.mayCall),
      [true, false, false, false],
    )
  },

  async 'the ramp after closing holds jobs back also where they fail fast, and no job fails for it'(bench) {
    await declare(bench, { mode: 'fail-fast' })
    await heal(bench)
    await submit(bench, 100)
    const { leases } = await claim(await bench.worker(), 100)
    assert.deepEqual(
      leases.map(({ guard }) => guard?.mayCall),
      [true, true],
    )
  },

  async "a person's word is stronger than what was computed, is shown apart from it, and ends"(bench) {
    await declare(bench)
    await submit(bench, 5)
    const worker = await bench.worker()
    assert.equal(await bench.store.forceBreaker({ name: 'gateway', status: 'open', forMs: 60_000, by: BY }), true)
    assert.deepEqual((await claim(worker)).leases, [])
    const { state, forced } = await standing(bench.store)
    assert.equal(state.status, 'closed')
    assert.deepEqual(forced, {
      status: 'open',
      ...BY,
      atMs: bench.clock.nowMs(),
      untilMs: bench.clock.nowMs() + 60_000,
    })
    await bench.clock.advance(60_000)
    assert.equal((await standing(bench.store)).forced, null)
    assert.equal((await claim(worker)).leases.length, 2, 'what was held by hand comes back step by step, too')
  },

  async 'forced closed it lets everything through, though what was computed is open'(bench) {
    await declare(bench)
    await submit(bench, 5)
    await report(bench.store, 0, 4)
    await bench.store.forceBreaker({ name: 'gateway', status: 'closed', forMs: null, by: BY })
    assert.equal((await claim(await bench.worker())).leases.length, 5)
    assert.equal(await status(bench.store), 'open')
    assert.equal(await bench.store.releaseBreaker({ name: 'gateway', by: BY }), 'released')
    assert.equal(await bench.store.releaseBreaker({ name: 'gateway', by: BY }), 'free')
    assert.equal((await standing(bench.store)).forced, null)
  },

  async 'a person can have it tried before its cooldown is over'(bench) {
    await declare(bench)
    assert.equal(await bench.store.tryBreaker({ name: 'gateway', by: BY }), 'closed')
    await report(bench.store, 0, 4)
    await submit(bench, 2)
    assert.equal(await bench.store.tryBreaker({ name: 'gateway', by: BY }), 'jobs')
    assert.equal((await claim(await bench.worker())).leases.length, 1)
  },

  async 'what a person does to a breaker is in the audit trail, and what happens to it is in its history'(bench) {
    await declare(bench)
    await heal(bench)
    await bench.store.forceBreaker({ name: 'gateway', status: 'open', forMs: 1_000, by: BY })
    await bench.clock.advance(2_000)
    await claim(await bench.worker())
    await bench.store.forceBreaker({ name: 'gateway', status: 'closed', forMs: null, by: BY })
    await bench.store.releaseBreaker({ name: 'gateway', by: BY })
    const events = await bench.store.breakerEvents({ name: 'gateway', afterSeq: 0, limit: 100 })
    assert.deepEqual(
      events.map(({ kind }) => kind.replace('breaker-', '')),
      ['opened', 'half-open', 'closed', 'forced', 'released', 'forced', 'released'],
    )
    assert.deepEqual([events[3]?.data.actor, events[4]?.data.actor, events[6]?.data.actor], ['olga', undefined, 'olga'])
    const acts = await bench.store.auditTrail({ filter: { target: 'breaker' }, beforeSeq: null, limit: 10 })
    assert.deepEqual(
      acts.map(({ act, actor, ids }) => [act, actor, ids.join()]),
      [
        ['breakers.release', 'olga', 'gateway'],
        ['breakers.close', 'olga', 'gateway'],
        ['breakers.open', 'olga', 'gateway'],
      ],
    )
  },

  async 'acts on a breaker that is not there are told so'(bench) {
    const { store } = bench
    assert.equal(await store.forceBreaker({ name: 'nobody', status: 'open', forMs: null, by: BY }), null)
    assert.equal(await store.releaseBreaker({ name: 'nobody', by: BY }), null)
    assert.equal(await store.tryBreaker({ name: 'nobody', by: BY }), null)
    assert.equal(await store.beginProbe({ name: 'nobody', ttlMs: 1, isAsked: true }), null)
    const counts = [{ name: 'nobody', epoch: 1, buckets: [{ agoMs: 0, succeeded: 1, failed: 1 }] }]
    assert.deepEqual(await store.countCalls({ counts }), [])
  },

  async 'a health probe is made by one process at a time, when it is due'(bench) {
    await declare(bench)
    const [one, other = one] = await bench.openMany(2)
    const probe = { name: 'gateway', ttlMs: 5_000, isAsked: false }
    assert.equal(await one.beginProbe(probe), null, 'nothing is wrong')
    await one.offerProbe({ name: 'gateway', forMs: 600_000 })
    await report(one, 0, 4)
    assert.equal(await one.beginProbe(probe), null, 'the cooldown is not over')
    await bench.clock.advance(COOLDOWN_MS)
    const tickets = await Promise.all([one.beginProbe(probe), other.beginProbe(probe)])
    assert.equal(tickets.filter((ticket) => ticket !== null).length, 1)
  },

  async 'a health probe that passes often enough closes it, and no job is risked meanwhile'(bench) {
    await declare(bench)
    const { store, clock } = bench
    await submit(bench, 3)
    const worker = await bench.worker()
    await store.offerProbe({ name: 'gateway', forMs: 600_000 })
    await report(store, 0, 4)
    await clock.advance(COOLDOWN_MS)
    const run = async (passed: boolean) => {
      assert.deepEqual((await claim(worker)).leases, [])
      const ticket = await store.beginProbe({ name: 'gateway', ttlMs: 5_000, isAsked: false })
      assert(ticket !== null, 'a probe was due')
      const outcome = { passed, said: passed ? '' : 'ECONNREFUSED', everyMs: 5_000 }
      assert.equal(await store.endProbe({ ticket, outcome }), 'counted')
      await clock.advance(5_000)
      return status(store)
    }
    assert.equal(await run(false), 'open')
    assert.equal(await run(true), 'half-open')
    assert.equal(await run(false), 'open')
    assert.equal(await run(true), 'half-open')
    assert.equal(await run(true), 'closed')
    assert((await claim(worker)).leases.length > 0)
  },

  async 'a health probe whose process died does not keep others from making one'(bench) {
    await declare(bench)
    const { store, clock } = bench
    await store.offerProbe({ name: 'gateway', forMs: 600_000 })
    await report(store, 0, 4)
    await clock.advance(COOLDOWN_MS)
    const probe = { name: 'gateway', ttlMs: 5_000, isAsked: false }
    const lost = await store.beginProbe(probe)
    assert(lost !== null)
    assert.equal(await store.beginProbe(probe), null)
    await clock.advance(5_001)
    const next = await store.beginProbe(probe)
    assert(next !== null)
    const outcome = { passed: true, said: '', everyMs: 5_000 }
    assert.equal(await store.endProbe({ ticket: lost, outcome }), 'lost', 'it comes back too late')
    assert.equal(await store.endProbe({ ticket: next, outcome }), 'counted')
  },

  async 'when nobody makes health probes any more, jobs are tried instead'(bench) {
    await declare(bench)
    await submit(bench, 2)
    const worker = await bench.worker()
    await bench.store.offerProbe({ name: 'gateway', forMs: COOLDOWN_MS + 10_000 })
    await report(bench.store, 0, 4)
    await bench.clock.advance(COOLDOWN_MS)
    assert.deepEqual((await claim(worker)).leases, [])
    await bench.clock.advance(10_000)
    assert.equal((await claim(worker)).leases.length, 1)
  },

  async 'a clock that is set back keeps it neither open nor slow, and calls of a time to come are not counted'(bench) {
    await declare(bench)
    await submit(bench, 10)
    const worker = await bench.worker()
    await report(bench.store, 8, 0)
    bench.clock.jump(-3_600_000)
    await report(bench.store, 0, 4)
    assert.equal(await status(bench.store), 'open')
    bench.clock.jump(-3_600_000)
    await bench.clock.advance(COOLDOWN_MS)
    assert.equal((await claim(worker)).leases.length, 1)
    assert.equal(await status(bench.store), 'half-open')
    await report(bench.store, 2, 0)
    assert.equal(await status(bench.store), 'closed')
    bench.clock.jump(-3_600_000)
    await claim(worker, 1)
    await bench.clock.advance(RAMP_MS)
    assert((await claim(worker)).leases.length > 4)
  },

  async 'a clock that is set back does not put off the next health probe'(bench) {
    const { store } = bench
    await declare(bench)
    await report(store, 0, 4)
    await store.offerProbe({ name: 'gateway', forMs: 600_000 })
    await bench.clock.advance(COOLDOWN_MS)
    for (const passed of [false, true]) {
      const ticket = await store.beginProbe({ name: 'gateway', ttlMs: 1_000, isAsked: false })
      assert(ticket !== null)
      await store.endProbe({ ticket, outcome: { passed, said: '', everyMs: 5_000 } })
      bench.clock.jump(-3_600_000)
    }
    assert.equal(await status(store), 'half-open')
    // A process that has a probe offers it again and again; when that ends, jobs are tried by the clock as it is now.
    bench.clock.jump(-3_600_000)
    await store.offerProbe({ name: 'gateway', forMs: 10_000 })
    assert.equal((await standing(store)).isProbed, true)
    await bench.clock.advance(10_000)
    assert.equal((await standing(store)).isProbed, false)
  },

  async 'a breaker stands after every process has ended as it stood before'(bench) {
    await declare(bench)
    await report(bench.store, 0, 4)
    await bench.store.forceBreaker({ name: 'gateway', status: 'closed', forMs: null, by: BY })
    const before = await standing(bench.store)
    assert.deepEqual(await standing(await bench.reopen()), before)
  },
})
