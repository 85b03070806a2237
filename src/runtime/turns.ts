/**
 * Resolves when timers, sockets and other requests had their turn. An `await` of anything that is settled already, such as an
 * answer of the embedded store, only lets other promises go first: a loop of those holds up the whole process.
 */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Runs tasks one after another, each in a turn of its own, in the order in which they came. */
export class OnePerTurn {
  #last: Promise<unknown> = Promise.resolve()

  run<T>(task: () => Promise<T>): Promise<T> {
    const done = this.#last.then(nextTurn).then(task)
    this.#last = done.catch(() => undefined)
    return done
  }
}
