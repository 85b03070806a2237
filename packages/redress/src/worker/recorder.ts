import type { Clock, Timer } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Close, CloseAnswer, Store, WorkerKey } from '../store/contract/store.ts'
import type { Flight } from './attempt/flight.ts'
import { closeForExit } from './attempt/outcome.ts'
import { answerOrThrow, Trouble } from './store-calls.ts'

/**
 * Records that attempts began. Most attempts end at once, and then their close says so. The starts of the others are
 * recorded together, one turn of the event loop later.
 */
export class StartRecorder {
  readonly #store: Store
  readonly #clock: Clock
  readonly #log: Log
  readonly #trouble: Trouble
  readonly #lost: (flight: Flight) => void
  #unsent: Flight[] = []
  #underWay = 0
  #isScheduled = false

  constructor(store: Store, clock: Clock, log: Log, lost: (flight: Flight) => void) {
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#trouble = new Trouble(clock, log)
    this.#lost = lost
  }

  /** False while an attempt waits for the record of its start. */
  get isIdle(): boolean {
    return this.#underWay === 0
  }

  /** Before the attempt begins. False when it may not begin, because the lease is lost. */
  async recordNow(worker: WorkerKey, flight: Flight): Promise<boolean> {
    this.#underWay++
    const { key, attempt, expiresAtMs } = flight.lease
    const hasTtl = expiresAtMs !== null
    try {
      const started = this.#store.start({ worker, attempts: [{ key, attempt, agoMs: 0, ...(hasTtl && { hasTtl }) }] })
      const { lost } = await answerOrThrow(this.#clock, started)
      if (lost.length === 0) return true
    } catch (error) {
      // Nothing ran yet. The lease runs out by itself, and then the policy decides about a job that never started.
      this.#log.error({ err: error, job_id: flight.lease.id }, 'the start of an attempt could not be recorded')
    } finally {
      this.#underWay--
    }
    this.#lost(flight)
    return false
  }

  recordLater(worker: WorkerKey, flight: Flight): void {
    this.#unsent.push(flight)
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.send(worker)
    })
  }

  send(worker: WorkerKey): void {
    const starts = this.#unsent.filter((flight) => flight.state.kind === 'running' || isHeldUp(flight))
    // The close of an attempt also records its start, unless the store refuses the close.
    this.#unsent = this.#unsent.filter((flight) => flight.state.kind === 'closing' && !isHeldUp(flight))
    if (starts.length === 0) return
    if (this.#trouble.isWaiting) {
      this.#unsent.push(...starts)
      return
    }
    const nowMonoMs = this.#clock.monoMs()
    const attempts = starts.map(({ lease: { key, attempt }, startedMonoMs }) => {
      return { key, attempt, agoMs: nowMonoMs - (startedMonoMs ?? nowMonoMs) }
    })
    answerOrThrow(this.#clock, this.#store.start({ worker, attempts })).then(
      ({ lost }) => {
        this.#trouble.ended()
        for (const flight of starts) if (lost.includes(flight.lease.key)) this.#lost(flight)
      },
      (error: unknown) => {
        this.#trouble.failed({ err: error }, 'starts could not be recorded; will try again')
        // Without this record, a job that runs for long would be taken for one that never started, and reclaimed.
        this.#unsent.push(...starts)
      },
    )
  }
}

/**
 * It ended, but its outcome could not be recorded yet: it must not be taken for one that never started. While its
 * outcome is with the store again, no start is sent: it would arrive after the close, as if from a lost worker.
 */
const isHeldUp = ({ state }: Flight): boolean => state.kind === 'closing' && state.record === 'refused'

interface Entry {
  flight: Flight
  close: Close
  /** An outcome that was sent twice may be answered twice: the first answer counts. */
  isAnswered: boolean
}

const isUnanswered = ({ isAnswered }: Entry) => !isAnswered

const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 5_000

/**
 * Sends closes to the store in batches: what arrives while one is under way joins the next. An outcome that cannot be
 * recorded is kept and sent again until the store answers; until then the job is not complete, and its lease is kept.
 */
export class Recorder {
  readonly #store: Store
  readonly #clock: Clock
  readonly #log: Log
  readonly #answered: (flight: Flight, answer: CloseAnswer) => void
  #pending: Entry[] = []
  /** Refused by the store, and sent again later. Kept apart, so that new outcomes do not wait for them. */
  #refused: Entry[] = []
  /** With the store, and not answered yet. */
  #sending: readonly Entry[] = []
  #isSending = false
  #retryTimer: Timer | null = null
  #failures = 0
  #isEnded = false

  constructor(store: Store, clock: Clock, log: Log, answered: (flight: Flight, answer: CloseAnswer) => void) {
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#answered = answered
  }

  add(flight: Flight, close: Close): void {
    this.#pending.push({ flight, close, isAnswered: false })
  }

