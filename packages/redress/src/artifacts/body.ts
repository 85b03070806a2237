import { createHash } from 'node:crypto'
import { pipeline, Readable, Transform } from 'node:stream'
import { RedressError } from '../core/errors.ts'
import {
  type ArtifactBody,
  artifactCorrupt,
  checkOptionNames,
  type PutOptions,
  rangeInvalid,
} from './artifact-store.ts'

/**
 * What is being put: its chunks, counted and hashed on the way. Errors of the source and the reason of an abort come
 * out unchanged, so that a failed download is never taken for a failed store.
 */
export class Source {
  bytes = 0
  readonly #key: string
  readonly #body: ArtifactBody
  readonly #options: PutOptions
  readonly #hash = createHash('sha256')
  #iterator: AsyncIterator<unknown> | null = null

  constructor(key: string, body: ArtifactBody, options: PutOptions) {
    this.#key = key
    this.#body = body
    this.#options = options
  }

  check(): void {
    checkOptionNames('put', this.#options)
    const { sha256, contentType, contentEncoding, signal } = this.#options
    signal?.throwIfAborted()
    if (contentType !== undefined && !/^[\x20-\x7e]{1,200}$/.test(contentType)) {
      throw new RedressError('OPTION_INVALID', 'contentType must be 1 to 200 printable ASCII characters.')
    }
    if (contentEncoding !== undefined && !/^[\w.+-]{1,40}(, ?[\w.+-]{1,40}){0,4}$/.test(contentEncoding)) {
      throw new RedressError('OPTION_INVALID', 'contentEncoding must be one to five names of encodings, such as gzip.')
    }
    if (sha256 !== undefined && !/^[0-9a-f]{64}$/.test(sha256)) {
      throw new RedressError('OPTION_INVALID', 'sha256 must be 64 hexadecimal digits in lower case.')
    }
    if (this.#body instanceof Readable) checkStream(this.#body, this.#key)
  }

  /** Null when only the end of the stream will tell. */
  get bytesKnown(): number | null {
    if (typeof this.#body === 'string') return Buffer.byteLength(this.#body)
    return this.#body instanceof Uint8Array ? this.#body.byteLength : null
  }

  async *chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    const { signal } = this.#options
    const iterator = iteratorOf(this.#body)
    this.#iterator = iterator
    for (;;) {
      const { done, value } = await unlessAborted(iterator.next(), signal)
      if (done === true) return
      const chunk = asBytes(value, this.#key)
      this.#count(chunk)
      yield chunk
    }
  }

  /** After the last chunk, and before anything becomes visible: what was read, in hex. */
  finish(): string {
    this.#options.signal?.throwIfAborted()
    const sha256 = this.#hash.digest('hex')
    const announced = this.#options.sha256 ?? sha256
    if (announced !== sha256) {
      throw new RedressError('ARTIFACT_MISMATCH', `${this.#key} has the SHA-256 ${sha256}, not ${announced}.`)
    }
    return sha256
  }

  /** Nothing more will be read. Without this a failed put would leave an unwanted download running. */
  abandon(): void {
    // Not waited for: a source that never gives its next chunk would delay the report of the failure.
    void Promise.resolve(this.#iterator?.return?.()).catch(() => undefined)
    if (!(this.#body instanceof Readable) || this.#options.keepBodyOpen === true) return
    // A later error of the stream was already reported, or does not matter any more.
    this.#body.on('error', () => undefined).destroy()
  }

  #count(chunk: Uint8Array): void {
    const { bytesMax } = this.#options
    this.bytes += chunk.byteLength
    if (bytesMax !== undefined && this.bytes > bytesMax) {
      throw new RedressError('ARTIFACT_TOO_LARGE', `${this.#key} has more than the ${bytesMax} bytes it may have.`)
    }
    this.#hash.update(chunk)
  }
}

/** Whatever fails, an invalid key included: the body is not left behind half-read. */
export async function readingFrom<T>(
  key: string,
  body: ArtifactBody,
  options: PutOptions,
  store: (source: Source) => Promise<T>,
): Promise<T> {
  const source = new Source(key, body, options)
  try {
    source.check()
    return await store(source)
  } catch (error) {
    source.abandon()
    throw error
  }
}

/** What would be stored as something else than what was meant, and without any error. */
function checkStream(body: Readable, key: string): void {
  const refuse = (problem: string) => new RedressError('OPTION_INVALID', `The stream given for ${key} ${problem}.`)
  if (body.readableEnded || (body.destroyed && body.errored === null)) throw refuse('was read or destroyed before')
  if (body.readableEncoding !== null) throw refuse('was told to turn its bytes into text, which changes them')
}

function iteratorOf(body: ArtifactBody): AsyncIterator<unknown> {
  // Left open here because closing it is abandon's decision, not the loop's.
  if (body instanceof Readable) return body.iterator({ destroyOnReturn: false })
  if (typeof body === 'string') return onlyChunk(Buffer.from(body))
  if (body instanceof Uint8Array) return onlyChunk(body)
  if (typeof body?.[Symbol.asyncIterator] === 'function') return body[Symbol.asyncIterator]()
  throw new RedressError('OPTION_INVALID', 'The body of an artifact must be a stream, bytes or text.')
}

async function* onlyChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

function asBytes(chunk: unknown, key: string): Uint8Array {
  if (chunk instanceof Uint8Array) return chunk
  if (typeof chunk === 'string') return Buffer.from(chunk)
  throw new RedressError('OPTION_INVALID', `The stream given for ${key} gives ${typeof chunk}s, not bytes.`)
}

/** Rejects with the signal's own reason, without waiting for a source that may never give anything again. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** A checksum that bytes are run through; `matches` is asked after the last of them. */
export interface Check {
  update(chunk: Uint8Array): void
  matches(): boolean
}

export function sha256Check(expected: string): Check {
  const hash = createHash('sha256')
  return { update: (chunk) => void hash.update(chunk), matches: () => hash.digest('hex') === expected }
}

/**
 * The same bytes, failing at their end if they are not what was stored. The last of them are held back until then: who
 * counts what arrives must not have all of it before it is known to be wrong.
 */
export function checked(body: Readable, key: string, check: Check): Readable {
  let last: Uint8Array | undefined
  const checking = new Transform({
    transform(chunk, _encoding, done) {
      check.update(chunk)
      if (last !== undefined) this.push(last)
      last = chunk
      done()
    },
    flush(done) {
      if (check.matches()) done(null, last)
      else done(artifactCorrupt(key))
    },
  })
  return pipeline(body, checking, () => undefined)
}

export function checkRange(key: string, { start, end }: { start: number; end?: number | undefined }): void {
  const isRange =
    Number.isSafeInteger(start) && start >= 0 && (end === undefined || (Number.isSafeInteger(end) && end >= start))
  if (!isRange) throw rangeInvalid(key, start, end)
}
