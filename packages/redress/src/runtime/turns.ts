/**
 * Resolves after timers, sockets and other requests had a turn. Awaiting a settled promise, such as an answer of the
 * embedded store, only lets other promises run: a loop of those blocks the whole process.
 */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Runs tasks one at a time, in order of arrival, each in its own turn of the event loop. */
export class OnePerTurn {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#last.then(nextTurn).then(task)
    this.#last = done.catch(() => undefined)
    return done
  }
}
