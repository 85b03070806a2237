import type { Timer } from '../runtime/clock.ts'
import type { CheckedOptions } from './options.ts'
import type { ProcessGroup } from './process-group.ts'
import { causeLine, explain, ProgramFailed } from './program-failed.ts'

export type Stop =
  | { reason: 'timeout' }
  | { reason: 'aborted'; cause: unknown }
  | { reason: 'output-too-large'; bytesMax: number }
  | { reason: 'io'; cause: unknown }
  /** A callback threw. */
  | { reason: 'thrown'; thrown: unknown }

interface StopFacts {
  stderrTail: string
  durationMs: number
}

/** How long a killed process may take to go before we stop waiting: one that hangs in the kernel may never. */
const UNKILLABLE_MS = 10_000

/** Ends a program early: SIGTERM to its group, and SIGKILL when that is not enough. The first reason counts. */
export class Stopper {
  /** Settles when even a killed program does not go. */
  readonly givenUp: Promise<null>
  readonly #run: CheckedOptions
  readonly #group: Pick<ProcessGroup, 'signal'>
  #stop: Stop | null = null
  #stoppedWith: 'SIGTERM' | 'SIGKILL' | null = null
  #timer: Timer | null = null
  #isOver = false
  #giveUp: (nothing: null) => void = () => undefined
  readonly #abort = (): void => this.stop({ reason: 'aborted', cause: this.#run.signal?.reason })

  constructor(run: CheckedOptions, group: Pick<ProcessGroup, 'signal'>) {
    this.#run = run
    this.#group = group
    this.givenUp = new Promise((resolve) => {
      this.#giveUp = resolve
    })
    const { clock, timeoutMs, signal } = run
    if (timeoutMs !== Number.POSITIVE_INFINITY) {
      this.#timer = clock.setTimer(timeoutMs, () => this.stop({ reason: 'timeout' }))
    }
    // A signal that was given while the program was being started calls nobody any more.
    if (signal?.aborted) this.#abort()
    else signal?.addEventListener('abort', this.#abort, { once: true })
  }

  stop(stop: Stop): void {
    if (this.#stop !== null) return
    this.#stop = stop
    // It has ended by itself; but its output could not be kept, or a callback threw at its last line.
    if (this.#isOver) return
    const { clock, killAfterMs } = this.#run
    this.#timer?.cancel()
    this.#send('SIGTERM')
    this.#timer = clock.setTimer(killAfterMs, () => {
      this.#send('SIGKILL')
      this.#timer = clock.setTimer(UNKILLABLE_MS, () => this.#giveUp(null))
    })
  }

  /** The program has ended: from now on neither time nor the caller's signal can stop it. */
  disarm(): void {
    this.#isOver = true
    this.#timer?.cancel()
    this.#run.signal?.removeEventListener('abort', this.#abort)
  }

  /** A callback that throws, or whose promise rejects, stops the program; after that it is not called again. */
  guard(callback: (line: string) => unknown): (line: string) => void {
    const thrown = (error: unknown): void => this.stop({ reason: 'thrown', thrown: error })
    return (line) => {
      if (this.#stop?.reason === 'thrown') return
      try {
        const answer = callback(line)
        if (answer instanceof Promise) answer.catch(thrown)
      } catch (error) {
        thrown(error)
      }
    }
  }

  throwIfStopped(facts: StopFacts, survivors: readonly number[], hasFailed: boolean): void {
    const stop = this.#stop
    if (stop === null) return
    if (stop.reason === 'thrown') throw stop.thrown
    // It failed by itself, which says more than that its last words did not fit.
    if (this.#stoppedWith === null && hasFailed) return
    const stuck = survivors.length === 0 ? '' : `, and could not be killed (${survivors.join(', ')})`
    throw new ProgramFailed(this.#run, `${this.#inWords(stop)}${stuck}${causeLine(this.#run, facts.stderrTail)}`, {
      reason: stop.reason,
      stoppedWith: this.#stoppedWith,
      ...(stop.reason === 'output-too-large' && { code: 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER' }),
      ...('cause' in stop && { cause: stop.cause }),
      ...facts,
    })
  }

  #inWords(stop: Exclude<Stop, { reason: 'thrown' }>): string {
    const how = this.#stoppedWith === null ? '' : ` (${this.#stoppedWith})`
    if (stop.reason === 'timeout') return `was stopped after its ${this.#run.timeoutMs / 1000} s${how}`
    if (stop.reason === 'aborted') return `was stopped${how}: ${explain(stop.cause)}`
    if (stop.reason === 'io') return `failed at its input or output${how}: ${explain(stop.cause)}`
    return `wrote more to stdout than the ${stop.bytesMax} bytes that are kept${how}`
  }

  #send(signal: 'SIGTERM' | 'SIGKILL'): void {
    this.#stoppedWith = signal
    this.#group.signal(signal)
  }
}
