import { type Refusal, Refused } from '@redress/shared/routes'
import { CODES, type Code } from './failure.ts'

/** The suggested action for each refusal of the API. */
const ACTIONS: Partial<Record<Code, string>> = {
  VALIDATION_INVALID_JSON: 'Send one JSON object, in UTF-8.',
  VALIDATION_TOO_MANY_RESOURCES: 'Split the job: at most 1,000 resources.',
  VALIDATION_TOO_LARGE: 'Split the job: at most 5 MB, counted also when it is unpacked.',
  VALIDATION_UNSUPPORTED_ENCODING: 'Send it as it is, or with Content-Encoding: gzip.',
  VALIDATION_UNSUPPORTED_TYPE: 'Send application/json.',
  VALIDATION_UNKNOWN_JOB_TYPE: 'Name a type that has a handler in X-Fetchbox-Job-Type.',
  VALIDATION_IDEMPOTENCY_KEY_REUSED: 'Use a new key for another job; the first request with this one counts.',
  AUTH_MISSING: 'Send a token: Authorization: Bearer ...',
  AUTH_INVALID: 'Send a token that is neither revoked nor expired.',
  AUTH_ROLE: 'Ask an admin for a token with this role and scope.',
  AUTH_TENANT: 'Leave X-Fetchbox-Tenant out, or name your own account.',
  HANDLER_REFUSED: 'Correct the job as the message says.',
  HANDLER_ERROR: 'Nothing was accepted. Tell the operator of this server: the log has the cause.',
  STORAGE_UNAVAILABLE: 'Nothing was accepted. Send the same again, with the same Idempotency-Key.',
  STORAGE_FULL: 'Nothing was accepted. Send the same again, with the same Idempotency-Key.',
  STORAGE_NOT_FOUND: 'Fetch it again: submit another job.',
  SYSTEM_STORE_UNAVAILABLE: 'Send the same again, with the same Idempotency-Key: it may have been accepted.',
}

const RETRY_AFTER_S = 5

interface Details {
  /** The specific problem, after the general message of the code. */
  said?: string
  problems?: readonly string[]
  /** An action that replaces the usual one of the code. */
  action?: string
}

/** A refusal of the API with a code of the taxonomy. */
export function refusal(code: Code, { said, problems, action }: Details = {}): Refused {
  const { message, http = 400 } = CODES[code]
  const headers: Record<string, string> = {
    ...(http === 503 && { 'retry-after': String(RETRY_AFTER_S) }),
    ...(http === 401 && { 'www-authenticate': 'Bearer realm="redress"' }),
    // The rest of the body is not read, so the connection cannot be reused.
    ...(http === 413 && { connection: 'close' }),
  }
  const refused: Refusal = {
    status: http,
    code,
    message: said === undefined ? message : `${message} ${said}`,
    action: action ?? ACTIONS[code] ?? 'Correct what is named, and send it again.',
    headers,
    ...(problems !== undefined && { problems }),
  }
  return new Refused(refused)
}
