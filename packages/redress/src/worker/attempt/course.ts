/** The steps of an attempt, in order. */
export const STEPS = ['claim', 'start', 'run', 'verify', 'decide', 'record', 'report'] as const
export type Step = (typeof STEPS)[number]

/** Yielded where another part of the worker goes on with the attempt. Any other value is awaited, if it is a promise. */
export const UNTIL_RESUMED = Symbol('until resumed')
// biome-ignore lint/suspicious/noExplicitAny: each `yield` gets the value that it awaits
export type Steps<Result = void> = Generator<unknown, Result, any>

/** The reason why the worker ended an attempt before its handler did. */
export class Interruption {
  readonly reason: unknown

  constructor(reason: unknown) {
    this.reason = reason
  }
}

/**
 * Runs the steps of one attempt, which are written as a generator. It reads like an async function, but an attempt
 * whose handler answers at once makes no promise. And it can go on while its handler still runs: at its time limit.
 */
export abstract class Course {
  #steps: Steps | null = null
  /** What the attempt waits for; null while its code runs, and where it waits to be resumed. */
  #awaited: unknown = null
  #isAbandoned = false

  /** The handler ended after the attempt was interrupted or abandoned. */
  protected abstract endedLate(): void

  get isAbandoned(): boolean {
    return this.#isAbandoned
  }

  follow(steps: Steps): void {
    this.#steps = steps
    this.#run(steps, steps.next())
  }

  resume(value: unknown): void {
    if (this.#steps !== null) this.#run(this.#steps, this.#steps.next(value))
  }

  /** The attempt goes on with this reason, whatever its handler does later. */
  interrupt(reason: unknown): void {
    if (this.#steps === null || this.#awaited === null) return
    this.#awaited = null
    this.#run(this.#steps, this.#steps.throw(new Interruption(reason)))
  }

  /** The attempt does not go on. */
  protected abandon(): void {
    this.#awaited = null
    this.#isAbandoned = true
  }

  #run(steps: Steps, first: IteratorResult<unknown, void>): void {
    let next = first
    while (!next.done) {
      const { value } = next
      if (value === UNTIL_RESUMED) return
      try {
        if (isThenable(value)) {
          this.#wait(steps, value)
          return
        }
      } catch (thrown) {
        next = steps.throw(thrown)
        continue
      }
      if (this.#isAbandoned) break
      next = steps.next(value)
    }
    if (this.#isAbandoned) this.endedLate()
  }

  #wait(steps: Steps, awaited: PromiseLike<unknown>): void {
    if (!this.#isAbandoned) this.#awaited = awaited
    // A thenable of the author's may give another one, or call back twice; a promise of our own never does.
    Promise.resolve(awaited).then(
      (value) => {
        if (this.#isHeard(awaited)) this.#run(steps, steps.next(value))
      },
      (thrown) => {
        if (this.#isHeard(awaited)) this.#run(steps, steps.throw(thrown))
      },
    )
  }

  #isHeard(awaited: unknown): boolean {
    const isHeard = this.#awaited === awaited
    if (isHeard) this.#awaited = null
    else this.endedLate()
    return isHeard
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
