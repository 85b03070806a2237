import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { pipeline as connect, type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Refusal } from './refusals.ts'

/** How long a refused client may continue to send. Closing the connection earlier could lose the answer. */
const DRAIN_MS_MAX = 5_000

/** Takes the body to a file, and refuses it with the first byte that is too many. */
export async function receive(request: IncomingMessage, path: string, bytesMax: number): Promise<void> {
  // A request that was closed before this emits no more events: its place in the queue would never become free.
  if (request.destroyed) throw new Error('the client hung up')
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > bytesMax) throw tooLarge(bytesMax)
  let bytes = 0
  const counter = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      bytesPassed(chunk.length)
      done(bytes > bytesMax ? tooLarge(bytesMax) : null, chunk)
    },
  })
  // The pipeline destroys what it reads from when it fails, and with the request would go the answer.
  request.on('data', (chunk: Buffer) => {
    if (!counter.write(chunk)) request.pause()
  })
  counter.on('drain', () => request.resume())
  request.once('end', () => counter.end())
  request.once('close', () => {
    if (!request.complete) counter.destroy(new Error('the client hung up'))
  })
  try {
    await pipeline(counter, createWriteStream(path, { flags: 'wx' }))
  } catch (error) {
    request.removeAllListeners('data')
    await rm(path, { force: true })
    throw error
  }
}

function tooLarge(bytesMax: number): Refusal {
  return new Refusal('TOO_LARGE', `The document is larger than ${bytesMax} bytes.`)
}

/** Reads and discards the rest of the body, for a limited time. */
export function drain(request: IncomingMessage): void {
  if (request.complete) return
  const late = setTimeout(() => request.socket.destroy(), DRAIN_MS_MAX)
  late.unref()
  request.once('end', () => clearTimeout(late))
  request.once('close', () => clearTimeout(late))
  request.resume()
}

/** After this many bytes the young generation is collected, which takes about a millisecond. */
const BYTES_MAX = 8 * 2 ** 20

let collect: ((options: { type: 'minor' }) => void) | undefined
let passed = 0

/**
 * Counts the bytes that pass through this process. Their buffers are freed only when V8 collects its young
 * generation, which it does late: four uploads of 50 MB left 60 MB of unused memory.
 */
function bytesPassed(bytes: number): void {
  passed += bytes
  if (passed < BYTES_MAX) return
  passed = 0
  collect ??= exposed()
  collect({ type: 'minor' })
}

/** The same stream, with its bytes counted on the way; the end of one is the end of the other. */
export function counted(source: Readable): Readable {
  const passage = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytesPassed(chunk.length)
      done(null, chunk)
    },
  })
  return connect(source, passage, () => undefined)
}

/** Exposes the garbage collector in a process that was started without `--expose-gc`. */
function exposed(): NonNullable<typeof collect> {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as NonNullable<typeof collect>
}
