import type { Code } from './failure.ts'

/** A failure as clients see it, wherever one is shown: exactly this (F4). */
export interface FailureInfo {
  code: string
  message: string
  context: {
    /** "pool#n"; null when it went without a proxy, or did not come so far. */
    proxy: string | null
    /** Which try of its stage it was. */
    attempt: number
    /** The status that was answered; null when there was no answer. */
    status: number | null
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