  get isIdle(): boolean {
    return this.#pending.length === 0 && this.#refused.length === 0 && this.#sending.length === 0
  }

  /** An answer is due without a timer. */
  get isMoving(): boolean {
    return this.#pending.length > 0 || this.#sending.length > 0
  }

  /** Sends what is pending, unless a batch is under way: then its answer sends the rest. */
  send(worker: WorkerKey): void {
    if (this.#isSending || this.#pending.length === 0 || this.#isEnded) return
    const batch = this.#pending
    this.#pending = []
    this.#sending = batch
    this.#isSending = true
    void this.#record(worker, batch).then(() => {
      this.#sending = []
      this.#isSending = false
      this.send(worker)
    })
  }

  async #record(worker: WorkerKey, batch: readonly Entry[]): Promise<void> {
    for (const { flight } of batch) mark(flight, 'sent')
    try {
      const closing = this.#store.close({ worker, closes: batch.map((entry) => entry.close) })
      // A late answer after the timeout is still the answer.
      await answerOrThrow(
        this.#clock,
        closing.then((answers) => this.#settle(batch, answers)),
      )
      this.#failures = 0
    } catch (error) {
      // One outcome that the store refuses must not block the others.
      if (batch.length > 1) await Promise.all(batch.map((entry) => this.#record(worker, [entry])))
      else for (const entry of batch) this.#refuse(worker, entry, error)
    }
  }

  #settle(batch: readonly Entry[], answers: readonly CloseAnswer[]): void {
    if (this.#isEnded) return
    const isFresh = batch.map(isUnanswered)
    for (const entry of batch) entry.isAnswered = true
    this.#sending = this.#sending.filter(isUnanswered)
    this.#refused = this.#refused.filter(isUnanswered)
    this.#pending = this.#pending.filter(isUnanswered)
    for (let i = 0; i < batch.length; i++) {
      if (isFresh[i]) this.#answered((batch[i] as Entry).flight, answers[i] as CloseAnswer)
    }
  }

  #refuse(worker: WorkerKey, entry: Entry, error: unknown): void {
    if (entry.isAnswered) return
    mark(entry.flight, 'refused')
    this.#refused.push(entry)
    if (this.#retryTimer !== null || this.#isEnded) return
    const delayMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.#failures++)
    this.#log.error({ err: error, job_id: entry.flight.lease.id, delay_ms: delayMs }, REFUSED)
    this.#retryTimer = this.#clock.setTimer(delayMs, () => {
      this.#retryTimer = null
      this.#pending = [...this.#refused, ...this.#pending]
      this.#refused = []
      this.send(worker)
    })
  }

  /** Sends nothing more. Answers with the outcomes that may be unrecorded, for the exit of the process. */
  end(): Close[] {
    this.#isEnded = true
    this.#retryTimer?.cancel()
    const unrecorded = [...this.#sending, ...this.#refused, ...this.#pending]
      .filter(({ isAnswered }) => !isAnswered)
      .map(({ close }) => close)
    this.#refused = []
    this.#pending = []
    return unrecorded
  }
}

/** A flight whose lease was lost meanwhile is not marked: the worker renews and reports nothing of it any more. */
function mark({ state }: Flight, record: 'sent' | 'refused'): void {
  if (state.kind === 'closing') state.record = record
}

const REFUSED = 'outcomes could not be recorded; will try again'

type AtExit = (exitCode: number) => void

const waiting = new Set<AtExit>()

/** One listener for all workers of the process. Returns a function that removes `atExit` again. */
export function beforeProcessExit(atExit: AtExit): () => void {
  if (waiting.size === 0) process.on('exit', runAll)
  waiting.add(atExit)
  return () => {
    if (waiting.delete(atExit) && waiting.size === 0) process.off('exit', runAll)
  }
}

function runAll(exitCode: number): void {
  for (const atExit of waiting) atExit(exitCode)
}

interface LastMoment {
  store: Store
  log: Log
  worker: WorkerKey
  held: readonly Flight[]
  /** Outcomes that are not known to be recorded. */
  unsent: readonly Close[]
  exitCode: number
  nowMonoMs: number
}

/** Records outcomes synchronously when the process exits while it holds jobs. */
export function recordAtExit({ store, log, worker, held, unsent, exitCode, nowMonoMs }: LastMoment): void {
  if (store.closeNow === undefined) return
  const running = held.filter((flight) => flight.state.kind === 'running').map((flight) => flight.lease.id)
  if (running.length > 0) {
    log.error({ exit_code: exitCode, running }, 'the process ends while jobs run in it: did one call process.exit?')
  }
  const lost = held.flatMap((flight) => closeForExit(flight, exitCode, nowMonoMs))
  try {
    store.closeNow({ worker, closes: [...unsent, ...lost] })
  } catch (error) {
    // The leases expire by themselves; only the reason is missing then.
    log.error({ err: error }, 'the process ends, and what it was doing could not be recorded')
  }
}
