import { createHash, type Hash } from 'node:crypto'
import { Agent, type ClientRequestArgs } from 'node:http'
import { Agent as SecureAgent } from 'node:https'
import type { Socket } from 'node:net'
import type {
  $Command,
  HeadObjectCommandOutput,
  S3Client,
  S3ClientResolvedConfig,
  ServiceInputTypes,
  ServiceOutputTypes,
} from '@aws-sdk/client-s3'
import { RedressError } from '../../core/errors.ts'
import { readEarlyAnswers } from '../../outbound/early-answer.ts'
import { loadPeers } from '../../runtime/manifest.ts'
import { artifactExists, artifactNotFound } from '../artifact-store.ts'
import { type Check, sha256Check, unlessAborted } from '../body.ts'
import type { S3Target, S3Timeouts } from './options.ts'

type Sdk = typeof import('@aws-sdk/client-s3')

/** One bucket and the client that reaches it: every request of this driver passes through `send`. */
export class Bucket {
  readonly sdk: Sdk
  readonly name: string
  readonly prefix: string
  readonly #client: S3Client

  private constructor(sdk: Sdk, client: S3Client, { bucket, prefix }: S3Target) {
    this.sdk = sdk
    this.#client = client
    this.name = bucket
    this.prefix = prefix
  }

  /** Sends nothing yet. The SDK is loaded here and nowhere else: programs that do not use S3 do not need it. */
  static async open(target: S3Target, timeouts: S3Timeouts): Promise<Bucket> {
    const sdk = await loadPeers('An s3: artifact store', () => import('@aws-sdk/client-s3'))
    return new Bucket(sdk, new sdk.S3Client(clientConfig(target, timeouts)), target)
  }

  /** What every request about one object has in common. */
  object(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.name, Key: this.prefix + key }
  }

  send<Input extends ServiceInputTypes, Output extends ServiceOutputTypes>(
    command: $Command<Input, Output, S3ClientResolvedConfig, ServiceInputTypes, ServiceOutputTypes>,
    signal?: AbortSignal | undefined,
  ): Promise<Output> {
    const answer = this.#client.send(command, signal === undefined ? {} : { abortSignal: signal })
    // The SDK rejects with an AbortError of its own; the caller expects the reason of its own abort.
    return unlessAborted(answer, signal)
  }

  close(): void {
    this.#client.destroy()
  }
}

/** The same settings as the SDK's default. */
const AGENT = { keepAlive: true, maxSockets: 50 }

/** If a bucket refuses a part before all of it was sent, its response gives the reason. */
function readingEarly<Some extends Agent>(agent: Some): Some {
  const create = agent.createConnection.bind(agent)
  agent.createConnection = (options: ClientRequestArgs, done) => {
    const socket = create(options, done)
    return socket === null || socket === undefined ? socket : readEarlyAnswers(socket as Socket)
  }
  return agent
}

/**
 * Everything is said here, because what is left out the SDK looks up in the environment and in ~/.aws: with
 * AWS_ENDPOINT_URL_S3 set, artifacts would go to a place that the app did not name.
 */
function clientConfig(target: S3Target, { connectTimeoutMs = 5000, requestTimeoutMs = 60_000 }: S3Timeouts) {
  const { region, endpoint, forcePathStyle, credentials } = target
  return {
    region,
    endpoint,
    forcePathStyle,
    credentials: (typeof credentials === 'function' ? credentials : async () => credentials) as () => Promise<never>,
    // A failed attempt is recorded, decided on and repeated by the job's policy; a second loop would hide it.
    maxAttempts: 1,
    retryMode: 'standard',
    defaultsMode: 'standard' as const,
    useDualstackEndpoint: false,
    useFipsEndpoint: false,
    useArnRegion: false,
    followRegionRedirects: false,
    disableS3ExpressSessionAuth: true,
    authSchemePreference: ['sigv4'],
    sigv4aSigningRegionSet: [region],
    userAgentAppId: 'redress',
    // We send a SHA-256 with everything that has a body. More than that, some S3-compatible stores do not understand.
    requestChecksumCalculation: 'WHEN_REQUIRED' as const,
    responseChecksumValidation: 'WHEN_REQUIRED' as const,
    // Not every store answers '100 Continue', and the SDK would wait for it.
    expectContinueHeader: false,
    requestHandler: {
      httpAgent: readingEarly(new Agent(AGENT)),
      httpsAgent: readingEarly(new SecureAgent(AGENT)),
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
      // Silence while a slow reader keeps us from reading is no fault: see received.ts, which knows the difference.
      socketTimeout: 0,
    },
  }
}

interface S3Answer {
  /** 'AccessDenied', 'SlowDown' ...; null when the store did not answer at all. */
  code: string | null
  status: number | null
}

export function answerOf(error: unknown): S3Answer {
  const { name, Code, $metadata } = (error ?? {}) as { name?: string; Code?: string; $metadata?: object }
  const status = ($metadata as { httpStatusCode?: unknown } | undefined)?.httpStatusCode
  // The SDK puts $metadata on errors of the network too, but then without a status.
  return typeof status === 'number' ? { code: Code ?? name ?? null, status } : { code: null, status: null }
}

