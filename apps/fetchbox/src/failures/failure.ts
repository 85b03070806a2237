import { type CodeSpec, failureCodes } from 'redress'
import type { FailureInfo } from '../jobs/views.ts'

/** The seven kinds of failure, which are also what every code begins with (F2). */
const PREFIXES = {
  VALIDATION_: 'validation',
  AUTH_: 'authorization',
  HANDLER_: 'handler',
  DOWNLOAD_: 'download',
  UPLOAD_: 'upload',
  STORAGE_: 'storage',
  SYSTEM_: 'system',
} as const

export type Category = (typeof PREFIXES)[keyof typeof PREFIXES]

/** Mistakes of the client (F5). If a worker finds one, the task should not have been accepted (F14). */
const refused = (message: string, http = 400): CodeSpec => ({ fault: 'caller', retry: 'dead-letter', http, message })

/**
 * All failures, for the API and the worker (F23). `waiting` is shown while a retry is scheduled, `message` when the
 * failure is final. The failure's own sentence follows and names the cause.
 */
export const CODES = failureCodes({
  VALIDATION_INVALID_JSON: refused('The manifest is not valid JSON.'),
  VALIDATION_MISSING_FIELD: refused('The manifest lacks a field.'),
  VALIDATION_INVALID_FIELD: refused('A field of the manifest is not what it must be.'),
  VALIDATION_INVALID_URL: refused('The URL of a resource is not one that can be fetched.'),
  VALIDATION_FORBIDDEN_HEADER: refused('A resource names a request header that is not its to set.'),
  VALIDATION_DUPLICATE_ID: refused('Two resources have the same id.'),
  VALIDATION_TOO_MANY_RESOURCES: refused('The manifest has more resources than one job may have.'),
  VALIDATION_TOO_LARGE: refused('The manifest is larger than it may be.', 413),
  VALIDATION_UNSUPPORTED_ENCODING: refused('The manifest is encoded in a way that is not read here.', 415),
  VALIDATION_UNSUPPORTED_TYPE: refused('The manifest is not sent as JSON.', 415),
  VALIDATION_UNKNOWN_JOB_TYPE: refused('There is no handler for this type of job.'),
  VALIDATION_JOB_ACTIVE: refused('The job is under way again.', 409),
  VALIDATION_IDEMPOTENCY_KEY_REUSED: refused('The idempotency key was used before, for another manifest.', 409),

  AUTH_MISSING: refused('Nobody is signed in.', 401),
  AUTH_INVALID: refused('The credentials are not valid.', 401),
  AUTH_ROLE: refused('This is not for the role or the scopes of the token.', 403),
  AUTH_TENANT: refused('The tenant is not yours to name.', 403),

  HANDLER_REFUSED: {
    fault: 'caller',
    retry: 'never',
    http: 400,
    message: 'The handler of this type of job refused the resource.',
  },
  HANDLER_ERROR: {
    fault: 'code',
    retry: 'dead-letter',
    http: 500,
    message: 'The handler of this type of job failed. It has to be corrected first.',
  },

  DOWNLOAD_TIMEOUT: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The origin took too long. The download is tried again.',
    message: 'The origin took too long each time. Replay the resource when it is faster.',
  },
  DOWNLOAD_DNS: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The name of the origin could not be resolved. The download is tried again.',
    message: 'The name of the origin could not be resolved. Correct the URL, or replay when the name is known.',
  },
  DOWNLOAD_CONNECTION: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The connection to the origin broke or was refused. The download is tried again.',
    message: 'The connection to the origin broke or was refused each time. Replay when the origin is back.',
  },
  DOWNLOAD_TLS: {
    fault: 'dependency',
    // A certificate that is wrong now is wrong in a second, too.
    retry: 'never',
    message: 'The origin could not prove who it is. Replay when its certificate is valid.',
  },
  DOWNLOAD_PROTOCOL: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The origin answered with something that is not HTTP. The download is tried again.',
    message: 'The origin answered with something that is not HTTP each time.',
  },
  DOWNLOAD_HTTP_4XX: {
    fault: 'caller',
    retry: 'never',
    message: 'The origin refused the request. Correct the URL or the headers.',
  },
  DOWNLOAD_HTTP_408: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The origin gave up waiting for the request. The download is tried again.',
    message: 'The origin gave up waiting for the request each time. Replay later.',
  },
  DOWNLOAD_HTTP_429: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The origin asks for fewer requests. The download is tried again.',
    message: 'The origin kept asking for fewer requests. Replay later, with fewer at once.',
  },
  DOWNLOAD_HTTP_499: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The origin saw the connection close. The download is tried again.',
    message: 'The origin saw the connection close each time. Replay later.',
  },
  DOWNLOAD_HTTP_5XX: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The origin is having an issue. The download is tried again.',
    message: 'The origin kept having an issue. Replay when it is back.',
  },
  DOWNLOAD_HTTP_UNEXPECTED: {
    fault: 'dependency',
    retry: 'never',
    message: 'The origin answered with a status that brings no resource.',
  },
  DOWNLOAD_PROXY_FAILED: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'The proxy failed. The download is tried again through another one.',
    message: 'The proxies failed each time. Replay when they are back.',
  },
  DOWNLOAD_PROXY_EXHAUSTED: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'No proxy is usable at the moment. The download is tried again.',
    message: 'No proxy was usable in any tier. Replay when one is back.',
  },
  DOWNLOAD_TOO_LARGE: {
    fault: 'caller',
    retry: 'never',
    message: 'The resource is larger than it may be.',
  },
  DOWNLOAD_INCOMPLETE: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The resource did not arrive whole. The download is tried again.',
    message: 'The resource did not arrive whole, each time.',
  },
  DOWNLOAD_CHECKSUM: {
    fault: 'dependency',
    // The proxy may have sent its own page or a stale copy: the next try uses another one.
    retry: 'transient',
    waiting: 'The resource is not the one that was announced. The download is tried again.',
    message: 'The resource is not the one that was announced: its SHA-256 differs each time.',
  },
  DOWNLOAD_INVALID_URL: {
    fault: 'caller',
    retry: 'never',
    message: 'The URL cannot be fetched. Correct it.',
  },
  DOWNLOAD_URL_FORBIDDEN: {
    fault: 'caller',
    retry: 'never',
    message: 'The URL leads to an address that may not be reached from here.',
  },
  DOWNLOAD_TOO_MANY_REDIRECTS: {
    fault: 'dependency',
    retry: 'never',
    message: 'The origin redirects without end.',
  },
  DOWNLOAD_REDIRECT_FORBIDDEN: {
    fault: 'dependency',
    retry: 'never',
    message: 'The origin redirects to an address that may not be reached from here.',
  },

  UPLOAD_S3_ERROR: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The object store is having an issue. The upload is tried again.',
    message: 'The object store kept having an issue. Replay when it is back.',
  },
  UPLOAD_THROTTLED: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The object store asks for fewer requests. The upload is tried again.',
    message: 'The object store kept asking for fewer requests. Replay later.',
  },
  UPLOAD_NETWORK: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'The object store could not be reached. The upload is tried again.',
    message: 'The object store could not be reached. Replay when it is back.',
  },
  UPLOAD_IO_ERROR: {
    fault: 'system',
    retry: 'transient',
    waiting: 'The storage folder could not be written. The upload is tried again.',
    message: 'The storage folder could not be written each time. Look at its disk, then replay.',
  },
  UPLOAD_DISK_FULL: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'The storage is full. The upload is tried again.',
    message: 'The storage was full each time. Make room, then replay.',
  },
  UPLOAD_CHECKSUM: {
    fault: 'dependency',
    retry: 'transient',
    waiting: 'What was stored is not what was sent. The upload is tried again.',
    message: 'What was stored was not what was sent, each time. Look at the storage, then replay.',
  },
  UPLOAD_ACCESS_DENIED: {
    fault: 'operator',
    retry: 'never',
    message: 'The storage refused the credentials. Correct them, then replay.',
  },
  UPLOAD_NO_BUCKET: {
    fault: 'operator',
    retry: 'never',
    message: 'The bucket does not exist, or its name is not one. Correct the configuration, then replay.',
  },
  UPLOAD_REFUSED: {
    fault: 'operator',
    retry: 'never',
    message: 'The storage refused the upload for good. See what it said.',
  },

  STORAGE_UNAVAILABLE: {
    fault: 'dependency',
    retry: 'transient',
    http: 503,
    waiting: 'The storage cannot be used at the moment. It is tried again.',
    message: 'The storage cannot be used at the moment. Try again later.',
  },
  STORAGE_FULL: {
    fault: 'operator',
    retry: 'transient',
    http: 503,
    waiting: 'The storage is full. It is tried again.',
    message: 'The storage is full. Try again when there is room.',
  },
  STORAGE_NOT_FOUND: {
    fault: 'operator',
    retry: 'never',
    http: 404,
    message: 'What was stored is not there any more.',
  },
  STORAGE_CORRUPT: {
    fault: 'system',
    retry: 'never',
    http: 500,
    message: 'What is stored is not what was written.',
  },

  SYSTEM_STORE_UNAVAILABLE: {
    fault: 'system',
    retry: 'dead-letter',
    http: 503,
    message: 'The job store cannot be used at the moment. Try again later.',
  },
  SYSTEM_SPOOL_FULL: {
    fault: 'operator',
    retry: 'transient',
    waiting: 'The work folder is full. The download is tried again.',
    message: 'The work folder was full each time. Make room, then replay.',
  },
  SYSTEM_SPOOL_FAILED: {
    fault: 'system',
    retry: 'dead-letter',
    message: 'The work folder could not be written or read. Look at its disk, then replay.',
  },
  SYSTEM_KEY_MISSING: {
    fault: 'operator',
    retry: 'dead-letter',
    message:
      'The headers of this resource cannot be opened here. Give every process the same FETCHBOX_SECRET, then replay.',
  },
  SYSTEM_PANIC: {
    fault: 'code',
    retry: 'dead-letter',
    http: 500,
    message: 'The worker broke down over this resource. Look at its log before you replay it.',
  },
  SYSTEM_UNKNOWN: {
    fault: 'unknown',
    retry: 'dead-letter',
    http: 500,
    message: 'Something went wrong that nobody foresaw. Look at the log before you replay it.',
  },
})

