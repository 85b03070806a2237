import { RedressError } from '../../../core/errors.ts'

export const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? '')

/** A deadlock, a conflict or a lock timeout undid the transaction: it can run again. */
export const isTransient = (error: unknown): boolean => ['40001', '40P01', '55P03'].includes(codeOf(error))

/** A unique key exists already. */
export const isTaken = (error: unknown): boolean => codeOf(error) === '23505'

/** The server refused and did nothing: it is starting, has no free connection, or is read-only. */
const REFUSED: ReadonlySet<string> = new Set(['57P03', '53300', '25006'])

/** Errors that can occur only before a connection exists. */
const CONNECTING: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
  'CONNECT_TIMEOUT',
  'CONNECTION_ENDED',
  'NOT_SENT',
])

/** Codes of the client, the operating system and TLS. None of them comes from the server. */
const CONNECTION_CODES =
  /^(E[A-Z0-9_]+|CONNECT_TIMEOUT|CONNECTION_(ENDED|CLOSED|DESTROYED)|NOT_SENT|NO_ANSWER|(CERT|UNABLE_TO|DEPTH_ZERO|SELF_SIGNED|HOSTNAME|INVALID_CA|PATH_LENGTH)_[A-Z_]+)$/

/** The connection failed; the outcome of the statement is unknown. */
const isConnectionError = (error: unknown): boolean =>
  CONNECTION_CODES.test(codeOf(error)) && (error as Error).name !== 'PostgresError'

/** No answer came before the deadline of the statement. */
export class NoAnswer extends Error {
  readonly code: 'NO_ANSWER' | 'NOT_SENT'
  constructor(deadlineMs: number, isSent: boolean) {
    super(
      isSent
        ? `the server did not answer within ${deadlineMs} ms`
        : `no connection was available within ${deadlineMs} ms, so the statement was not sent`,
    )
    this.code = isSent ? 'NO_ANSWER' : 'NOT_SENT'
  }
}

const sentBefore = new WeakMap<object, boolean>()

/**
 * Remembers whether the failed statement had been sent. The code of an error does not tell: a lost route gives EHOSTUNREACH
 * to a new connection, and also to one whose commit is in flight.
 */
export function rememberSent(error: unknown, isSent: boolean): void {
  if (typeof error !== 'object' || error === null || !isConnectionError(error)) return
  sentBefore.set(error, isSent || sentBefore.get(error) === true)
}

/** The server's certificate was refused, or the TLS handshake failed. */
export const isTlsError = (error: unknown): boolean =>
  /^(ERR_(TLS|SSL)_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_|INVALID_CA$|PATH_LENGTH_)/.test(codeOf(error))

/** An open connection was lost. */
export const isConnectionGone = (error: unknown): boolean => isConnectionError(error)

/** The server cannot be reached, or accepts no writes. The outcome of the statement may be unknown. */
export const isDisconnected = (error: unknown): boolean => {
  const code = codeOf(error)
  return (
    isConnectionError(error) ||
    REFUSED.has(code) ||
    code === 'NOT_REPLICATED' ||
    code.startsWith('08') ||
    code.startsWith('57P')
  )
}

/** An error of a lost or refused connection after which certainly nothing was done. */
export const isNothingDone = (error: unknown): boolean => {
  const code = codeOf(error)
  if (REFUSED.has(code)) return true
  if (!isConnectionError(error)) return false
  return !(sentBefore.get(error as object) ?? !CONNECTING.has(code))
}

/** A connection is lost or unusable: the client must open another one. */
export const isBrokenOff = (error: unknown): boolean => {
  const code = codeOf(error)
  if (!isDisconnected(error) || REFUSED.has(code) || code === 'NOT_REPLICATED') return false
  return !CONNECTING.has(code) || code === 'CONNECT_TIMEOUT' || code === 'NOT_SENT'
}

/** The server is a standby or a former primary. */
export const isReadOnly = (error: unknown): boolean => codeOf(error) === '25006'

/**
 * The server has committed, but its wait for the synchronous standby was cancelled: if that standby is promoted now, the
 * commit is lost.
 */
export class NotReplicated extends Error {
  readonly code = 'NOT_REPLICATED'
  constructor() {
    super('the server stopped waiting for its synchronous standby')
  }
}

const unknowns = new WeakSet<RedressError>()

/** Whether the call may have been committed although it failed. */
export const isUnknown = (error: unknown): boolean => error instanceof RedressError && unknowns.has(error)

/** The commit was sent, and its outcome is unknown. */
export function unknownOutcome(error: unknown, doing: string): RedressError {
  const unknown = new RedressError(
    'STORE_UNREACHABLE',
    `The connection to PostgreSQL broke while ${doing}: whether it was done is not known (${because(error)}).`,
    { cause: error, action: 'Look whether it was done before you do it again; what was acknowledged is safe.' },
  )
  unknowns.add(unknown)
  return unknown
}

const because = (error: unknown): string => (error instanceof Error ? error.message : String(error)) || codeOf(error)

/** What a caller of the store sees instead of the client's own error. */
export function storeError(error: unknown, doing: string): RedressError {
  if (error instanceof RedressError) return error
  const code = codeOf(error)
  if (isDisconnected(error)) {
    return new RedressError(
      'STORE_UNREACHABLE',
      `PostgreSQL could not be reached while ${doing}, and nothing was done: ${because(error)}.`,
      { cause: error, action: 'Check that the server runs and can be reached, and do it again.' },
    )
  }
  if (isTransient(error) || code === '57014') {
    return new RedressError('STORE_BUSY', `The store stayed locked while ${doing}: ${because(error)}.`, {
      cause: error,
    })
  }
  if (code === '53100') {
    return new RedressError('STORE_FULL', `The disk is full: nothing was written while ${doing}.`, { cause: error })
  }
  return new RedressError('STORE_FAILED', `The store failed while ${doing}: ${because(error)}.`, { cause: error })
}

/** Another live job of the type has the dedupe key. */
export function isDedupeKeyTaken(error: unknown): boolean {
  const cause =
    error instanceof RedressError ? (error.cause as { code?: unknown; constraint_name?: unknown } | null) : null
  return cause?.code === '23505' && cause.constraint_name === 'one_job_per_dedupe_key'
}
