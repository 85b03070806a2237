import assert from 'node:assert/strict'
import { RedressError } from '../../../core/errors.ts'
import type { JobEvent } from '../../../core/job/events.ts'
import { type Chance, seededChance } from '../../../runtime/chance.ts'
import { VirtualClock } from '../../../runtime/clock.ts'
import { fillFromChance, idMaker, type MakeId } from '../../../runtime/id.ts'
import type {
  Intervention,
  JobRow,
  Lane,
  Lease,
  NewJob,
  Reclaim,
  Store,
  StoredFailure,
  TypeDeclaration,
} from '../../contract/store.ts'
import { TYPES } from './bench-types.ts'
import { BenchWorker, LANES } from './bench-worker.ts'
import { complete, failed, requeued } from './changes.ts'
import { checkJob } from './checks.ts'

/** Opens a handle, as one process has it. The same `place` is the same data; a new `place` is empty. */
export type OpenStore = (params: { place: string; nowMs: () => number }) => Promise<Store> | Store

/**
 * What a promise is tried on: one handle on empty data with a few job types declared, more handles on the same data
 * when asked for, and a clock that stands still until it is moved.
 */
export class Bench {
  readonly clock = new VirtualClock()
  readonly chance: Chance = seededChance(1)
  readonly makeId: MakeId = idMaker(() => this.clock.nowMs(), fillFromChance(this.chance))
  readonly #openStore: OpenStore
  readonly #place: string
  readonly #handles = new Set<Store>()
  #store: Store | null = null
  #workers = 0

  private constructor(openStore: OpenStore, place: string) {
    this.#openStore = openStore
    this.#place = place
  }

  static async set(openStore: OpenStore, place: string): Promise<Bench> {
    const bench = new Bench(openStore, place)
    bench.#store = await bench.open()
    await bench.store.register({ types: TYPES })
    return bench
  }

