import { RedressError } from '../../core/errors.ts'
import type { HttpLimits } from '../limits.ts'

type StreamLimits = Pick<HttpLimits, 'streamsMax' | 'streamsPerCallerMax' | 'streamsPerAddressMax'>

const RETRY_AFTER_MS = 10_000

/** Limits open streams per caller, per address and in total. A client gets another name more easily than another address. */
export class OpenStreams {
  readonly #limits: StreamLimits
  readonly #byCaller = new Map<string, number>()
  readonly #byAddress = new Map<string, number>()
  #open = 0

  constructor(limits: StreamLimits) {
    this.#limits = limits
  }

  /** Counts one stream, or throws if a limit is reached. The caller calls the returned function when the stream ends. */
  enter(name: string, address: string): () => void {
    const { streamsMax, streamsPerCallerMax, streamsPerAddressMax } = this.#limits
    if (this.#open >= streamsMax) throw tooMany(`Too many streams are open; the limit is ${streamsMax}`)
    refuseOver(this.#byCaller, name, streamsPerCallerMax, name)
    refuseOver(this.#byAddress, address, streamsPerAddressMax, `The address ${address}`)
    add(this.#byCaller, name, 1)
    add(this.#byAddress, address, 1)
    this.#open++
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#open--
      add(this.#byCaller, name, -1)
      add(this.#byAddress, address, -1)
    }
  }
}

function refuseOver(counts: ReadonlyMap<string, number>, key: string, max: number, who: string): void {
  const open = counts.get(key) ?? 0
  if (open >= max) throw tooMany(`${who} has ${open} streams open already; the limit is ${max}`)
}

function add(counts: Map<string, number>, key: string, count: number): void {
  const left = (counts.get(key) ?? 0) + count
  if (left <= 0) counts.delete(key)
  else counts.set(key, left)
}

const tooMany = (message: string): RedressError =>
  new RedressError('TOO_MANY_REQUESTS', `${message}.`, {
    action: 'Close a stream. One stream can have many topics.',
    retryAfterMs: RETRY_AFTER_MS,
  })
