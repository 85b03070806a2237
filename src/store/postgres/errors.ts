import { RedressError } from '../../core/errors.ts'

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? '')

/** Whether the same call may simply be made again: the transaction was undone through nobody's fault. */
export const isTransient = (error: unknown): boolean => ['40001', '40P01', '55P03'].includes(codeOf(error))

/** Something that there may be only once is there already. */
export const isTaken = (error: unknown): boolean => codeOf(error) === '23505'

/**
 * Nobody took the statement: there was no connection to send it on, or whoever is at its other end takes no writes (any
 * more): it starts up, has no place left, or is a standby by now.
 */
const NOTHING_DONE: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
  'CONNECT_TIMEOUT',
  'CONNECTION_ENDED',
  '57P03',
  '53300',
  '25006',
])

/** The connection ended while we waited for its answer. */
const BROKEN_OFF: ReadonlySet<string> = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'NOT_REPLICATED',
])

/** There is nobody any more at the other end of a connection that was there. */
export const isConnectionGone = (error: unknown): boolean => BROKEN_OFF.has(codeOf(error))

/** The server cannot be reached, or not for writing: what was asked may or may not have happened. */
export const isDisconnected = (error: unknown): boolean => {
  const code = codeOf(error)
  return NOTHING_DONE.has(code) || BROKEN_OFF.has(code) || code.startsWith('08') || code.startsWith('57P')
}

/** Of those, the ones after which it is certain that nothing was done. */
export const isNothingDone = (error: unknown): boolean => NOTHING_DONE.has(codeOf(error))

/** A connection that was there is gone, or could not be used: the client has to make another one. */
export const isBrokenOff = (error: unknown): boolean => {
  const code = codeOf(error)
  const isAway = isDisconnected(error) && code !== 'NOT_REPLICATED' && code !== 'CONNECTION_ENDED'
  return isAway && (!isNothingDone(error) || code === 'CONNECT_TIMEOUT')
}

/** Connected to a server that was a primary, or to a standby: there are others, or it has moved. */
export const isReadOnly = (error: unknown): boolean => codeOf(error) === '25006'

/**
 * The server has committed, and somebody ended its wait for the standby that must have the commit too: if the standby
 * takes over now, it never happened.
 */
export class NotReplicated extends Error {
  readonly code = 'NOT_REPLICATED'
  constructor() {
    super('the server stopped waiting for its synchronous standby')
  }
}

const unknowns = new WeakSet<RedressError>()

/** Whether what was asked may have happened although the call failed. */
export const isUnknown = (error: unknown): boolean => error instanceof RedressError && unknowns.has(error)

/** The commit was sent, and nobody knows what became of it. */
export function unknownOutcome(error: unknown, doing: string): RedressError {
  const told = new RedressError(
    'STORE_UNREACHABLE',
    `The connection to PostgreSQL broke while ${doing}: whether it was done is not known (${because(error)}).`,
    { cause: error, action: 'Look whether it was done before you do it again; what was acknowledged is safe.' },
  )
  unknowns.add(told)
  return told
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
