import { deserialize, serialize } from 'node:v8'

/** The pipe between a worker and the process of a handler. It is not Node's own channel, which the handler's code can crash. */
export const MESSAGES_FD = 3

const HEAD_BYTES = 4

/** A message as it is sent: its length in four bytes, then the value. Throws if the value cannot be copied. */
export function frameOf(message: object): Buffer {
  const body = serialize(message)
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt32BE(body.length)
  return Buffer.concat([head, body])
}

/** The messages in the bytes of a pipe. */
export class Frames {
  /** A sender that is not trusted must not fill the memory with one message. */
  bodyBytesMax: number
  #chunks: Uint8Array[] = []
  #bytes = 0
  #neededBytes = HEAD_BYTES

  constructor(bodyBytesMax = Number.POSITIVE_INFINITY) {
    this.bodyBytesMax = bodyBytesMax
  }

  /** The messages that are complete with this chunk. Throws if the bytes are not messages. */
  take(chunk: Uint8Array): unknown[] {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes < this.#neededBytes) return []
    const messages: unknown[] = []
    let rest = Buffer.concat(this.#chunks)
    for (;;) {
      const bodyBytes = rest.length < HEAD_BYTES ? 0 : rest.readUInt32BE()
      if (bodyBytes > this.bodyBytesMax) throw new RangeError(`a message of ${bodyBytes} bytes is too large`)
      this.#neededBytes = HEAD_BYTES + bodyBytes
      if (rest.length < this.#neededBytes) break
      messages.push(deserialize(rest.subarray(HEAD_BYTES, this.#neededBytes)))
      rest = rest.subarray(this.#neededBytes)
    }
    this.#chunks = [rest]
    this.#bytes = rest.length
    return messages
  }
}
