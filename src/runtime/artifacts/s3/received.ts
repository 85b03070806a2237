import { type Readable, Transform } from 'node:stream'
import type { Clock } from '../../clock.ts'
import { storageError } from './errors.ts'

interface Receiving {
  key: string
  bytes: number
  idleTimeoutMs: number
  clock: Clock
  signal: AbortSignal | undefined
}

/** The body of an answer, which ends only if it is whole; a connection that breaks or falls silent makes it fail. */
export function received(raw: Readable, receiving: Receiving): Readable {
  const { key, bytes, idleTimeoutMs, clock, signal } = receiving
  const doing = `reading ${key}`
  let bytesLeft = bytes
  let heardAtMs = clock.monoMs()

  const body = new Transform({
    transform(chunk, _encoding, done) {
      heardAtMs = clock.monoMs()
      bytesLeft -= chunk.length
      done(null, chunk)
    },
    flush(done) {
      if (bytesLeft === 0) done()
      else done(asError(storageError(new Error(`${bytesLeft} of ${bytes} bytes are missing`), doing)))
    },
  })

  const lookForSilence = () => {
    const silentMs = clock.monoMs() - heardAtMs
    // A reader who takes nothing keeps us from hearing: that is not the store's silence.
    const isReaderSlow = body.readableLength >= body.readableHighWaterMark || body.writableLength > 0
    if (silentMs >= idleTimeoutMs && !isReaderSlow) body.destroy(asError(storageError(silence(silentMs), doing)))
    else timer = clock.setTimer(isReaderSlow ? idleTimeoutMs : idleTimeoutMs - silentMs, lookForSilence)
  }
  let timer = clock.setTimer(idleTimeoutMs, lookForSilence)

  const abort = () => void body.destroy(signal?.reason)
  if (signal?.aborted === true) abort()
  signal?.addEventListener('abort', abort, { once: true })
  raw.on('error', (error) => body.destroy(asError(storageError(error, doing))))
  body.once('close', () => {
    timer.cancel()
    signal?.removeEventListener('abort', abort)
    raw.destroy()
  })
  return raw.pipe(body)
}

function silence(silentMs: number): Error {
  const error = new Error(`nothing came for ${Math.round(silentMs)} ms`)
  error.name = 'TimeoutError'
  return error
}

const asError = (error: unknown): Error => error as Error
