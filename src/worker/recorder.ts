import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Close, CloseAnswer, Store, WorkerKey } from '../store/store.ts'
import type { Flight } from './flight.ts'

interface Entry {
  flight: Flight
  close: Close
}

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
  readonly #answered: (flight: Flight, close: Close, answer: CloseAnswer) => void
  #pending: Entry[] = []
  #isSending = false
  #failures = 0

  constructor(
    store: Store,
    clock: Clock,
    log: Log,
    answered: (flight: Flight, close: Close, answer: CloseAnswer) => void,
  ) {
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#answered = answered
  }

  add(flight: Flight, close: Close): void {
    this.#pending.push({ flight, close })
  }

  get isIdle(): boolean {
    return this.#pending.length === 0 && !this.#isSending
  }

  /** Sends what is pending, unless a batch is under way: then its answer sends the rest. */
  send(worker: WorkerKey): void {
    if (this.#isSending || this.#pending.length === 0) return
    const batch = this.#pending
    this.#pending = []
    this.#isSending = true
    this.#store.close({ worker, closes: batch.map((entry) => entry.close) }).then(
      (answers) => {
        this.#isSending = false
        this.#failures = 0
        for (let i = 0; i < batch.length; i++) {
          const { flight, close } = batch[i] as Entry
          this.#answered(flight, close, answers[i] as CloseAnswer)
        }
        this.send(worker)
      },
      (error: unknown) => {
        this.#pending = [...batch, ...this.#pending]
        const delayMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.#failures++)
        this.#log.error(
          { err: error, outcomes: this.#pending.length, delay_ms: delayMs },
          'outcomes could not be recorded; will try again',
        )
        this.#clock.setTimer(delayMs, () => {
          this.#isSending = false
          this.send(worker)
        })
      },
    )
  }

  /** At the last moment of a process. */
  takeUnsent(): Entry[] {
    const entries = this.#pending
    this.#pending = []
    return entries
  }
}
