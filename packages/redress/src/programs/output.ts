import { type FileHandle, open } from 'node:fs/promises'
import { redactText } from '../core/text/redact.ts'

const LF = 0x0a
const CR = 0x0d

/** Lines as they come. A carriage return ends one, too: programs write their progress over and over on one line. */
export class LineSplitter {
  readonly #bytesMax: number
  readonly #onLine: (line: string) => void
  #parts: Uint8Array[] = []
  #bytes = 0
  #isCut = false
  #endedWithCr = false

  constructor(bytesMax: number, onLine: (line: string) => void) {
    this.#bytesMax = bytesMax
    this.#onLine = onLine
  }

  take(chunk: Uint8Array): void {
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte !== LF && byte !== CR) continue
      const isSecondHalf = byte === LF && (at === 0 ? this.#endedWithCr : chunk[at - 1] === CR)
      if (!isSecondHalf) {
        this.#hold(chunk.subarray(from, at))
        this.#emit()
      }
      from = at + 1
    }
    this.#hold(chunk.subarray(from))
    if (chunk.length > 0) this.#endedWithCr = chunk.at(-1) === CR
  }

  end(): void {
    if (this.#bytes > 0) this.#emit()
  }

  #hold(part: Uint8Array): void {
    const room = this.#bytesMax - this.#bytes
    if (part.length > room) this.#isCut = true
    const kept = part.subarray(0, room)
    if (kept.length === 0) return
    this.#parts.push(kept)
    this.#bytes += kept.length
  }

  #emit(): void {
    // Decoded as if more were to come: a character that was cut in half is left out.
    const line = new TextDecoder().decode(Buffer.concat(this.#parts), { stream: this.#isCut })
    const isCut = this.#isCut
    this.#parts = []
    this.#bytes = 0
    this.#isCut = false
    this.#onLine(isCut ? `${line}…` : line)
  }
}

/** Everything, up to a bound. */
export class WholeText {
  readonly #bytesMax: number
  readonly #parts: Uint8Array[] = []
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Says whether it fitted. */
  take(chunk: Uint8Array): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > this.#bytesMax) return false
    this.#parts.push(chunk)
    return true
  }

  text(): string {
    return Buffer.concat(this.#parts).toString()
  }
}

/** The last bytes of something long. */
export class Tail {
  readonly #bytesMax: number
  readonly #keptMax: number
  #parts: Uint8Array[] = []
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
    // Redacted before the last cut: half a secret at the beginning would look like none.
    this.#keptMax = 4 * bytesMax
  }

  take(chunk: Uint8Array): void {
    const part = chunk.length > this.#keptMax ? chunk.slice(chunk.length - this.#keptMax) : chunk
    this.#parts.push(part)
    this.#bytes += part.length
    // Joined now and then, so that a program that writes byte by byte makes no long list.
    if (this.#bytes > 2 * this.#keptMax || this.#parts.length > 1000) {
      this.#parts = [lastBytes(Buffer.concat(this.#parts), this.#keptMax)]
      this.#bytes = this.#parts[0]?.length ?? 0
    }
  }

  bytes(): Uint8Array {
    return lastBytes(Buffer.concat(this.#parts), this.#keptMax)
  }

  /** Redacted. */
  text(): string {
    const safe = redactText(new TextDecoder().decode(fromCharacter(this.bytes())))
    return new TextDecoder().decode(fromCharacter(lastBytes(Buffer.from(safe), this.#bytesMax)))
  }
}

function lastBytes(bytes: Uint8Array, count: number): Uint8Array {
  return bytes.subarray(Math.max(0, bytes.length - count))
}

/** Leaves out the rest of a character whose beginning was cut off. */
function fromCharacter(bytes: Uint8Array): Uint8Array {
  let at = 0
  while (at < 3 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++
  return bytes.subarray(at)
}

/** The file that keeps what a program wrote to stderr: all of it, or its beginning and its end. */
export class StderrFile {
  readonly #file: FileHandle
  #room: number
  #leftOut = 0

  private constructor(file: FileHandle, bytesMax: number) {
    this.#file = file
    this.#room = bytesMax
  }

  static async open(path: string, bytesMax: number): Promise<StderrFile> {
    return new StderrFile(await open(path, 'a', 0o600), bytesMax)
  }

  async take(chunk: Uint8Array): Promise<void> {
    const kept = chunk.subarray(0, this.#room)
    this.#room -= kept.length
    this.#leftOut += chunk.length - kept.length
    if (kept.length > 0) await this.#file.appendFile(kept)
  }

  async end(tail: Tail): Promise<void> {
    if (this.#leftOut > 0) {
      const last = lastBytes(tail.bytes(), this.#leftOut)
      const missing = this.#leftOut - last.length
      if (missing > 0) await this.#file.appendFile(`\n[${missing} bytes left out]\n`)
      await this.#file.appendFile(last)
    }
    // Some file systems say only now that there was no room.
    await this.close()
  }

  close(): Promise<void> {
    return this.#file.close()
  }
}
