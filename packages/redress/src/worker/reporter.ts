import { Alarm, type Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Report } from '../store/contract/reports.ts'
import type { Store, WorkerKey } from '../store/contract/store.ts'
import type { Flight } from './attempt/flight.ts'
import type { Sent } from './attempt/report-book.ts'
import { answerOrThrow, Trouble } from './store-calls.ts'

const AGAIN_MS = 1_000

/**
 * Sends what handlers report to the store, for all attempts of a worker together: the first progress at once, further
 * progress and lines within a second. The close of an attempt takes along what was not acknowledged by then.
 */
export class Reporter {
  readonly #store: Store
  readonly #clock: Clock
  readonly #trouble: Trouble
  readonly #lost: (flight: Flight) => void
  readonly #scheduleCycle: () => void
  readonly #alarm: Alarm
  readonly #open = new Set<Flight>()
  #isSending = false

  constructor(store: Store, clock: Clock, log: Log, lost: (flight: Flight) => void, scheduleCycle: () => void) {
    this.#store = store
    this.#clock = clock
    this.#trouble = new Trouble(clock, log)
    this.#lost = lost
    this.#scheduleCycle = scheduleCycle
    this.#alarm = new Alarm(clock, scheduleCycle)
  }

  /** False while an answer is due without a timer. */
  get isIdle(): boolean {
    return !this.#isSending
  }

  /** The handler of this attempt has reported something. */
  changed(flight: Flight): void {
    this.#open.add(flight)
    this.#await(flight)
  }

  #await({ reports }: Flight): void {
    const dueMonoMs = reports?.dueMonoMs ?? Number.POSITIVE_INFINITY
    if (dueMonoMs <= this.#clock.monoMs()) this.#scheduleCycle()
    else if (Number.isFinite(dueMonoMs)) this.#alarm.setAt(dueMonoMs)
  }

  /** Sends what is due, unless a call is under way: its answer sends the rest. */
  send(worker: WorkerKey): void {
    if (this.#isSending || this.#open.size === 0) return
    if (this.#trouble.isWaiting) {
      this.#alarm.setWithin(AGAIN_MS)
      return
    }
    const due = this.#takeDue()
    if (due.length === 0) return
    this.#isSending = true
    void this.#send(worker, due).then((isAnswered) => {
      this.#isSending = false
      if (!isAnswered) this.#alarm.setWithin(AGAIN_MS)
      else for (const flight of this.#open) this.#await(flight)
    })
  }

  stop(): void {
    this.#alarm.cancel()
    this.#open.clear()
  }

  #takeDue(): Taken[] {
    const nowMonoMs = this.#clock.monoMs()
    const taken: Taken[] = []
    for (const flight of this.#open) {
      const { reports, state } = flight
      // The close of an attempt carries its last report.
      if (reports === null || state.kind !== 'running' || reports.dueMonoMs === Number.POSITIVE_INFINITY) {
        this.#open.delete(flight)
        continue
      }
      const content = reports.dueMonoMs <= nowMonoMs ? reports.take() : null
      if (content === null) this.#await(flight)
      else taken.push({ flight, ...content })
    }
    return taken
  }

  async #send(worker: WorkerKey, taken: readonly Taken[]): Promise<boolean> {
    const reports = taken.map(({ flight: { lease }, report }) => ({
      ...report,
      key: lease.key,
      attempt: lease.attempt,
    }))
    try {
      const { lost } = await answerOrThrow(this.#clock, this.#store.report({ worker, reports }))
      this.#trouble.ended()
      for (const { flight, sent } of taken) {
        flight.reports?.acknowledge(sent)
        if (lost.includes(flight.lease.key)) this.#lost(flight)
      }
      return true
    } catch (error) {
      this.#trouble.failed(
        { err: error, attempts: taken.length },
        'reports of handlers could not be kept; will try again',
      )
      return false
    }
  }
}

interface Taken {
  readonly flight: Flight
  readonly report: Omit<Report, 'key' | 'attempt'>
  readonly sent: Sent
}
