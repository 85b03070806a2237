import { RedressError } from '../../core/errors.ts'

export function errnoOf(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' ? code : null
}

export const isMissing = (error: unknown): boolean => ['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')

/** No room on the device, or none left of what this user may use of it. */
const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** What a caller sees instead of the file system's own error, which stays as its cause. */
function storageError(error: unknown, doing: string): unknown {
  if (error instanceof RedressError) return error
  const errno = errnoOf(error)
  // Not of the file system: the reason of an abort, or a mistake in the program. Neither is a disk that failed.
  const isOfSystem = typeof (error as { errno?: unknown } | null)?.errno === 'number'
  if (errno === null || !isOfSystem) return error
  if (FULL.has(errno)) {
    return new RedressError('STORAGE_FULL', `The disk is full (${errno}) while ${doing}.`, { cause: error })
  }
  return new RedressError('STORAGE_FAILED', `The file system answered ${errno} while ${doing}.`, { cause: error })
}

/** Runs one step, and says what was being done when it fails. */
export async function attempting<T>(doing: string, step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    throw storageError(error, doing)
  }
}
