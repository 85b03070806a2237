import type { Readable } from 'node:stream'
import type { ArtifactStore } from 'redress/artifacts'
import { retryAfterHeaderMs } from 'redress/outbound'
import { type Code, FetchFailure } from '../failures/failure.ts'

/** The facts about a download that an upload needs. */
export interface Uploadable {
  sha256: string
  bytes: number
  contentType: string | null
  contentEncoding: string | null
  open(): Readable
}

export interface UploadOptions {
  store: ArtifactStore
  key: string
  /**
   * How the upload is verified. `head` asks the store for length and checksum: an object store has checked each part
   * against the SHA-256 sent with it, and a folder has synced the file. `read` fetches every byte again.
   */
  verification?: 'head' | 'read'
  nowMs(): number
  signal?: AbortSignal
}

export interface Uploaded {
  key: string
  bytes: number
  sha256: string
}

/** Stores the content whole and verifies it. Uploading is idempotent: the key belongs to the resource. */
export async function upload(spooled: Uploadable, options: UploadOptions): Promise<Uploaded> {
  const { store, key, signal, verification = 'head' } = options
  const { sha256, bytes } = spooled
  try {
    const described = { contentType: contentTypeOf(spooled), contentEncoding: contentEncodingOf(spooled) }
    await store.put(key, spooled.open(), { sha256, ...described, signal })
    const found = await look(store, key, verification, signal)
    if (found.bytes !== bytes || (found.sha256 !== null && found.sha256 !== sha256)) {
      throw new FetchFailure('UPLOAD_CHECKSUM', `${key} was stored with ${found.bytes} bytes, ${bytes} were sent`, {
        context: { bytes, bytesStored: found.bytes, sha256, sha256Stored: found.sha256 },
      })
    }
    return { key, bytes, sha256 }
  } catch (error) {
    // The reason of an abort is the caller's own.
    if (signal?.aborted === true) throw signal.reason
    throw error instanceof FetchFailure ? error : uploadFailure(error, key, options.nowMs())
  }
}

async function look(
  store: ArtifactStore,
  key: string,
  verification: 'head' | 'read',
  signal: AbortSignal | undefined,
): Promise<{ bytes: number; sha256: string | null }> {
  return verification === 'read' ? store.verify(key, { signal }) : store.head(key, { signal })
}

/** An origin may send any bytes as a header value. Values that the store cannot keep are dropped. */
function contentTypeOf({ contentType }: Uploadable): string | undefined {
  return contentType !== null && /^[\x20-\x7e]{1,200}$/.test(contentType) ? contentType : undefined
}

function contentEncodingOf({ contentEncoding }: Uploadable): string | undefined {
  return contentEncoding !== null && /^[\w.+-]{1,40}(, ?[\w.+-]{1,40}){0,4}$/.test(contentEncoding)
    ? contentEncoding
    : undefined
}

/** By the code that the object store answered with (F10). */
const BY_S3_CODE: Readonly<Record<string, Code>> = {
  AccessDenied: 'UPLOAD_ACCESS_DENIED',
  AllAccessDisabled: 'UPLOAD_ACCESS_DENIED',
  AccountProblem: 'UPLOAD_ACCESS_DENIED',
  InvalidAccessKeyId: 'UPLOAD_ACCESS_DENIED',
  SignatureDoesNotMatch: 'UPLOAD_ACCESS_DENIED',
  InvalidToken: 'UPLOAD_ACCESS_DENIED',
  NoSuchBucket: 'UPLOAD_NO_BUCKET',
  InvalidBucketName: 'UPLOAD_NO_BUCKET',
  PermanentRedirect: 'UPLOAD_NO_BUCKET',
  SlowDown: 'UPLOAD_THROTTLED',
  Throttling: 'UPLOAD_THROTTLED',
  ThrottlingException: 'UPLOAD_THROTTLED',
  TooManyRequests: 'UPLOAD_THROTTLED',
  RequestLimitExceeded: 'UPLOAD_THROTTLED',
  ServiceUnavailable: 'UPLOAD_S3_ERROR',
  InternalError: 'UPLOAD_S3_ERROR',
  // Answered with 400, and true of this moment only.
  RequestTimeout: 'UPLOAD_NETWORK',
  IncompleteBody: 'UPLOAD_NETWORK',
  // A clock that is being set, credentials that are being renewed.
  RequestTimeTooSkewed: 'UPLOAD_S3_ERROR',
  ExpiredToken: 'UPLOAD_S3_ERROR',
  OperationAborted: 'UPLOAD_S3_ERROR',
  // The upload was swept away under us: the next try begins another.
  NoSuchUpload: 'UPLOAD_S3_ERROR',
  BadDigest: 'UPLOAD_CHECKSUM',
  XAmzContentSHA256Mismatch: 'UPLOAD_CHECKSUM',
}

