/** What S3 takes at least as a part that is not the last one. */
export const PART_BYTES_MIN = 5 * 2 ** 20
export const PARTS_MAX = 10_000

export interface Part {
  number: number
  data: Buffer
  isLast: boolean
}

/**
 * Cuts a stream into parts of the same size; the last one has what is left, and may be empty if it is the only one.
 * The memory of a part that was sent goes back to `spare` and carries a later one: left to the garbage collector,
 * an upload would hold as many parts as that has not yet come by to take.
 */
export async function* partsOf(
  chunks: AsyncIterable<Uint8Array>,
  partBytes: number,
  spare: Buffer[],
): AsyncGenerator<Part> {
  let number = 1
  let part = new GrowingPart(partBytes, spare.pop())
  for await (const chunk of chunks) {
    for (let at = 0; at < chunk.byteLength; ) {
      // A full part waits for one byte more: only then is it certain not to be the last.
      if (part.isFull) {
        yield { number, data: part.data, isLast: false }
        number++
        part = new GrowingPart(partBytes, spare.pop())
      }
      at += part.add(chunk, at)
    }
  }
  yield { number, data: part.data, isLast: true }
}

const FIRST_BYTES = 64 * 1024

/** Most artifacts are small: memory grows to the size of a part only when the bytes are there. */
class GrowingPart {
  readonly #bytesMax: number
  #buffer: Buffer
  #filled = 0

  constructor(bytesMax: number, memory: Buffer | undefined) {
    this.#bytesMax = bytesMax
    this.#buffer = memory ?? Buffer.allocUnsafe(Math.min(FIRST_BYTES, bytesMax))
  }

  get isFull(): boolean {
    return this.#filled === this.#bytesMax
  }

  get data(): Buffer {
    return this.#buffer.subarray(0, this.#filled)
  }

  /** Copies: the source may use the memory of its chunk again. Says how many bytes fitted. */
  add(chunk: Uint8Array, from: number): number {
    const taken = chunk.subarray(from, from + this.#bytesMax - this.#filled)
    this.#makeRoom(this.#filled + taken.byteLength)
    this.#buffer.set(taken, this.#filled)
    this.#filled += taken.byteLength
    return taken.byteLength
  }

  #makeRoom(bytes: number): void {
    if (bytes <= this.#buffer.byteLength) return
    const grown = Buffer.allocUnsafe(Math.min(this.#bytesMax, Math.max(bytes, 4 * this.#buffer.byteLength)))
    this.#buffer.copy(grown, 0, 0, this.#filled)
    this.#buffer = grown
  }
}
