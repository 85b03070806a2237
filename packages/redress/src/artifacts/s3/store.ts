import { RedressError } from '../../core/errors.ts'
import { type Clock, systemClock } from '../../runtime/clock.ts'
import { type Log, silentLog } from '../../runtime/log.ts'
import type * as Api from '../artifact-store.ts'
import { artifactExists, checkOptionNames } from '../artifact-store.ts'
import { checked, checkRange, readingFrom } from '../body.ts'
import { checkedAge, checkKey } from '../key.ts'
import { answerOf, attempting, Bucket } from './bucket.ts'
import type { S3Options, S3Tuning } from './options.ts'
import { headOf, look, type Reading, read, readWithCheck, verifyBody } from './reading.ts'
import { listPage, removeOld, sweepUploads } from './retention.ts'
import { PART_BYTES_MIN, upload } from './upload.ts'

const PART_BYTES_DEFAULT = 8 * 2 ** 20
const PARTS_IN_FLIGHT_DEFAULT = 2
const IDLE_TIMEOUT_MS_DEFAULT = 60_000

/** Artifacts as objects of a bucket: the key is the object's, after the prefix. */
export class S3Artifacts implements Api.ArtifactStore {
  readonly #bucket: Bucket
  readonly #clock: Clock
  readonly #log: Log
  readonly #partBytes: number
  readonly #partsInFlight: number
  readonly #idleTimeoutMs: number

  private constructor(bucket: Bucket, options: S3Options) {
    this.#bucket = bucket
    this.#clock = options.clock ?? systemClock
    this.#log = options.log ?? silentLog
    this.#partBytes = options.partBytes ?? PART_BYTES_DEFAULT
    this.#partsInFlight = options.partsInFlight ?? PARTS_IN_FLIGHT_DEFAULT
    this.#idleTimeoutMs = options.idleTimeoutMs ?? IDLE_TIMEOUT_MS_DEFAULT
  }

  static async open(options: S3Options): Promise<S3Artifacts> {
    checkTuning(options)
    return new S3Artifacts(await Bucket.open(options.target, options), options)
  }

  put(key: string, body: Api.ArtifactBody, options: Api.PutOptions = {}): Promise<Api.StoredArtifact> {
    const { contentType, contentEncoding, ifAbsent = false, sha256, signal } = options
    return readingFrom(key, body, options, async (source) => {
      checkKey(key)
      // Checked before the first byte, so that no caller sends a gigabyte in vain.
      if (ifAbsent && (await this.#exists(key, signal))) throw artifactExists(key)
      return upload({
        bucket: this.#bucket,
        key,
        source,
        partBytes: this.#partBytes,
        partsInFlight: this.#partsInFlight,
        contentType,
        contentEncoding,
        ifAbsent,
        sha256,
        signal,
        log: this.#log,
      })
    })
  }

  async get(key: string, options: Api.GetOptions = {}): Promise<Api.ArtifactContent> {
    checkOptionNames('get', options)
    const { range, verify, signal } = options
    checkKey(key)
    signal?.throwIfAborted()
    if (range !== undefined) checkRange(key, range)
    if (verify !== true || range !== undefined) return read(this.#bucket, key, this.#reading({ range, signal }))
    const { content, check } = await readWithCheck(this.#bucket, key, this.#reading({ signal }))
    return check === null ? content : { ...content, body: checked(content.body, key, check) }
  }

  async head(key: string, options: Api.SignalOption = {}): Promise<Api.ArtifactHead> {
    checkOptionNames('head', options)
    const { signal } = options
    checkKey(key)
    signal?.throwIfAborted()
    return headOf(key, await look(this.#bucket, key, signal))
  }

  async verify(key: string, options: Api.SignalOption = {}): Promise<Api.Verification> {
    checkOptionNames('verify', options)
    const { signal } = options
    checkKey(key)
    signal?.throwIfAborted()
    const { content, check } = await readWithCheck(this.#bucket, key, this.#reading({ signal }))
    return verifyBody(content.body, check)
  }

  async remove(key: string, options: Api.SignalOption = {}): Promise<void> {
    checkOptionNames('remove', options)
    const { signal } = options
    checkKey(key)
    signal?.throwIfAborted()
    const command = new this.#bucket.sdk.DeleteObjectCommand(this.#bucket.object(key))
    await attempting(`removing ${key}`, signal, () => this.#bucket.send(command, signal))
  }

  async list(options: Api.ListOptions = {}): Promise<Api.ArtifactPage> {
    checkOptionNames('list', options)
    return listPage(this.#bucket, options)
  }

  async removeOlderThan(options: Api.RetentionOptions): Promise<Api.RetentionStep> {
    checkOptionNames('removeOlderThan', options)
    return removeOld(this.#bucket, options, this.#clock.nowMs() - checkedAge(options.olderThanMs))
  }

  async sweep(options: Api.SweepOptions = {}): Promise<{ removed: number }> {
    checkOptionNames('sweep', options)
    return sweepUploads(this.#bucket, options, this.#clock.nowMs())
  }

  async usage(): Promise<Api.Usage> {
    return { bytesUsed: null, bytesFree: null, bytesTotal: null }
  }

  async pressure(): Promise<Api.Pressure> {
    return 'ok'
  }

  async close(): Promise<void> {
    this.#bucket.close()
  }

  /** Asked with HEAD alone: whether it is the bucket that is missing, the put itself will find out. */
  async #exists(key: string, signal: AbortSignal | undefined): Promise<boolean> {
    const command = new this.#bucket.sdk.HeadObjectCommand(this.#bucket.object(key))
    return attempting(`looking at ${key}`, signal, async () => {
      try {
        await this.#bucket.send(command, signal)
        return true
      } catch (error) {
        if (answerOf(error).status === 404) return false
        throw error
      }
    })
  }

  #reading(wanted: Pick<Api.GetOptions, 'range' | 'signal'>): Reading {
    return { ...wanted, clock: this.#clock, idleTimeoutMs: this.#idleTimeoutMs }
  }
}

function checkTuning({ partBytes, partsInFlight, connectTimeoutMs, requestTimeoutMs, idleTimeoutMs }: S3Tuning): void {
  const least = {
    connectTimeoutMs: 1,
    requestTimeoutMs: 1,
    idleTimeoutMs: 1,
    partsInFlight: 1,
    partBytes: PART_BYTES_MIN,
  }
  const given = { connectTimeoutMs, requestTimeoutMs, idleTimeoutMs, partsInFlight, partBytes }
  for (const [name, min] of Object.entries(least)) {
    const value = given[name as keyof typeof given]
    if (value === undefined || (Number.isSafeInteger(value) && value >= min)) continue
    throw new RedressError('OPTION_INVALID', `${name} must be a whole number from ${min} on, not ${value}.`)
  }
}
