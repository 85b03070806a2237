import { expect } from 'vitest'
import type { Change } from '../../src/core/job/change.ts'
import type { JobEvent } from '../../src/core/job/events.ts'
import { packSpent, spendRelease, spendSnooze, unpackSpent } from '../../src/core/policy/budget.ts'
import { decide } from '../../src/core/policy/decide.ts'
import { type Policy, policy } from '../../src/core/policy/policy.ts'
import { seededChance } from '../../src/runtime/chance.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { fillFromChance, idMaker } from '../../src/runtime/id.ts'
import type {
  CloseAnswer,
  DedupeScope,
  JobRow,
  Lane,
  Lease,
  NewJob,
  Stalled,
  Store,
  WorkerKey,
} from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { changeForLost } from '../../src/worker/attempt/outcome.ts'
import { actFor, causeOfAct, someFailure } from './acts.ts'
import { type Cause, checkAlone, checkMove, holdsKey } from './laws.ts'
import type { Outcome, Step } from './steps.ts'

const TYPES: Record<string, Policy> = {
  retried: policy({
    retry: { max: 3, unknown: 'transient' },
    manualRetry: 'in-place',
    orphan: { action: 'requeue', maxReclaims: 2 },
  }),
  keeping: policy({
    retry: { max: 2, unknown: 'transient', backoff: { table: ['10s'] } },
    manualRetry: { mode: 'in-place', budget: 'keep' },
    orphan: 'fail',
    deadLetter: 'flag',
  }),
  lettered: policy({
    retry: { max: 3, unknown: 'dead-letter' },
    orphan: { action: 'requeue', budget: 'consume' },
    deadLetter: 'queue',
  }),
  forward: policy({ forwardOnly: true, cancel: false }),
  plain: policy(),
}
const NAMES = Object.keys(TYPES)
const TTL_MS = 30_000
const MAINTENANCE_START_MS = 60_000

interface Hands {
  key: WorkerKey
  held: Lease[]
}

interface Holding {
  lease: Lease
  worker: WorkerKey
}

interface Submission extends NewJob {
  dedupe: { key: string; scope: DedupeScope } | null
}

/**
 * A store in memory and everybody who uses it: three workers, their zombies, maintenance, a person who may look at old
 * pages. Each step is predicted from the rows before it where that is possible, and checked against the laws after it.
 */
export class StoreWorld {
  readonly clock = new VirtualClock()
  readonly store: Store = openSqlite({ path: ':memory:', nowMs: () => this.clock.nowMs() })
  readonly #makeId = idMaker(() => this.clock.nowMs(), fillFromChance(seededChance(1)))
  readonly #workers: Hands[] = []
  readonly #zombies: Holding[] = []
  readonly #submissions = new Map<string, Submission>()
  readonly #handedOut = new Set<string>()
  /** The newest event of each job. */
  readonly #seqs = new Map<string, number>()
  #rows = new Map<string, JobRow>()
  #stalled: Stalled[] = []
  #glanced: JobRow | null = null
  #lastSeq = 0
  #latestMs = 0

  static async open(): Promise<StoreWorld> {
    const world = new StoreWorld()
    const types = Object.entries(TYPES).map(([name, each]) => ({ name, queue: 'default', policy: each }))
    await world.store.register({ types })
    for (let i = 0; i < 3; i++) await world.#hire(`worker-${i}`)
    return world
  }

  async take(step: Step): Promise<void> {
    this.#latestMs = Math.max(this.#latestMs, this.clock.nowMs())
    switch (step.do) {
      case 'submit':
        return this.#submit(step)
      case 'claim':
        return this.#claim(step)
      case 'start':
      case 'renew':
        return this.#holdOn(step)
      case 'close':
        return this.#close(step)
      case 'crash':
        return this.#crash(step.worker)
      case 'zombie':
        return this.#zombie(step)
      case 'look':
        return this.#look()
      case 'reclaim':
        return this.#reclaim()
      case 'maintain':
        await this.#look()
        return this.#reclaim()
      case 'glance':
        this.#glanced = among([...this.#rows.values()], step.pick) ?? null
        return
      case 'intervene':
        return this.#intervene(step)
      case 'delete':
        return this.#delete(step)
      case 'advance':
        return this.clock.advance(step.ms)
      case 'jump':
        return this.clock.jump(step.ms)
      case 'prune':
        return this.#prune(step.keepMs)
    }
  }

