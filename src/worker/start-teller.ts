import type { Clock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import type { Store, WorkerKey } from '../store/store.ts'
import type { Flight } from './flight.ts'
import { answerOrThrow } from './patience.ts'
import { Trouble } from './trouble.ts'

/**
 * Records that attempts really began. Most end before anybody could tell, and then their close says it all; the others
 * are told together, a turn of the event loop later.
 */
export class StartTeller {
  readonly #store: Store
  readonly #clock: Clock
  readonly #log: Log
  readonly #trouble: Trouble
  readonly #lost: (flight: Flight) => void
  #toTell: Flight[] = []
  #underWay = 0
  #isScheduled = false

  constructor(store: Store, clock: Clock, log: Log, lost: (flight: Flight) => void) {
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#trouble = new Trouble(clock, log)
    this.#lost = lost
  }

  /** Somebody waits for an answer before the attempt may begin. */
  get isIdle(): boolean {
    return this.#underWay === 0
  }

  get hasUntold(): boolean {
    return this.#toTell.length > 0
  }

  /** Before it begins; false when it may not, because it is not ours any more. */
  async tellNow(worker: WorkerKey, flight: Flight): Promise<boolean> {
    flight.isStartTold = true
    this.#underWay++
    const { key, attempt } = flight.lease
    try {
      const told = this.#store.start({ worker, attempts: [{ key, attempt, agoMs: 0 }] })
      const { lost } = await answerOrThrow(this.#clock, told)
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

  tellLater(worker: WorkerKey, flight: Flight): void {
    this.#toTell.push(flight)
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.send(worker)
    })
  }

  send(worker: WorkerKey): void {
    const untold = this.#toTell.filter((flight) => !flight.isStartTold)
    const starts = untold.filter((flight) => flight.state === 'running' || isHeldUp(flight))
    // An attempt that is closing has its start told by its close, unless that close cannot be recorded.
    this.#toTell = untold.filter((flight) => flight.state === 'closing' && !isHeldUp(flight))
    if (starts.length === 0) return
    if (this.#trouble.isWaiting) {
      this.#toTell.push(...starts)
      return
    }
    const nowMonoMs = this.#clock.monoMs()
    const attempts = starts.map((flight) => {
      flight.isStartTold = true
      const { key, attempt } = flight.lease
      return { key, attempt, agoMs: nowMonoMs - (flight.startedMonoMs ?? nowMonoMs) }
    })
    answerOrThrow(this.#clock, this.#store.start({ worker, attempts })).then(
      ({ lost }) => {
        this.#trouble.isOver()
        for (const flight of starts) if (lost.includes(flight.lease.key)) this.#lost(flight)
      },
      (error: unknown) => {
        this.#trouble.failed({ err: error }, 'starts could not be recorded; will try again')
        // Left untold, a job that runs for long would be taken for one that never started, and taken away.
        for (const flight of starts) flight.isStartTold = false
        this.#toTell.push(...starts)
      },
    )
  }
}

/**
 * It ended, but its outcome could not be recorded yet: it must not be taken for one that never started. While its outcome
 * is with the store again nothing is told: that would come after the close, and look like a zombie's.
 */
const isHeldUp = ({ state, isRecordLate, isBeingRecorded }: Flight): boolean =>
  state === 'closing' && isRecordLate && !isBeingRecorded
