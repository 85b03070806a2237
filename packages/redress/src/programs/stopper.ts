import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Timer } from '../runtime/clock.ts'
import type { CheckedOptions } from './options.ts'
import { causeLine, explain, ProgramFailed } from './program-failed.ts'

const ROUNDS_MAX = 200
const ROUND_MS = 10

const running = new Set<ProcessGroup>()
let isExitWatched = false

/** The process ids of this machine, or null where there is no /proc to read them from. */
export async function processIds(): Promise<ReadonlySet<string> | null> {
  try {
    return new Set((await readdir('/proc')).filter((name) => /^\d+$/.test(name)))
  } catch {
    return null
  }
}

interface Member {
  id: number
  inGroup: boolean
}

/** A program and everything it starts: its process group, and those that left it but carry the run's mark. */
export class ProcessGroup {
  readonly #id: number
  readonly #mark: string
  /** Who was there before: looking only at those who came since keeps the cost small on a busy machine. */
  readonly #before: ReadonlySet<string> | null

  constructor(id: number, mark: string, before: ReadonlySet<string> | null) {
    this.#id = id
    this.#mark = mark
    this.#before = before
    running.add(this)
    if (isExitWatched) return
    isExitWatched = true
    // A process that exits on its own takes its programs with it; one that is killed cannot, see launch.ts.
    process.on('exit', () => {
      for (const group of running) group.signal('SIGKILL')
    })
  }

  signal(name: NodeJS.Signals): void {
    send(-this.#id, name)
  }

  /** Kills what is left of the run, and answers with those that would not die. */
  async end(): Promise<number[]> {
    let left = await this.#alive()
    // Real time, and a bound: a process that hangs in the kernel dies when it pleases.
    for (let round = 0; left.length > 0 && round < ROUNDS_MAX; round++) {
      // The group at once, so that none can fork and get away; but not a group that is gone, whose number may be reused.
      if (left.some(({ inGroup }) => inGroup)) this.signal('SIGKILL')
      for (const { id } of left) send(id, 'SIGKILL')
      await delay(ROUND_MS)
      left = await this.#alive()
    }
    running.delete(this)
    return left.map(({ id }) => id)
  }

  async #alive(): Promise<Member[]> {
    const now = this.#before === null ? null : await processIds()
    if (now === null) return send(-this.#id, 0) ? [{ id: this.#id, inGroup: true }] : []
    const recent = [...now].filter((id) => !this.#before?.has(id))
    return (await Promise.all(recent.map((id) => this.#member(id)))).filter((member) => member !== null)
  }

  async #member(id: string): Promise<Member | null> {
    try {
      const stat = await readFile(`/proc/${id}/stat`, 'latin1')
      // The name stands in parentheses and may hold any character; state, parent and group follow it.
      const [state = '', , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      if (state === 'Z' || state === 'X') return null
      const inGroup = Number(group) === this.#id
      const isOurs = inGroup || (await readFile(`/proc/${id}/environ`, 'latin1')).includes(this.#mark)
      return isOurs ? { id: Number(id), inGroup } : null
    } catch {
      // The process has ended, or belongs to another user.
      return null
    }
  }
}

/** Whether a process received the signal. */
function send(id: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(id, signal)
  } catch {
    return false
  }
}

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
    // A signal that fired while the program was being started does not fire again.
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