  get store(): Store {
    assert(this.#store !== null)
    return this.#store
  }

  /** Another handle on the same data, as another process would have. (Where data cannot be shared: the same handle.) */
  async open(): Promise<Store> {
    const handle = await this.#openStore({ place: this.#place, nowMs: () => this.clock.nowMs() })
    this.#handles.add(handle)
    return handle
  }

  async openMany(count: number): Promise<[Store, ...Store[]]> {
    const more = await Promise.all(Array.from({ length: count - 1 }, () => this.open()))
    return [this.store, ...more]
  }

  /** Every process ends, and a new one opens the data. */
  async reopen(): Promise<Store> {
    await this.stop()
    this.#store = await this.open()
    return this.#store
  }

  async stop(): Promise<void> {
    for (const handle of this.#handles) await handle.stop()
    this.#handles.clear()
  }

  async declare(name: string, policy: TypeDeclaration['policy'], store = this.store): Promise<void> {
    await store.register({ types: [{ name, queue: 'default', policy }] })
  }

  // ---- doing ------------------------------------------------------------------------------------------------------

  newJob(parts: Partial<NewJob> = {}): NewJob {
    return {
      id: this.makeId(),
      type: 'plain',
      payload: '{}',
      owner: null,
      priority: 0,
      delayMs: 0,
      dedupe: null,
      retriedFrom: null,
      rejected: null,
      batch: null,
      limitKey: null,
      ...parts,
    }
  }

  /** Submits one job and answers with its id. */
  async submit(parts: Partial<NewJob> = {}, store = this.store): Promise<string> {
    const [submitted] = await store.submit({ jobs: [this.newJob(parts)] })
    assert(submitted !== undefined)
    return submitted.id
  }

  async worker(store = this.store): Promise<BenchWorker> {
    const id = `bench-worker-${++this.#workers}`
    return new BenchWorker(id, await store.enlist({ id, host: 'bench', pid: this.#workers, types: [] }), store)
  }

  /** A new job in the hands of a new worker. */
  async processing(parts: Partial<NewJob> = {}): Promise<{ id: string; lease: Lease; worker: BenchWorker }> {
    const id = await this.submit(parts)
    const worker = await this.worker()
    const lane: Lane = { type: parts.type ?? 'plain', ttlMs: LANES[0].ttlMs }
    const { leases } = await worker.claim({ max: 1_000, lanes: [lane] })
    const lease = leases.find((one) => one.id === id)
    assert(lease !== undefined, 'the job just submitted was not claimed')
    return { id, lease, worker }
  }

  /** A new job brought to a terminal state. */
  async finished(status: 'complete' | 'failed' | 'cancelled', parts: Partial<NewJob> = {}): Promise<string> {
    if (status === 'cancelled') {
      const id = await this.submit(parts)
      assert.equal(await this.intervene(id, { kind: 'cancel' }), 'done')
      return id
    }
    const { id, lease, worker } = await this.processing(parts)
    assert.equal(await worker.close(lease, status === 'complete' ? complete() : failed(lease)), 'closed')
    return id
  }

  /** Runs a queued job to its end. Other jobs claimed on the way are released to their place in the queue. */
  async finish(id: string, status: 'complete' | 'failed'): Promise<void> {
    const worker = await this.worker()
    for (const lease of (await worker.claim({ max: 1_000 })).leases) {
      const change = status === 'complete' ? complete() : failed(lease)
      await worker.close(lease, lease.id === id ? change : requeued('released', lease))
    }
    assert.equal((await this.row(id)).status, status)
  }

  /** Takes a job back, or reports it, as maintenance does after its lease ran out. */
  async reclaim({ key, attempt }: Lease, change: Reclaim['change'], expect: Reclaim['expect'] = 'expired') {
    const [answer] = await this.store.reclaim({ reclaims: [{ key, attempt, expect, change }] })
    return answer
  }

  /** Acts on a job as it stands now, or as the person is said to have seen it. */
  async intervene(id: string, act: Intervention['act'], expect?: Intervention['expect'], store = this.store) {
    const { status, attempt, retriedAs = null } = expect ?? (await this.row(id))
    return store.intervene({ id, actor: 'olga', reason: 'a test', expect: { status, attempt, retriedAs }, act })
  }

  /** Past the end of every lease the bench gives. */
  async expireLeases(): Promise<void> {
    await this.clock.advance(LANES[0].ttlMs + 1)
  }

  // ---- looking ----------------------------------------------------------------------------------------------------

  async row(id: string, store = this.store): Promise<JobRow> {
    const row = await store.job({ id })
    assert(row !== null, `job ${id} is gone`)
    return row
  }

  async kinds(id: string): Promise<JobEvent['kind'][]> {
    return (await this.store.events({ id })).map((event) => event.kind)
  }

  async lastEvent(id: string): Promise<JobEvent> {
    const event = (await this.store.events({ id })).at(-1)
    assert(event !== undefined, `job ${id} has no history`)
    return event
  }

  /** Everything there is to know about a job, except the evidence of writes that were refused. */
  async picture(id: string): Promise<{ row: JobRow; events: JobEvent[]; failures: StoredFailure[] }> {
    const events = (await this.store.events({ id })).filter((event) => event.kind !== 'lost')
    return { row: await this.row(id), events, failures: await this.store.failures({ id }) }
  }

  /** Tries what must not count: it is answered, and the job stays as it was. */
  async changesNothing(id: string, what: string, act: () => Promise<unknown>): Promise<void> {
    const before = await this.picture(id)
    await act()
    assert.deepEqual(await this.picture(id), before, `${what} changed the job`)
  }

  /** The same where the store may also refuse it with an error. */
  async changesNothingOrIsRefused(id: string, what: string, act: () => Promise<unknown>): Promise<void> {
    const refused = (error: unknown): void => {
      assert(error instanceof RedressError, `${what} was refused with ${String(error)}, which is not a RedressError`)
    }
    await this.changesNothing(id, what, () => act().catch(refused))
  }

  /** Every job in the store: does its row make sense, and does its history lead to it? */
  async checkAll(): Promise<void> {
    for (const row of await this.store.jobs({ limit: 10_000 })) {
      checkJob(row, await this.store.events({ id: row.id }))
    }
  }
}
