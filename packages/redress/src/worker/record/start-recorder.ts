import type { Clock } from '../../runtime/clock.ts'
import type { Log } from '../../runtime/log.ts'
import type { Store, WorkerKey } from '../../store/contract/store.ts'
import type { Flight } from '../attempt/flight.ts'
import { answerOrThrow, Trouble } from '../patience.ts'

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
    const { key, attempt } = flight.lease
    try {
      const started = this.#store.start({ worker, attempts: [{ key, attempt, agoMs: 0 }] })
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
        this.#trouble.isOver()
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
