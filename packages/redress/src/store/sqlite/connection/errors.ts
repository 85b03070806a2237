import { RedressError } from '../../../core/errors.ts'

/** Primary result codes of SQLite (the low byte of an extended code). */
const SQLITE_BUSY = 5
const SQLITE_LOCKED = 6
const SQLITE_READONLY = 8
const SQLITE_IOERR = 10
const SQLITE_FULL = 13
const SQLITE_CANTOPEN = 14
const SQLITE_NOTADB = 26

/** An extended code: the shared-memory file of the WAL could not grow, because the disk is full. */
const SQLITE_IOERR_SHMSIZE = 4874

function resultCode(error: unknown): number | null {
  const extended = (error as { errcode?: unknown } | null)?.errcode
  if (extended === SQLITE_IOERR_SHMSIZE) return SQLITE_FULL
  return typeof extended === 'number' ? extended & 0xff : null
}

export function isBusy(error: unknown): boolean {
  const code = resultCode(error)
  return code === SQLITE_BUSY || code === SQLITE_LOCKED
}

/** The file cannot be created or opened at this path. */
export const isNoFile = (error: unknown): boolean => resultCode(error) === SQLITE_CANTOPEN

/** What a caller of the store sees instead of a driver's own error. */
export function storeError(error: unknown, doing: string): RedressError {
  if (error instanceof RedressError) return error
  const because = error instanceof Error ? error.message : String(error)
  switch (resultCode(error)) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return new RedressError('STORE_BUSY', `The store stayed locked by another process while ${doing}.`, {
        cause: error,
      })
    case SQLITE_FULL:
      return new RedressError('STORE_FULL', `The disk is full: nothing was written while ${doing}.`, { cause: error })
    case SQLITE_IOERR:
      return new RedressError('STORE_FAILED', `The disk did not do what SQLite asked while ${doing}: ${because}.`, {
        cause: error,
      })
    case SQLITE_NOTADB:
      return new RedressError('STORE_NOT_REDRESS', `Not an SQLite database; found while ${doing}.`, { cause: error })
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
      return new RedressError('STORE_FAILED', `The store failed while ${doing}: ${because}.`, {
        cause: error,
        action: 'Check that the path is a file and no folder, and that this user may write to it and beside it.',
      })
    default:
      return new RedressError('STORE_FAILED', `The store failed while ${doing}: ${because}.`, { cause: error })
  }
}
