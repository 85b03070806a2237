import { RedressError } from '../../../core/errors.ts'

interface Pending<Call, Answer> {
  call: Call
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
}

/** Errors of the store, not of one call: each call alone would fail with the same error. */
const STORE_ERRORS: ReadonlySet<string> = new Set(['STORE_BUSY', 'STORE_UNREACHABLE', 'STORE_FULL', 'STORE_STOPPED'])

/**
 * Calls that arrive while a flush is under way join the next one: one transaction for all of them, and each is answered
 * after its commit. There is no timer; the longer a commit takes, the more calls share the next. One call's error does
 * not harm the others: the group is undone, and its halves are tried on their own.
 */
export class GroupCommit<Call, Answer> {
  readonly #commit: (calls: readonly Call[]) => Promise<readonly Answer[]>
  readonly #sizeOf: (call: Call) => number
  readonly #sizeMax: number
  #pending: Pending<Call, Answer>[] = []
  #flushing: Promise<void> | null = null
  #isStopped = false

  /** `commit` answers for each call, in their order. A flush takes calls while the sum of their sizes is in bounds. */
  constructor(
    commit: (calls: readonly Call[]) => Promise<readonly Answer[]>,
    { sizeOf, sizeMax }: { sizeOf: (call: Call) => number; sizeMax: number },
  ) {
    this.#commit = commit
    this.#sizeOf = sizeOf
    this.#sizeMax = sizeMax
  }

  add(call: Call): Promise<Answer> {
    if (this.#isStopped)
      return Promise.reject(new RedressError('STORE_STOPPED', 'The store was stopped before this call.'))
    return new Promise((resolve, reject) => {
      this.#pending.push({ call, resolve, reject })
      this.#flushing ??= this.#flushAll()
    })
  }

  /** Accepts no more calls, and resolves when all earlier calls have been answered. */
  async drain(): Promise<void> {
    this.#isStopped = true
    while (this.#flushing !== null) await this.#flushing
  }

  async #flushAll(): Promise<void> {
    // All calls of this turn of the event loop belong to the first flush.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#pending.length > 0) await this.#flush(this.#take())
    this.#flushing = null
  }

  #take(): Pending<Call, Answer>[] {
    let size = 0
    const end = this.#pending.findIndex(({ call }, i) => {
      size += this.#sizeOf(call)
      return i > 0 && size > this.#sizeMax
    })
    return this.#pending.splice(0, end === -1 ? this.#pending.length : end)
  }

  async #flush(group: readonly Pending<Call, Answer>[]): Promise<void> {
    let answers: readonly Answer[]
    try {
      answers = await this.#commit(group.map(({ call }) => call))
    } catch (error) {
      if (group.length === 1 || (error instanceof RedressError && STORE_ERRORS.has(error.code))) {
        for (const { reject } of group) reject(error)
        return
      }
      const half = Math.ceil(group.length / 2)
      await this.#flush(group.slice(0, half))
      await this.#flush(group.slice(half))
      return
    }
    for (const [i, { resolve }] of group.entries()) resolve(answers[i] as Answer)
  }
}