  /** Whatever happened, the jobs that nobody touched are as they were, and no job is gone. */
  async finish(): Promise<void> {
    await this.#observe(new Map())
    for (const row of this.#rows.values()) checkAlone(row, await this.store.events({ id: row.id }))
    await this.store.stop()
  }

  async #hire(id: string): Promise<void> {
    const key = await this.store.enlist({ id, host: 'here', pid: 1, types: [] })
    this.#workers.push({ key, held: [] })
  }

  // ---- steps ------------------------------------------------------------------------------------------------------

  async #submit(step: Extract<Step, { do: 'submit' }>): Promise<void> {
    const known = [...this.#submissions.values()]
    const before = step.repeats === null ? undefined : among(known, step.repeats)
    const type = NAMES[step.type % NAMES.length] as string
    const dedupe = step.key === null ? null : { key: `k${step.key}`, scope: step.scope }
    const fresh: Submission = {
      ...{ id: this.#makeId(), type, payload: '{}', owner: null, priority: step.priority, delayMs: step.delayMs },
      ...{ dedupe, retriedFrom: null, rejected: null, batch: null, limitKey: null },
    }
    const job = before ?? fresh
    const twin = this.#rows.get(job.id) ?? this.#holderOf(job)
    const [answer] = await this.store.submit({ jobs: [job] })
    expect(answer).toEqual(
      twin === undefined
        ? { id: job.id, isNew: true, status: 'queued' }
        : { id: twin.id, isNew: false, status: twin.status },
    )
    if (twin === undefined) this.#submissions.set(job.id, job)
    await this.#observe(new Map(), twin === undefined ? [job.id] : [])
  }

  async #claim({ worker, lanes, max, starts }: Extract<Step, { do: 'claim' }>): Promise<void> {
    const { key, held } = this.#worker(worker)
    const served = NAMES.filter((_, i) => (lanes & (1 << i)) !== 0)
    const asked: Lane[] = served.map((type) => ({ type, ttlMs: TTL_MS }))
    const nowMs = this.clock.nowMs()
    const mine = [...this.#rows.values()].filter((row) => row.status === 'queued' && served.includes(row.type))
    const due = mine.filter((row) => (row.dueAtMs ?? 0) <= nowMs).toSorted(byTurn)
    // Was due once, before the clock was set back: may have been moved to the line then, or not.
    const perhaps = mine.filter((row) => (row.dueAtMs ?? 0) > nowMs && (row.dueAtMs ?? 0) <= this.#latestMs)
    const { leases } = await this.store.claim({ worker: key, lanes: asked, max })
    const ids = leases.map(({ id }) => id)
    if (perhaps.length === 0) expect(ids).toEqual(due.slice(0, max).map(({ id }) => id))
    else {
      const candidates = [...due, ...perhaps].toSorted(byTurn).map(({ id }) => id)
      expect(ids).toEqual(candidates.filter((id) => ids.includes(id)))
      expect(ids.length).toBeGreaterThanOrEqual(Math.min(max, due.length))
    }
    for (const lease of leases) {
      const token = `${lease.key}/${lease.attempt}`
      expect(this.#handedOut.has(token), `attempt ${token} was handed out twice`).toBe(false)
      this.#handedOut.add(token)
      expect(lease.attempt).toBe((this.#rows.get(lease.id)?.attempt ?? 0) + 1)
    }
    held.push(...leases)
    await this.#observe(new Map(ids.map((id) => [id, 'claim' as const])))
    for (const id of ids) this.#expectLeaseFromNow(id)
    if (starts) for (const lease of leases) await this.#write('start', { lease, worker: key })
  }

  async #holdOn(step: { do: 'start' | 'renew'; pick: number }): Promise<void> {
    const holding = among(this.#holdings(), step.pick)
    if (holding !== undefined) await this.#write(step.do, holding)
  }

  async #close({ pick, outcome }: Extract<Step, { do: 'close' }>): Promise<void> {
    const holding = among(this.#holdings(), pick)
    if (holding === undefined) return
    for (const hands of this.#workers) hands.held = hands.held.filter((lease) => lease !== holding.lease)
    await this.#write('close', holding, outcome)
    // It may not know that its close arrived, and send it again.
    this.#zombies.push(holding)
  }

  #holdings(): Holding[] {
    return this.#workers.flatMap(({ key, held }) => held.map((lease) => ({ lease, worker: key })))
  }

  async #crash(worker: number): Promise<void> {
    const hands = this.#worker(worker)
    this.#zombies.push(...hands.held.map((lease) => ({ lease, worker: hands.key })))
    hands.held = []
  }

  async #zombie({ pick, write, outcome }: Extract<Step, { do: 'zombie' }>): Promise<void> {
    const holding = among(this.#zombies, pick)
    if (holding !== undefined) await this.#write(write, holding, outcome)
  }

  /** A worker's write. It counts exactly if the attempt is the job's present one and is open. */
  async #write(write: 'start' | 'renew' | 'close', { lease, worker }: Holding, outcome?: Outcome): Promise<void> {
    const { key, attempt, id } = lease
    const row = this.#rows.get(id)
    const counts = row?.status === 'processing' && row.attempt === attempt
    const change = outcome === undefined ? null : this.#changeFor(lease, outcome)
    let answer: CloseAnswer
    if (write === 'start') {
      const { lost } = await this.store.start({ worker, attempts: [{ key, attempt, agoMs: 10 }] })
      answer = lost.includes(key) ? 'lost' : 'closed'
    } else if (write === 'renew') {
      const leases = [{ key, attempt, ttlMs: TTL_MS }]
      const { lost } = await this.store.renew({ worker, leases })
      answer = lost.includes(key) ? 'lost' : 'closed'
    } else {
      const closes = [{ key, attempt, change: change as Change, ranMs: 20 }]
      const refuses = counts && row.isForwardOnly && change?.to === 'queued' && row.cancelRequestedAtMs === null
      const answers = await this.store.close({ worker, closes }).catch((error: unknown) => error)
      if (refuses) {
        expect(answers).toMatchObject({ code: 'STORE_FAILED' })
        return this.#observe(new Map())
      }
      answer = (answers as CloseAnswer[])[0] as CloseAnswer
    }
    expect(answer, `${write} of ${id}/${attempt}`).toBe(counts ? 'closed' : 'lost')
    await this.#observe(new Map(counts ? [[id, causeOf(write, change, row)]] : []))
    if (counts && write === 'renew') this.#expectLeaseFromNow(id)
    if (!counts && row !== undefined) await this.#expectEvidence(id, attempt, write)
  }

  #expectLeaseFromNow(id: string): void {
    expect(this.#rows.get(id)?.lease?.untilMs, `the lease of ${id}`).toBe(this.clock.nowMs() + TTL_MS)
  }

  async #expectEvidence(id: string, attempt: number, write: string): Promise<void> {
    const events = await this.store.events({ id })
    expect(events.at(-1)).toMatchObject({ kind: 'lost', attempt, data: { write } })
    this.#lastSeq = Math.max(this.#lastSeq, this.#newestOf(id, events))
  }

  async #look(): Promise<void> {
    this.#stalled = await this.store.stalled({ unstartedForMs: MAINTENANCE_START_MS, limit: 100 })
  }

  /** Maintenance acts on what it saw, perhaps a while ago. */
  async #reclaim(): Promise<void> {
    const nowMs = this.clock.nowMs()
    const moved = new Map<string, Cause>()
    for (const job of this.#stalled) {
      const each = TYPES[job.type] as Policy
      const lost = { ...job, isStarted: job.startedAtMs !== null, detail: 'gone', context: {} }
      const change = changeForLost(lost, each, {}, job.nowMs)
      const expired = lost.isStarted ? ('expired' as const) : ('expired-unstarted' as const)
      const expected = job.isExpired ? expired : ('unstarted' as const)
      const row = this.#rows.get(job.id)
      const isStill =
        row?.status === 'processing' &&
        row.attempt === job.attempt &&
        (!job.isExpired || (row.lease?.untilMs ?? 0) <= nowMs) &&
        (lost.isStarted || row.startedAtMs === null) &&
        !(change.to === 'orphaned' && row.orphanedAtMs !== null)
      const [answer] = await this.store.reclaim({
        reclaims: [{ key: job.key, attempt: job.attempt, expect: expected, change }],
      })
      expect(answer, `reclaim of ${job.id} as ${expected}`).toBe(isStill ? 'closed' : 'lost')
      if (isStill && change.to !== 'orphaned') moved.set(job.id, causeOfReclaim(change, row))
    }
    this.#stalled = []
    await this.#observe(moved)
  }

