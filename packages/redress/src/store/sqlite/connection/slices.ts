const SLICE_MS = 10

/**
 * Synchronous tasks share the event loop: each turn has a time slice for them. Tasks that do not fit wait for the
 * next turn, in order.
 */
export class Slices {
  readonly #waiting: (() => void)[] = []
  readonly #sliceMs: number
  /** When the first task of this turn began; null before that. */
  #beganMs: number | null = null

  constructor(sliceMs: number = SLICE_MS) {
    this.#sliceMs = sliceMs
  }

  /** Whether a task must wait for a later turn (`later`). Otherwise the caller may run it at once. */
  get isSpent(): boolean {
    if (this.#beganMs !== null) return this.#waiting.length > 0 || performance.now() - this.#beganMs >= this.#sliceMs
    this.#beganMs = performance.now()
    setImmediate(this.#turn)
    return false
  }

  later<T>(task: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(task())
        } catch (error) {
          reject(error as Error)
        }
      })
    })
  }

  readonly #turn = (): void => {
    this.#beganMs = null
    if (this.#waiting.length === 0) return
    const beganMs = performance.now()
    this.#beganMs = beganMs
    setImmediate(this.#turn)
    do this.#waiting.shift()?.()
    while (this.#waiting.length > 0 && performance.now() - beganMs < this.#sliceMs)
  }
}
