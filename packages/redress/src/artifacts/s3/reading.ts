import { createHash } from 'node:crypto'
import { type Readable, Transform } from 'node:stream'
import type { GetObjectCommandOutput, HeadObjectCommandOutput } from '@aws-sdk/client-s3'
import { RedressError } from '../../core/errors.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { ArtifactContent, ArtifactHead, Verification } from '../artifact-store.ts'
import type { Check } from '../body.ts'
import { answerOf, attempting, type Bucket, checkFor, isReplaced, namedFor, sha256Of, storageError } from './bucket.ts'
/** Everything the store says about an object, with its sum of the parts' sums if it has one. */
export async function look(bucket: Bucket, key: string, signal?: AbortSignal): Promise<HeadObjectCommandOutput> {
  const { HeadObjectCommand, GetObjectCommand } = bucket.sdk
  const input = { ...bucket.object(key), ChecksumMode: 'ENABLED' as const }
  return attempting(`looking at ${key}`, signal, async () => {
    try {
      return await bucket.send(new HeadObjectCommand(input), signal)
    } catch (error) {
      if (answerOf(error).status !== 404) throw error
    }
    // The answer to HEAD has no text, so a bucket that is gone looks like an artifact that is. GET tells them apart.
    const answer = await bucket
      .send(new GetObjectCommand(bucket.object(key)), signal)
      .catch((error) => Promise.reject(namedFor(key, error)))
    discard(bodyOf(answer))
    return answer
  })
}

export interface Reading {
  clock: Clock
  idleTimeoutMs: number
  range?: { start: number; end?: number | undefined } | undefined
  /** Read this version or none: another one has another checksum. */
  etag?: string | undefined
  signal?: AbortSignal | undefined
}

export async function read(bucket: Bucket, key: string, reading: Reading): Promise<ArtifactContent> {
  const { clock, idleTimeoutMs, range, etag, signal } = reading
  const command = new bucket.sdk.GetObjectCommand({
    ...bucket.object(key),
    ...(range === undefined ? {} : { Range: `bytes=${range.start}-${range.end ?? ''}` }),
    ...(etag === undefined ? {} : { IfMatch: etag }),
  })
  const answer = await attempting(`reading ${key}`, signal, () =>
    bucket.send(command, signal).catch((error) => Promise.reject(namedFor(key, error))),
  )
  const raw = bodyOf(answer)
  const resolved = range === undefined ? null : rangeOf(answer)
  if (range !== undefined && resolved === null) {
    discard(raw)
    throw new RedressError('STORAGE_FAILED', 'The object store does not give parts of an object.')
  }
  const body = received(raw, { key, bytes: answer.ContentLength ?? 0, idleTimeoutMs, clock, signal })
  const head = headOf(key, answer)
  return resolved === null
    ? { ...head, body, range: null }
    : { ...head, bytes: resolved.total, body, range: { start: resolved.start, end: resolved.end } }
}

/** How often an artifact may be replaced between our looking at it and reading it. */
const REPLACED_TRIES = 10

/** The content, and how to find out whether it is what was stored; null when the store cannot tell. */
export async function readWithCheck(bucket: Bucket, key: string, reading: Reading) {
  for (let tries = 1; ; tries++) {
    const head = await look(bucket, key, reading.signal)
    try {
      return { content: await read(bucket, key, { ...reading, etag: head.ETag }), check: checkFor(head) }
    } catch (error) {
      if (!isReplaced(error) || tries === REPLACED_TRIES) throw error
    }
  }
}

export function headOf(key: string, answer: HeadObjectCommandOutput | GetObjectCommandOutput): ArtifactHead {
  return {
    key,
    bytes: answer.ContentLength ?? 0,
    sha256: sha256Of(answer),
    contentType: typeOf(answer.ContentType),
    contentEncoding: encodingOf(answer.ContentEncoding),
    modifiedAtMs: answer.LastModified?.getTime() ?? 0,
  }
}

/** A store answers with a generic type where none was set: that means no type. */
function typeOf(contentType: string | undefined): string | null {
  const isNoType = contentType === undefined || /^(application|binary)\/octet-stream$/.test(contentType)
  return isNoType ? null : contentType
}

/** Some stores keep the transfer encoding of the upload, which is not the object's encoding. */
function encodingOf(contentEncoding = ''): string | null {
  const encodings = contentEncoding.split(',').map((one) => one.trim())
  return encodings.filter((one) => one !== '' && one !== 'aws-chunked').join(', ') || null
}

function rangeOf({ ContentRange = '' }: GetObjectCommandOutput) {
  const [, start, end, total] = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(ContentRange) ?? []
  return total === undefined ? null : { start: Number(start), end: Number(end), total: Number(total) }
}

function bodyOf(answer: HeadObjectCommandOutput | GetObjectCommandOutput): Readable {
  return (answer as { Body?: unknown }).Body as Readable
}

/** Frees the connection. The error of the broken answer is expected. */
function discard(body: Readable): void {
  body.on('error', () => undefined).destroy()
}

export async function verifyBody(body: Readable, check: Check | null): Promise<Verification> {
  const hash = createHash('sha256')
  let bytes = 0
  for await (const chunk of body) {
    check?.update(chunk)
    hash.update(chunk)
    bytes += chunk.length
  }
  const verdict = check === null ? 'unknown' : check.matches() ? 'intact' : 'corrupt'
  return { verdict, bytes, sha256: hash.digest('hex') }
}

interface Receiving {
  key: string
  bytes: number
  idleTimeoutMs: number
  clock: Clock
  signal: AbortSignal | undefined
}

/** The body of an answer, which ends only if it is whole; a connection that breaks or falls silent makes it fail. */
function received(raw: Readable, receiving: Receiving): Readable {
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