  /** A person acts on a page that may be old. */
  async #intervene({ act, pick, isFresh }: Extract<Step, { do: 'intervene' }>): Promise<void> {
    const page = isFresh ? among([...this.#rows.values()], pick) : this.#glanced
    if (page === undefined || page === null) return
    const wanted = actFor(act, page)
    if (wanted === null) return
    const { id } = page
    const row = this.#rows.get(id)
    const holder = row === undefined ? undefined : this.#holderOf(this.#submissions.get(id) as Submission)
    const retriesOf = (job: JobRow) => unpackSpent(job.spent).manualRetries
    const isMoved =
      row === undefined ||
      row.status !== page.status ||
      row.attempt !== page.attempt ||
      ('spent' in wanted && retriesOf(row) !== retriesOf(page))
    const isTaken = wanted.kind === 'retry-in-place' && holder !== undefined && holder.id !== id
    if (wanted.kind === 'replace-input' && page.attempt > 0 && !isMoved) {
      const refused = this.store.intervene({
        ...{ id, actor: 'olga', reason: 'chance', act: wanted },
        expect: { status: page.status, attempt: page.attempt },
      })
      await expect(refused).rejects.toMatchObject({ code: 'JOB_WRONG_STATE' })
      return this.#observe(new Map())
    }
    const answer = await this.store.intervene({
      ...{ id, actor: 'olga', reason: 'chance', act: wanted },
      expect: { status: page.status, attempt: page.attempt },
    })
    expect(answer).toBe(isMoved ? 'moved-on' : isTaken ? 'dedupe-taken' : 'done')
    await this.#observe(new Map(answer === 'done' ? [[id, causeOfAct(wanted.kind, page)]] : []))
    // A job may get the time that it has: then only its history shows it.
    if (answer === 'done') this.#lastSeq = Math.max(this.#lastSeq, this.#newestOf(id, await this.store.events({ id })))
  }

  async #delete({ pick, isFresh, isForced }: Extract<Step, { do: 'delete' }>): Promise<void> {
    const page = isFresh ? among([...this.#rows.values()], pick) : this.#glanced
    if (page === undefined || page === null || page.finishedAtMs === null) return
    const { id, status, attempt } = page
    const row = this.#rows.get(id)
    const isMoved = row === undefined || row.status !== status || row.attempt !== attempt
    const letters = await this.store.deadLetters({ afterOffset: 0, limit: 1_000 })
    const isOpen = letters.some((letter) => letter.jobId === id)
    const answer = await this.store.deleteJob({
      ...{ id, actor: 'olga', reason: 'chance', expect: { status, attempt }, isForced, cleanup: null },
    })
    expect(answer).toBe(isMoved ? 'moved-on' : isOpen && !isForced ? 'letter-open' : 'done')
    if (answer === 'done') {
      this.#rows.delete(id)
      this.#submissions.delete(id)
      // Its event is numbered after everything that was there.
      this.#lastSeq = Math.max(this.#lastSeq, await this.store.lastSeq())
      expect(await this.store.events({ id })).toEqual([])
      expect(await this.store.failures({ id })).toEqual([])
    }
    await this.#observe(new Map())
  }

  async #prune(keepMs: number): Promise<void> {
    const rules = NAMES.map((type) => ({ type, completeMs: keepMs, failedMs: keepMs, cancelledMs: keepMs }))
    const nowMs = this.clock.nowMs()
    const letters = await this.store.deadLetters({ afterOffset: 0, limit: 1_000 })
    const kept = new Set(letters.map(({ jobId }) => jobId))
    const goes = [...this.#rows.values()].filter(
      (row) => row.finishedAtMs !== null && row.finishedAtMs <= nowMs - keepMs && !kept.has(row.id),
    )
    let removed = 0
    for (let after: number | null = 0; after !== null; ) {
      const step: { removed: number; cursor: number | null } = await this.store.prune({ rules, after, limit: 3 })
      removed += step.removed
      after = step.cursor
    }
    expect(removed).toBe(goes.length)
    for (const { id } of goes) {
      this.#rows.delete(id)
      this.#submissions.delete(id)
    }
    await this.#observe(new Map())
  }

  // ---- laws -------------------------------------------------------------------------------------------------------

  /** Reads every row; what changed must have been moved by what was just done, and must be lawful. */
  async #observe(moved: ReadonlyMap<string, Cause>, added: readonly string[] = []): Promise<void> {
    const rows = await this.store.jobs({ limit: 10_000 })
    expect(new Set(rows.map(({ id }) => id)), 'a job is gone, or nobody knows where one came from').toEqual(
      new Set([...this.#rows.keys(), ...added]),
    )
    let newestSeq = this.#lastSeq
    for (const row of rows) {
      const before = this.#rows.get(row.id)
      if (before !== undefined && isSame(before, row)) {
        expect(moved.get(row.id) ?? 'none', `${row.id} was to be moved and was not`).toBe('none')
        continue
      }
      const events = await this.store.events({ id: row.id })
      checkAlone(row, events)
      if (before !== undefined) checkMove(before, row, moved.get(row.id) ?? 'none')
      newestSeq = Math.max(newestSeq, this.#newestOf(row.id, events))
    }
    this.#lastSeq = newestSeq
    this.#rows = new Map(rows.map((row) => [row.id, row]))
    this.#checkKeys()
  }

  /** What is new in a history is numbered after everything that was there in the whole store. */
  #newestOf(id: string, events: readonly JobEvent[]): number {
    // The claim of an attempt under way has a preliminary number until another event tells of it.
    const last = events.findLast(({ kind }) => kind !== 'lost')
    const told = events.filter((event) => event !== last || event.kind !== 'processing' || event.seq % 2 === 0)
    const isNew = (event: JobEvent) => event.seq > (this.#seqs.get(id) ?? 0)
    for (const { seq, kind } of told.filter(isNew)) {
      expect(seq, `the number of a new event (${kind}) was given before`).toBeGreaterThan(this.#lastSeq)
    }
    const newest = told.at(-1)?.seq ?? 0
    this.#seqs.set(id, newest)
    return newest
  }

  #checkKeys(): void {
    const taken = new Set<string>()
    for (const row of this.#rows.values()) {
      const dedupe = this.#submissions.get(row.id)?.dedupe
      if (!dedupe || !holdsKey(row, dedupe.scope)) continue
      const name = `${row.type} ${dedupe.key}`
      expect(taken.has(name), `${name} is held by two jobs`).toBe(false)
      taken.add(name)
    }
  }

  #holderOf({ type, dedupe }: Submission): JobRow | undefined {
    if (dedupe === null) return undefined
    return [...this.#rows.values()].find((row) => {
      const its = this.#submissions.get(row.id)?.dedupe
      return row.type === type && its?.key === dedupe.key && holdsKey(row, its.scope)
    })
  }

  #worker(index: number): Hands {
    return this.#workers[index % this.#workers.length] as Hands
  }