export type Code = keyof typeof CODES

/** `null` for a code that is not ours: the engine has its own codes. */
export function categoryOf(code: string): Category | null {
  const prefix = Object.keys(PREFIXES).find((begin) => code.startsWith(begin))
  return prefix === undefined ? null : PREFIXES[prefix as keyof typeof PREFIXES]
}

export function isRetryable(code: Code): boolean {
  return CODES[code].retry === 'transient'
}

/** The position of a transfer when it failed. `proxy` is "pool#n", null if there was none (F4). */
export interface FailureContext {
  proxy: string | null
  /** The status that the origin or the object store answered with; null when it did not answer. */
  status: number | null
  /** Which time limit was over. */
  phase?: 'connect' | 'headers' | 'body' | 'whole'
  /** Other facts: an errno, the code of the object store, the bytes counted. */
  [fact: string]: unknown
}

interface FailureDetails {
  context?: Partial<FailureContext>
  /** How long the other side asked us to wait. */
  retryAfterMs?: number | undefined
  cause?: unknown
}

/** A failure whose code is known where it happens. Everyone may read its message, so it contains no secret of a URL. */
export class FetchFailure extends Error {
  override readonly name = 'FetchFailure'
  readonly code: Code
  readonly context: FailureContext
  readonly retryAfterMs: number | undefined

