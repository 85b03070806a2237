import { expect } from 'vitest'
import { failureCodes, type JobType, type PolicyInput, RedressError } from '../../src/index.ts'
import type { JobRow, Store } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { type TestKit, testKit } from '../../src/testing/index.ts'
import type { Attempt } from '../../src/worker/attempt/attempt.ts'
import type { Step } from '../../src/worker/attempt/steps.ts'
import { type Fault, faultyStore } from './faulty-store.ts'
import { checkAlone } from './laws.ts'

/** What the handler does in one attempt. */
export const DEEDS = ['ok', 'slow', 'throw', 'never', 'snooze', 'hang', 'unverified', 'bad-result'] as const
export type Deed = (typeof DEEDS)[number]

export interface PlannedJob {
  type: number
  /** By attempt; what comes after them goes well. */
  deeds: readonly Deed[]
  delayMs: number
  priority: number
  key: number | null
}

export type Happening =
  | { do: 'submit'; job: PlannedJob }
  | { do: 'tick' }
  | { do: 'advance'; ms: number }
  | { do: 'jump'; ms: number }
  | { do: 'crashing-worker'; at: Step; nth: number }
  | { do: 'another-worker' | 'leaving-worker' }
  | { do: 'cancel' | 'retry' | 'mark-failed'; pick: number }
  | { do: 'faults'; faults: readonly Fault[] }

const POLICIES: Record<string, PolicyInput> = {
  retried: {
    retry: { max: 3, unknown: 'transient', backoff: { table: ['5s', '1m'], jitter: '20%' } },
    orphan: 'requeue',
    manualRetry: 'in-place',
    timeout: { attempt: '1m' },
  },
  reported: { retry: { max: 2, unknown: 'transient' }, timeout: { attempt: '1m' }, deadLetter: 'queue' },
  failing: { orphan: 'fail', timeout: { attempt: '1m' }, shutdown: 'fail', deadLetter: 'flag' },
  forward: { forwardOnly: true, timeout: { attempt: '1m' }, cancel: false },
}

const codes = failureCodes({ NO_USE: { fault: 'caller', retry: 'never', message: 'It is of no use.' } })

const NEVER = Number.MAX_SAFE_INTEGER

/** A whole app whose workers die, whose store fails, whose clock jumps, and whose handlers do all that handlers do. */
export class WorkerWorld {
  readonly kit: TestKit
  readonly #types: JobType<{ deeds: readonly Deed[] }>[]
  readonly #acknowledged = new Set<string>()
  readonly #began = new Set<string>()
  #store: Store | null = null
  #faults: Fault[] = []

  constructor(seed: number) {
    this.kit = testKit({
      seed,
      store: ({ nowMs }) => {
        this.#store = openSqlite({ path: ':memory:', nowMs })
        return faultyStore(this.#store, () => this.#faults.shift() ?? null)
      },
    })
    this.#types = Object.entries(POLICIES).map(([name, policy]) =>
      this.kit.app.job(name, {
        codes,
        policy,
        run: (input: { deeds: readonly Deed[] }, attempt) => this.#run(input.deeds, attempt as Attempt),
        verify(output: unknown) {
          if (output === 'unverified') throw new Error('the output is not what it should be')
        },
      }),
    )
  }

  async happen(happening: Happening): Promise<void> {
    try {
      await this.#happen(happening)
    } catch (error) {
      // The store failed at the moment, or the job stood otherwise than the person thought.
      if (!(error instanceof RedressError)) throw error
    }
  }

  async #happen(happening: Happening): Promise<unknown> {
    const { kit } = this
    switch (happening.do) {
      case 'submit':
        return this.#submit(happening.job)
      case 'tick':
        return kit.tick()
      case 'advance':
        return kit.advance(happening.ms)
      case 'jump':
        return kit.clock.jump(happening.ms)
      case 'crashing-worker':
        return kit.crashingWorker({ at: happening.at, nth: happening.nth, optional: true })
      case 'another-worker':
        return kit.crashingWorker({ at: 'claim', nth: NEVER, optional: true })
      case 'leaving-worker': {
        const worker = await kit.crashingWorker({ at: 'claim', nth: NEVER, optional: true })
        await worker.tick()
        // Not waited for: it goes when its outcomes are recorded, which a store that fails may put off.
        worker.stop({ graceMs: 0 }).catch(() => undefined)
        return kit.advance('1s')
      }
      case 'faults':
        this.#faults = [...happening.faults]
        return
      default: {
        const by = { actor: 'olga', reason: 'chance' }
        const ids = [...this.#acknowledged]
        const id = ids[happening.pick % Math.max(1, ids.length)]
        if (id === undefined) return
        if (happening.do === 'cancel') return kit.app.jobs.cancel(id, by)
        return happening.do === 'retry' ? kit.app.jobs.retry(id, by) : kit.app.jobs.markFailed(id, by)
      }
    }
  }

  async #submit({ type, deeds, delayMs, priority, key }: PlannedJob): Promise<void> {
    const jobType = this.#types[type % this.#types.length]
    const dedupe = key === null ? {} : { dedupe: `k${key}` }
    const submitted = await jobType?.submit({ deeds }, { delay: delayMs, priority, ...dedupe })
    if (submitted !== undefined) this.#acknowledged.add(submitted.id)
  }

  async #run(deeds: readonly Deed[], attempt: Attempt): Promise<unknown> {
    const token = `${attempt.jobId}/${attempt.number}`
    expect(this.#began.has(token), `the handler was called twice for ${token}`).toBe(false)
    this.#began.add(token)
    switch (deeds[attempt.number - 1]) {
      case 'slow':
        await this.kit.sleep('20s')
        return token
      case 'throw':
        throw new Error('it went wrong')
      case 'never':
        return attempt.fail('NO_USE')
      case 'snooze':
        return attempt.snooze('3s')
      case 'hang':
        return new Promise(() => undefined)
      case 'unverified':
        return 'unverified'
      case 'bad-result':
        return 1n
      default:
        return token
    }
  }

  /** When the faults are over and time goes by, every job ends, or waits for a person who can see why. */
  async finish(): Promise<void> {
    this.#faults = []
    await this.kit.drain({ within: '1h' })
    const store = this.#store as Store
    const rows = await store.jobs({ limit: 10_000 })
    const known = new Set(rows.map(({ id }) => id))
    for (const id of this.#acknowledged) expect(known.has(id), `job ${id} was acknowledged and is gone`).toBe(true)
    for (const row of rows) await this.#judge(row, store)
    await this.kit.stop()
  }

  async #judge(row: JobRow, store: Store): Promise<void> {
    const events = await store.events({ id: row.id })
    checkAlone(row, events)
    const lost = new Set(events.flatMap(({ kind, attempt }) => (kind === 'processing' ? [attempt] : [])))
    for (const token of this.#began) {
      const [id, attempt] = token.split('/')
      if (id === row.id) expect(lost.has(Number(attempt)), `${token} ran and was never handed out`).toBe(true)
    }
    if (row.status === 'processing') {
      expect(row.orphanedAtMs, `job ${row.id} is neither finished nor waiting for a person`).not.toBeNull()
      expect(row.policy.orphan.action).toBe('report')
    }
    if (row.status === 'complete') {
      // The result is that of the attempt which completed, and of no other.
      expect(row.result).toBe(JSON.stringify(`${row.id}/${row.attempt}`))
      expect(this.#began.has(`${row.id}/${row.attempt}`)).toBe(true)
      expect(events.filter(({ kind }) => kind === 'complete')).toHaveLength(1)
    }
    if (row.status === 'failed') expect(row.latestFailure?.decision.because).not.toBe('')
  }
}
