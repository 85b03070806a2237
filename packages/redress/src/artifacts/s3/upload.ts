import { createHash, randomUUID } from 'node:crypto'
import { RedressError } from '../../core/errors.ts'
import type { Log } from '../../runtime/log.ts'
import type { StoredArtifact } from '../artifact-store.ts'
import { type Source, unlessAborted } from '../body.ts'
import { answerOf, attempting, type Bucket, existsOr, isUncertain, PART_BYTES, PUT_ID, SHA256 } from './bucket.ts'

/** Removing the parts of a broken upload cannot be repeated by a policy: a later attempt does not know the upload. */
const ABORT_TRIES = 3

export interface Upload {
  bucket: Bucket
  key: string
  source: Source
  partBytes: number
  partsInFlight: number
  contentType: string | undefined
  contentEncoding: string | undefined
  ifAbsent: boolean
  /** As announced by the caller. */
  sha256: string | undefined
  signal: AbortSignal | undefined
  log: Log
}

/** One request when the artifact fits into one part, an upload in parts otherwise. */
export async function upload(options: Upload): Promise<StoredArtifact> {
  const spare: Buffer[] = []
  const parts = partsOf(options.source.chunks(), options.partBytes, spare)
  const first = await parts.next()
  if (first.done === true) throw new Error('even a stream without content has one part')
  return first.value.isLast
    ? putWhole(options, first.value.data)
    : new UploadInParts(options, spare).run(first.value, parts)
}

async function putWhole(options: Upload, data: Buffer): Promise<StoredArtifact> {
  const { bucket, key, source, signal } = options
  const sha256 = source.finish()
  const putId = randomUUID()
  const command = new bucket.sdk.PutObjectCommand({
    ...bucket.object(key),
    ...onlyIfAbsent(options),
    Body: data,
    ...describedBy(options),
    ChecksumSHA256: base64(sha256),
    Metadata: { [PUT_ID]: putId, [SHA256]: sha256 },
  })
  try {
    await attempting(`storing ${key}`, signal, () => bucket.send(command, signal))
  } catch (error) {
    if (signal?.aborted === true || !(await wasDone(bucket, key, putId, error))) throw existsOr(key, error)
  }
  return { key, bytes: source.bytes, sha256 }
}

class UploadInParts {
  readonly #options: Upload
  readonly #putId = randomUUID()
  /** Memory of parts that are stored, for those to come. */
  readonly #spare: Buffer[]
  /** Stops everything at the first failure: parts on their way, and waiting for a source that may be slow. */
  readonly #stop = new AbortController()
  readonly #signal: AbortSignal
  readonly #inFlight = new Set<Promise<void>>()
  readonly #sent: { PartNumber: number; ETag: string | undefined; ChecksumSHA256: string }[] = []

  constructor(options: Upload, spare: Buffer[]) {
    this.#options = options
    this.#spare = spare
    this.#signal = AbortSignal.any([this.#stop.signal, ...(options.signal === undefined ? [] : [options.signal])])
  }

  async run(first: Part, rest: AsyncIterator<Part>): Promise<StoredArtifact> {
    const { key, source } = this.#options
    const uploadId = await this.#begin()
    try {
      await this.#sendAll(uploadId, first, rest)
      const sha256 = source.finish()
      await this.#complete(uploadId)
      return { key, bytes: source.bytes, sha256 }
    } catch (error) {
      this.#stop.abort(error)
      await this.#removeParts(uploadId)
      throw error
    }
  }

  async #begin(): Promise<string> {
    const { bucket, key, partBytes, sha256, signal } = this.#options
    const command = new bucket.sdk.CreateMultipartUploadCommand({
      ...bucket.object(key),
      ...describedBy(this.#options),
      ChecksumAlgorithm: 'SHA256',
      Metadata: {
        [PUT_ID]: this.#putId,
        [PART_BYTES]: String(partBytes),
        ...(sha256 === undefined ? {} : { [SHA256]: sha256 }),
      },
    })
    const { UploadId } = await attempting(`storing ${key}`, signal, () => bucket.send(command, signal))
    if (UploadId !== undefined) return UploadId
    throw new RedressError('STORAGE_FAILED', 'The object store began an upload and gave it no id.')
  }

