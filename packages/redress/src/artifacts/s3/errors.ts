import { RedressError } from '../../core/errors.ts'
import { artifactExists, artifactNotFound } from '../refusals.ts'

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
