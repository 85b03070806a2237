import { mkdirSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { RedressError } from '../core/errors.ts'

/** An append-only file of JSON lines. An answered `append` is on disk: calls that come together share one fsync. */
export class Journal {
  readonly path: string
  #file: FileHandle | null = null
  #waiting: { lines: string[]; done: () => void; failed: (error: unknown) => void }[] = []
  #isWriting = false

  constructor(path: string) {
    this.path = path
  }

  append(entries: readonly object[]): Promise<void> {
    return new Promise((done, failed) => {
      this.#waiting.push({ lines: entries.map((entry) => `${JSON.stringify(entry)}\n`), done, failed })
      if (!this.#isWriting) void this.#write()
    })
  }

  async close(): Promise<void> {
    await this.#file?.close()
    this.#file = null
  }

  async #write(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const group = this.#waiting
      this.#waiting = []
      try {
        await this.#writeLines(group.flatMap(({ lines }) => lines).join(''))
        for (const { done } of group) done()
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        const error = new RedressError('FAILURE_LOG_FAILED', `The failure log could not be written: ${why}.`, { cause })
        for (const { failed } of group) failed(error)
      }
    }
    this.#isWriting = false
  }

  /** One write of whole lines with O_APPEND, so that several processes may share the file. */
  async #writeLines(text: string): Promise<void> {
    try {
      const { file, size } = await this.#opened()
      const bytes = Buffer.from((await endsInALine(file, size)) ? text : `\n${text}`)
      const { bytesWritten } = await file.write(bytes)
      if (bytesWritten !== bytes.length) throw new Error(`only ${bytesWritten} of ${bytes.length} bytes fitted`)
      await file.datasync()
    } catch (error) {
      // After a failed fsync the file may have lost what it said it had: begin with a fresh handle.
      await this.#file?.close().catch(() => undefined)
      this.#file = null
      throw error
    }
  }

  async #opened(): Promise<{ file: FileHandle; size: number }> {
    const before = await this.#file?.stat()
    if (this.#file !== null && before !== undefined && before.nlink > 0) return { file: this.#file, size: before.size }
    // The file was removed: lines that are written to it would be gone when the process ends.
    await this.close()
    mkdirSync(dirname(this.path), { recursive: true, mode: 0o700 })
    this.#file = await open(this.path, 'a+', 0o600)
    return { file: this.#file, size: (await this.#file.stat()).size }
  }
}

/**
 * A full disk takes half a line, and so may a crash: ours, or that of another process on the file. It was never
 * acknowledged, but without an end it would swallow the next line, which is. It is not cut away: somebody may have
 * written behind it.
 */
async function endsInALine(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return true
  const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, size - 1)
  return bytesRead === 0 || buffer[0] === LINE_FEED
}

const LINE_FEED = 0x0a