const DENIED = new Set(['EACCES', 'EPERM', 'EROFS'])

interface Answer {
  $metadata?: { httpStatusCode?: number }
  $response?: { headers?: Record<string, string> }
  Code?: string
  name?: string
  code?: unknown
  errno?: unknown
}

/** Maps an error of the artifact store to one of our codes. */
export function uploadFailure(error: unknown, key: string, nowMs = Date.now()): FetchFailure {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: Answer }
  switch (code) {
    case 'STORAGE_FULL':
      return failed('UPLOAD_DISK_FULL', `no room to store ${key}`, error, cause)
    case 'STORAGE_FAILED':
      return storageFailed(error as Error, key, cause ?? {}, nowMs)
    case 'ARTIFACT_NOT_FOUND':
      return failed('UPLOAD_CHECKSUM', `${key} was stored, and is not there`, error, cause)
    case 'ARTIFACT_KEY_INVALID':
      return failed('UPLOAD_REFUSED', `something in the storage folder is in the way of ${key}`, error, cause)
    case 'ARTIFACT_MISMATCH':
      // Not the store's fault: the spooled content changed after the download.
      return failed('SYSTEM_SPOOL_FAILED', `what was downloaded for ${key} changed in the work folder`, error, cause)
    default:
      return failed('SYSTEM_UNKNOWN', `storing ${key} failed in a way that nobody foresaw`, error, cause)
  }
}

function storageFailed(error: Error, key: string, cause: Answer, nowMs: number): FetchFailure {
  const status = statusOf(cause)
  if (status === null) {
    const errno = errnoOf(cause)
    const isFolder = errno !== null && typeof cause.errno === 'number' && !isOfNetwork(errno)
    if (!isFolder) return failed('UPLOAD_NETWORK', `the object store could not be reached for ${key}`, error, cause)
    const code = DENIED.has(errno) ? 'UPLOAD_ACCESS_DENIED' : 'UPLOAD_IO_ERROR'
    return failed(code, `the storage folder answered ${errno} for ${key}`, error, cause)
  }
  const said = s3CodeOf(cause)
  const wait = retryAfterHeaderMs(cause.$response?.headers?.['retry-after'], nowMs)
  const message = `the object store answered ${said ?? 'nothing more'} (${status}) for ${key}`
  return failed((said !== null && BY_S3_CODE[said]) || byStatus(status), message, error, cause, wait)
}

/** For errors without a known name, and for HEAD, whose answer has no body. */
function byStatus(status: number): Code {
  if (status === 429) return 'UPLOAD_THROTTLED'
  if (status >= 500 || status === 408 || status === 409) return 'UPLOAD_S3_ERROR'
  if (status === 401 || status === 403) return 'UPLOAD_ACCESS_DENIED'
  return 'UPLOAD_REFUSED'
}

const NETWORK = /^(?:ECONN|EPIPE|ETIMEDOUT|EHOST|ENET|EAI_|ENOTFOUND|EADDR|ESOCKET|UND_ERR)/
const isOfNetwork = (errno: string): boolean => NETWORK.test(errno)

function statusOf(cause: Answer): number | null {
  const status = cause.$metadata?.httpStatusCode
  return typeof status === 'number' ? status : null
}

function s3CodeOf({ Code, name }: Answer): string | null {
  return Code ?? name ?? null
}

function errnoOf({ code }: Answer): string | null {
  return typeof code === 'string' ? code : null
}

function failed(
  code: Code,
  message: string,
  cause: unknown,
  answer: Answer | undefined,
  wait: number | null = null,
): FetchFailure {
  const status = answer === undefined ? null : statusOf(answer)
  const errno = answer === undefined ? null : errnoOf(answer)
  return new FetchFailure(code, message, {
    context: {
      status,
      ...(status !== null && answer !== undefined && { s3Code: s3CodeOf(answer) }),
      ...(errno !== null && { errno }),
    },
    ...(wait !== null && { retryAfterMs: wait }),
    cause,
  })
}
