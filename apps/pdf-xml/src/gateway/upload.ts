import { createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { bytesPassed } from './passed-buffers.ts'
import { Refusal } from './refusals.ts'

/** A client that goes on sending after it was refused is listened to for so long, or it might never read why. */
const DRAIN_MS_MAX = 5_000

/** Takes the body to a file, and refuses it with the first byte that is too many. */
export async function receive(request: IncomingMessage, path: string, bytesMax: number): Promise<void> {
  // A request that was closed before this emits no more events: its place in the queue would never become free.
  if (request.destroyed) throw new Error('the client hung up')
  const announced = Number(request.headers['content-length'] ?? 0)
  if (announced > bytesMax) throw tooLarge(bytesMax)
  let bytes = 0
  const counted = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      bytesPassed(chunk.length)
      done(bytes > bytesMax ? tooLarge(bytesMax) : null, chunk)
    },
  })
  // The pipeline destroys what it reads from when it fails, and with the request would go the answer.
  request.on('data', (chunk: Buffer) => {
    if (!counted.write(chunk)) request.pause()
  })
  counted.on('drain', () => request.resume())
  request.once('end', () => counted.end())
  request.once('close', () => {
    if (!request.complete) counted.destroy(new Error('the client hung up'))
  })
  try {
    await pipeline(counted, createWriteStream(path, { flags: 'wx' }))
  } catch (error) {
    request.removeAllListeners('data')
    await rm(path, { force: true })
    throw error
  }
}

function tooLarge(bytesMax: number): Refusal {
  return new Refusal('TOO_LARGE', `The document is larger than ${bytesMax} bytes.`)
}

/** What still comes is thrown away, for a while. */
export function drain(request: IncomingMessage): void {
  if (request.complete) return
  const late = setTimeout(() => request.socket.destroy(), DRAIN_MS_MAX)
  late.unref()
  request.once('end', () => clearTimeout(late))
  request.once('close', () => clearTimeout(late))
  request.resume()
}
