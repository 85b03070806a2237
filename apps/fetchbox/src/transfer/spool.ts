import { randomUUID } from 'node:crypto'
import { type FileHandle, open, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { FetchFailure } from '../failures/failure.ts'

export interface SpoolOptions {
  /** The folder for content that is too large for memory. It must exist. */
  folder: string
  /** 256 KiB when left out. */
  memoryBytesMax?: number
}

const MEMORY_BYTES_MAX = 256 * 1024
/** Written at once: a call for each packet would cost more than the writing. */
const WRITE_BYTES = 1024 * 1024
const READ_BYTES = 256 * 1024
/** Smaller pieces are put together: an origin that sends single bytes would fill the memory with what holds them. */
const PIECE_BYTES_MIN = 8 * 1024
const BLOCK_BYTES = 16 * 1024

/**
 * Holds one resource between its download and its upload: in memory while it is small, in a file beyond that. The file
 * loses its name as soon as it is open, so that nothing is left behind, whatever becomes of the process.
 */
export class Spool {
  bytes = 0
  readonly #folder: string
  readonly #memoryBytesMax: number
  #chunks: Buffer[] = []
  #chunkBytes = 0
  /** Where small pieces are put together. */
  #block: Buffer | null = null
  #blockBytes = 0
  #file: FileHandle | null = null

  constructor({ folder, memoryBytesMax = MEMORY_BYTES_MAX }: SpoolOptions) {
    this.#folder = folder
    this.#memoryBytesMax = memoryBytesMax
  }

  /** Where the bytes are now. */
  get place(): 'memory' | 'file' {
    return this.#file === null ? 'memory' : 'file'
  }

  /**
   * The caller must await the result before the next write, which slows a fast origin to the speed of the disk. Null
   * if there is nothing to await.
   */
  write(chunk: Buffer): Promise<void> | null {
    this.#keep(chunk)
    this.#chunkBytes += chunk.byteLength
    this.bytes += chunk.byteLength
    const hasRoom = this.#file === null ? this.bytes <= this.#memoryBytesMax : this.#chunkBytes < WRITE_BYTES
    return hasRoom ? null : this.#flush()
  }

  /** No more will be written. */
  async finish(): Promise<void> {
    if (this.#file !== null) await this.#flush()
    else this.#endBlock()
  }

  /** Opens the content from the beginning; may be called repeatedly. */
  open(): Readable {
    return Readable.from(this.#file === null ? this.#chunks : this.#read(this.#file), { objectMode: false })
  }

  /** May be called more than once. */
  async remove(): Promise<void> {
    const file = this.#file
    this.#chunks = []
    this.#block = null
    this.#file = null
    await file?.close()
  }

  #keep(piece: Buffer): void {
    if (piece.byteLength >= PIECE_BYTES_MIN) {
      this.#endBlock()
      this.#chunks.push(piece)
      return
    }
    for (let done = 0; done < piece.byteLength; ) {
      this.#block ??= Buffer.allocUnsafe(BLOCK_BYTES)
      const copied = piece.copy(this.#block, this.#blockBytes, done)
      this.#blockBytes += copied
      done += copied
      if (this.#blockBytes === BLOCK_BYTES) this.#endBlock()
    }
  }

  #endBlock(): void {
    if (this.#block !== null) this.#chunks.push(this.#block.subarray(0, this.#blockBytes))
    this.#block = null
    this.#blockBytes = 0
  }

  async #flush(): Promise<void> {
    try {
      this.#endBlock()
      this.#file ??= await namelessFile(this.#folder)
      const chunks = this.#chunks
      this.#chunks = []
      this.#chunkBytes = 0
      await writeAll(this.#file, chunks)
    } catch (error) {
      throw spoolFailure(error)
    }
  }

  async *#read(file: FileHandle): AsyncGenerator<Buffer> {
    for (let position = 0; position < this.bytes; ) {
      const { bytesRead, buffer } = await readSome(file, position)
      if (bytesRead === 0) throw spoolFailure(new Error(`ends after ${position} of ${this.bytes} bytes`))
      position += bytesRead
      yield buffer.subarray(0, bytesRead)
    }
  }
}

async function namelessFile(folder: string): Promise<FileHandle> {
  const path = join(folder, `spool-${randomUUID()}`)
  const file = await open(path, 'wx+', 0o600)
  await unlink(path)
  return file
}

/** A nearly full disk accepts a part of the write, and fails only for the rest. */
async function writeAll(file: FileHandle, chunks: readonly Buffer[]): Promise<void> {
  let { bytesWritten: done } = await file.writev(chunks)
  const bytes = chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)
  if (done === bytes) return
  for (const data = Buffer.concat(chunks); done < bytes; ) done += (await file.write(data, done)).bytesWritten
}

async function readSome(file: FileHandle, position: number): Promise<{ bytesRead: number; buffer: Buffer }> {
  try {
    return await file.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, position)
  } catch (error) {
    throw spoolFailure(error)
  }
}

const FULL = new Set(['ENOSPC', 'EDQUOT'])

function spoolFailure(cause: unknown): FetchFailure {
  const errno = (cause as { code?: unknown }).code
  const context = typeof errno === 'string' ? { errno } : {}
  // Neither the path nor the system's own sentence, which has the path in it: clients read this.
  return typeof errno === 'string' && FULL.has(errno)
    ? new FetchFailure('SYSTEM_SPOOL_FULL', `the work folder is full (${errno})`, { context, cause })
    : new FetchFailure('SYSTEM_SPOOL_FAILED', `the work folder failed (${errno ?? 'not whole'})`, { context, cause })
}
