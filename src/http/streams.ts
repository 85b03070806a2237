import { RedressError } from '../core/errors.ts'
import type { HttpLimits } from './limits.ts'

const COME_BACK_MS = 10_000

/** How many streams are open, of each caller and of all. */
export class Streams {
  readonly #limits: Pick<HttpLimits, 'streamsMax' | 'streamsPerCallerMax'>
  readonly #byCaller = new Map<string, number>()
  #open = 0

  constructor(limits: Pick<HttpLimits, 'streamsMax' | 'streamsPerCallerMax'>) {
    this.#limits = limits
  }

  get open(): number {
    return this.#open
  }

  /** Throws where there are too many; else gives what is to be called, once or more often, when the stream is over. */
  enter(name: string): () => void {
    const { streamsMax, streamsPerCallerMax } = this.#limits
    const own = this.#byCaller.get(name) ?? 0
    if (this.#open >= streamsMax || own >= streamsPerCallerMax) {
      throw new RedressError(
        'TOO_MANY_REQUESTS',
        this.#open >= streamsMax ? 'Too many streams are open.' : `${name} has ${own} streams open already.`,
        { action: 'Close a stream: one can have many topics.', retryAfterMs: COME_BACK_MS },
      )
    }
    this.#byCaller.set(name, own + 1)
    this.#open++
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#open--
      const left = (this.#byCaller.get(name) ?? 1) - 1
      if (left === 0) this.#byCaller.delete(name)
      else this.#byCaller.set(name, left)
    }
  }
}