  async #sendAll(uploadId: string, first: Part, rest: AsyncIterator<Part>): Promise<void> {
    for (let part: Part | undefined = first; part !== undefined; ) {
      if (this.#inFlight.size >= this.#options.partsInFlight) await Promise.race(this.#inFlight)
      this.#signal.throwIfAborted()
      this.#launch(uploadId, part)
      const next: IteratorResult<Part> = await unlessAborted(rest.next(), this.#signal)
      part = next.done === true ? undefined : next.value
    }
    await Promise.all(this.#inFlight)
    this.#signal.throwIfAborted()
  }

  #launch(uploadId: string, part: Part): void {
    const sending = this.#sendPart(uploadId, part)
      .catch((error) => this.#stop.abort(error))
      .finally(() => this.#inFlight.delete(sending))
    this.#inFlight.add(sending)
  }

  async #sendPart(uploadId: string, { number, data }: Part): Promise<void> {
    const { bucket, key, partBytes } = this.#options
    if (number > PARTS_MAX) {
      const bytesMax = PARTS_MAX * partBytes
      throw new RedressError('ARTIFACT_TOO_LARGE', `${key} has more than ${bytesMax} bytes: raise partBytes for it.`)
    }
    const ChecksumSHA256 = createHash('sha256').update(data).digest('base64')
    const command = new bucket.sdk.UploadPartCommand({
      ...bucket.object(key),
      UploadId: uploadId,
      PartNumber: number,
      Body: data,
      ChecksumSHA256,
    })
    const doing = `storing part ${number} of ${key}`
    const { ETag } = await attempting(doing, this.#signal, () => bucket.send(command, this.#signal))
    this.#sent.push({ PartNumber: number, ETag, ChecksumSHA256 })
    // Only now: until the part is stored, the request may have to be sent again.
    this.#spare.push(data)
  }

  /** Cannot be aborted: after this request it would be unknown whether the artifact exists. */
  async #complete(uploadId: string): Promise<void> {
    const { bucket, key } = this.#options
    const command = new bucket.sdk.CompleteMultipartUploadCommand({
      ...bucket.object(key),
      ...onlyIfAbsent(this.#options),
      UploadId: uploadId,
      MultipartUpload: { Parts: this.#sent.sort((a, b) => a.PartNumber - b.PartNumber) },
    })
    try {
      await attempting(`storing ${key}`, undefined, () => bucket.send(command))
    } catch (error) {
      if (!(await wasDone(bucket, key, this.#putId, error))) throw existsOr(key, error)
    }
  }

  /** Parts that are never completed cost money for ever and are seen in no listing. */
  async #removeParts(UploadId: string): Promise<void> {
    const { bucket, key, log } = this.#options
    const upload = { ...bucket.object(key), UploadId }
    await Promise.all(this.#inFlight)
    for (let tries = 1; tries <= ABORT_TRIES; tries++) {
      try {
        await bucket.send(new bucket.sdk.AbortMultipartUploadCommand(upload))
        // A part that was on its way may have arrived after all; only a list that is refused says that all is gone.
        await bucket.send(new bucket.sdk.ListPartsCommand(upload))
      } catch (error) {
        if (answerOf(error).code === 'NoSuchUpload') return
      }
    }
    log.warn({ key, upload_id: UploadId }, 'parts of a failed upload are left in the object store until the next sweep')
  }
}

/** Some stores decompress gzip for clients that do not accept it. The bytes would then differ from the stored ones. */
function describedBy({ contentType, contentEncoding }: Upload) {
  const encoded =
    contentEncoding === undefined ? {} : { ContentEncoding: contentEncoding, CacheControl: 'no-transform' }
  return { ContentType: contentType, ...encoded }
}

function onlyIfAbsent({ ifAbsent }: Upload): { IfNoneMatch?: string } {
  return ifAbsent ? { IfNoneMatch: '*' } : {}
}

/** Whether a put that seems to have failed was carried out: the answer was lost, and what is there now is ours. */
async function wasDone(bucket: Bucket, key: string, putId: string, error: unknown): Promise<boolean> {
  if (!isUncertain(error)) return false
  try {
    const { Metadata } = await bucket.send(new bucket.sdk.HeadObjectCommand(bucket.object(key)))
    return Metadata?.[PUT_ID] === putId
  } catch {
    return false
  }
}

function base64(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64')
}

/** What S3 takes at least as a part that is not the last one. */
export const PART_BYTES_MIN = 5 * 2 ** 20
const PARTS_MAX = 10_000

interface Part {
  number: number
  data: Buffer
  isLast: boolean
}

/**
 * Cuts a stream into parts of the same size; the last one has what is left, and may be empty if it is the only one.
 * The memory of a part that was sent goes back to `spare` and carries a later one: left to the garbage collector,
 * an upload would hold as many parts as that has not yet come by to take.
 */
async function* partsOf(chunks: AsyncIterable<Uint8Array>, partBytes: number, spare: Buffer[]): AsyncGenerator<Part> {
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