  constructor(code: Code, message: string, { context, retryAfterMs, cause }: FailureDetails = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.context = { proxy: null, status: null, ...context }
    this.retryAfterMs = retryAfterMs
  }
}

interface Recorded {
  code: string
  message: string
  attempt: number
  context: Readonly<Record<string, unknown>>
}

/** Where the engine itself ended a job: a lost worker is what the requirements call a panic. */
const ENGINE_CODES: Readonly<Record<string, Code>> = {
  WORKER_LOST: 'SYSTEM_PANIC',
  QUARANTINED: 'SYSTEM_PANIC',
  NEVER_STARTED: 'SYSTEM_PANIC',
  TIMEOUT: 'SYSTEM_UNKNOWN',
  UNKNOWN: 'SYSTEM_UNKNOWN',
  RESULT_INVALID: 'SYSTEM_UNKNOWN',
  CODE_UNDECLARED: 'SYSTEM_UNKNOWN',
}

export function failureInfo({ code, message, attempt, context }: Recorded): FailureInfo {
  const { said, proxy, status } = context
  const tried = context.attempt
  return {
    code: ENGINE_CODES[code] ?? code,
    message: typeof said === 'string' ? said : message,
    context: {
      proxy: typeof proxy === 'string' ? proxy : null,
      attempt: typeof tried === 'number' ? tried : attempt,
      status: typeof status === 'number' ? status : null,
    },
  }
}