  /** What core would have the worker record. */
  #changeFor(lease: Lease, outcome: Outcome): Change {
    const spent = unpackSpent(lease.spent)
    const requeue = { to: 'queued' as const, failure: null, note: null }
    switch (outcome) {
      case 'complete':
        return { to: 'complete', result: '1' }
      case 'cancelled':
        return { to: 'cancelled', note: null }
      case 'snooze':
        return { ...requeue, cause: 'snoozed', delayMs: 5_000, spent: packSpent(spendSnooze(spent)) }
      case 'release':
        return { ...requeue, cause: 'released', delayMs: 0, spent: packSpent(spendRelease(spent)) }
      default: {
        const soFar = { spent, attempt: lease.attempt, createdAtMs: lease.queuedAtMs }
        const facts = { code: outcome.toUpperCase(), retry: outcome, retryAfterMs: null }
        const decision = decide(soFar, facts, TYPES[lease.type] as Policy, this.clock.nowMs(), 0.5)
        const failure = { ...someFailure(lease.type, facts.code), decision: decision.reasons }
        const after = packSpent(decision.spent)
        return decision.kind === 'retry'
          ? { ...requeue, cause: 'retry', delayMs: decision.delayMs, spent: after, failure }
          : { to: 'failed', spent: after, failure, deadLetter: decision.deadLetter, isPermanent: decision.isPermanent }
      }
    }
  }
}

function causeOf(write: string, change: Change | null, row: JobRow | undefined): Cause {
  if (write !== 'close' || change === null) return 'none'
  if (change.to !== 'queued') return change.to === 'cancelled' ? 'cancel' : 'close'
  if (row?.cancelRequestedAtMs !== null) return 'cancel'
  const causes = { retry: 'retry', released: 'release', snoozed: 'snooze', reclaimed: 'reclaim' } as const
  return causes[change.cause]
}

function causeOfReclaim(change: Exclude<Change, { to: 'complete' }>, row: JobRow): Cause {
  if (change.to === 'cancelled' || (change.to === 'queued' && row.cancelRequestedAtMs !== null)) return 'cancel'
  return change.to === 'queued' ? 'reclaim' : 'close'
}

const byTurn = (a: JobRow, b: JobRow): number =>
  b.priority - a.priority || a.createdAtMs - b.createdAtMs || a.key - b.key

function among<T>(all: readonly T[], pick: number): T | undefined {
  return all[pick % Math.max(1, all.length)]
}

const isSame = (a: JobRow, b: JobRow): boolean => JSON.stringify(a) === JSON.stringify(b)
