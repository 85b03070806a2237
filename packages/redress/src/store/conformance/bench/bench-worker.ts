import assert from 'node:assert/strict'
import type { Change } from '../../../core/job/change.ts'
import type { Report } from '../../contract/reports.ts'
import type {
  BatchKey,
  Claimed,
  Close,
  CloseAnswer,
  Held,
  Lane,
  Lease,
  Store,
  WorkerKey,
} from '../../contract/store.ts'

export const TTL_MS = 30_000
export const LANES: readonly [Lane, ...Lane[]] = [
  { type: 'plain', ttlMs: TTL_MS },
  { type: 'other', ttlMs: TTL_MS },
  { type: 'third', ttlMs: TTL_MS },
  { type: 'forward', ttlMs: TTL_MS },
]

const NOTHING = { lines: [], dropped: 0, progress: null }

export const progressAt = (fraction: number, isEvent = true): NonNullable<Report['progress']> => ({
  ...{ fraction, done: null, total: null, note: null, isEvent },
})

/** A worker reduced to its calls, one attempt at a time. */
export class BenchWorker {
  readonly id: string
  readonly key: WorkerKey
  readonly store: Store

  constructor(id: string, key: WorkerKey, store: Store) {
    this.id = id
    this.key = key
    this.store = store
  }

  claim({ max = 1, lanes = LANES }: { max?: number; lanes?: readonly Lane[] } = {}): Promise<Claimed> {
    return this.store.claim({ worker: this.key, lanes, max })
  }

  /** The one job that is next. */
  async claimOne(lanes?: readonly Lane[]): Promise<Lease> {
    const { leases } = await this.claim(lanes === undefined ? {} : { lanes })
    const [lease] = leases
    assert(lease !== undefined && leases.length === 1, `one job was to be claimed, not ${leases.length}`)
    return lease
  }

  async start({ key, attempt }: Held, agoMs = 0): Promise<'held' | 'lost'> {
    const { lost } = await this.store.start({ worker: this.key, attempts: [{ key, attempt, agoMs }] })
    return lost.includes(key) ? 'lost' : 'held'
  }

  async renew({ key, attempt }: Held, { ttlMs = TTL_MS }: { ttlMs?: number } = {}): Promise<'held' | 'lost'> {
    const { lost } = await this.store.renew({ worker: this.key, leases: [{ key, attempt, ttlMs }] })
    return lost.includes(key) ? 'lost' : 'held'
  }

  async report({ key, attempt }: Held, report: Partial<Report> = {}): Promise<'held' | 'lost'> {
    const { lost } = await this.store.report({ worker: this.key, reports: [{ ...NOTHING, ...report, key, attempt }] })
    return lost.includes(key) ? 'lost' : 'held'
  }

  progress(held: Held, fraction: number): Promise<'held' | 'lost'> {
    return this.report(held, { progress: progressAt(fraction) })
  }

  async close(
    { key, attempt, batch = null }: Held & { batch?: BatchKey | null },
    change: Change,
    ranMs: number | null = null,
    report?: Close['report'],
  ): Promise<CloseAnswer> {
    const close = { key, attempt, batch, change, ranMs, ...(report !== undefined && { report }) }
    const [answer] = await this.store.close({ worker: this.key, closes: [close] })
    assert(answer !== undefined)
    return answer
  }
}