/** The request may have been carried out all the same: no answer came, or one that does not say. */
export function isUncertain(error: unknown): boolean {
  const { status } = answerOf(rawOf(error))
  return status === null || [500, 502, 504].includes(status)
}

/** The SDK's error below ours. */
function rawOf(error: unknown): unknown {
  return error instanceof RedressError ? error.cause : error
}

/** A condition that we set on reading can only be that it is still the version we looked at. */
export const isReplaced = (error: unknown): boolean => answerOf(rawOf(error)).code === 'PreconditionFailed'

/** The same failure by the name that the caller of an artifact store knows, where it has one. */
export function namedFor(key: string, error: unknown): unknown {
  switch (answerOf(rawOf(error)).code) {
    case 'NoSuchKey':
      return artifactNotFound(key, rawOf(error))
    case 'InvalidRange':
      return new RedressError('ARTIFACT_RANGE_INVALID', `${key} does not have the bytes asked for.`, {
        cause: rawOf(error),
      })
    default:
      return error
  }
}

/** A condition that we set on a put can only be that nothing is there. */
export function existsOr(key: string, error: unknown): unknown {
  return answerOf(rawOf(error)).code === 'PreconditionFailed' ? artifactExists(key, rawOf(error)) : error
}

/** How different stores say that they, or this account's share of them, are full. */
const FULL = new Set(['InsufficientStorage', 'InsufficientCapacity', 'QuotaExceeded', 'XMinioStorageFull'])

/**
 * What a caller sees. The SDK's error stays as the cause, with its status and code, so that rules can tell AccessDenied
 * from SlowDown; which of them is worth another attempt is the policy's business.
 */
export function storageError(error: unknown, doing: string): unknown {
  if (error instanceof RedressError) return error
  const { code, status } = answerOf(error)
  if (status !== null) {
    const isFull = status === 507 || FULL.has(code ?? '')
    const answered = `The object store answered ${code ?? 'nothing more'} (${status}) while ${doing}.`
    return new RedressError(isFull ? 'STORAGE_FULL' : 'STORAGE_FAILED', answered, { cause: error })
  }
  const { code: errno, message } = error as { code?: unknown; message?: unknown }
  const because = typeof errno === 'string' ? errno : String(message)
  return new RedressError('STORAGE_FAILED', `The object store could not be reached while ${doing}: ${because}.`, {
    cause: error,
  })
}

/** Runs one request, and says what was being done when it fails. */
export async function attempting<T>(
  doing: string,
  signal: AbortSignal | undefined,
  request: () => Promise<T>,
): Promise<T> {
  try {
    return await request()
  } catch (error) {
    throw signal?.aborted === true ? signal.reason : storageError(error, doing)
  }
}

/**
 * What we tell the store about an artifact, in its metadata.
 *
 * The SHA-256 of the whole is there when it was known before the upload began: for an artifact of one part, or when the
 * caller announced it. Metadata cannot be added at the end of an upload in parts, so for the rest the store's own sum of
 * the parts' sums serves, and the size of a part is kept to work it out again.
 */
export const SHA256 = 'redress-sha256'
export const PART_BYTES = 'redress-part-bytes'
/** Which put this was: after a lost answer it tells whether the object that is there is ours. */
export const PUT_ID = 'redress-put'

export function sha256Of(head: Pick<HeadObjectCommandOutput, 'Metadata'>): string | null {
  return head.Metadata?.[SHA256] ?? null
}

/** How to find out whether bytes are what was stored; null when the store knows nothing to compare with. */
export function checkFor(head: HeadObjectCommandOutput): Check | null {
  const sha256 = sha256Of(head)
  if (sha256 !== null) return sha256Check(sha256)
  const partBytes = Number(head.Metadata?.[PART_BYTES])
  const [sum, parts] = head.ChecksumSHA256?.split('-') ?? []
  if (!(partBytes > 0) || sum === undefined || parts === undefined) return null
  return sumOfPartsCheck(partBytes, `${sum}-${parts}`)
}

/** S3's SHA-256 of an object in parts: of the SHA-256s of its parts, with their number after it. */
function sumOfPartsCheck(partBytes: number, expected: string): Check {
  const whole = createHash('sha256')
  let parts = 0
  let part: Hash | null = null
  let room = 0

  const endPart = () => {
    if (part !== null) whole.update(part.digest())
    part = null
  }
  return {
    update(chunk) {
      for (let at = 0; at < chunk.byteLength; ) {
        if (part === null) {
          part = createHash('sha256')
          parts++
          room = partBytes
        }
        const taken = chunk.subarray(at, at + room)
        part.update(taken)
        at += taken.byteLength
        room -= taken.byteLength
        if (room === 0) endPart()
      }
    },
    matches() {
      endPart()
      return `${whole.digest('base64')}-${parts}` === expected
    },
  }
}
