import type { Clock, Timer } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import type { Close, CloseAnswer, Store, WorkerKey } from '../../store/contract/store.ts'
import type { Flight } from '../attempt/flight.ts'
import { answerOrThrow } from '../patience.ts'

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
  /** Refused by the store, and to be sent again. Kept apart: what is new must not wait for them. */
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

  /** Something will be answered without time going by. */
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
      // One outcome that the store will not take must not keep it from taking the others.
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

  /** Sends nothing more; answers with what is not known to be recorded, for the last moment of a process. */
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

/** A flight whose lease was lost meanwhile is not marked: nothing is renewed or told of it any more. */
function mark({ state }: Flight, record: 'sent' | 'refused'): void {
  if (state.kind === 'closing') state.record = record
}

const REFUSED = 'outcomes could not be recorded; will try again'
