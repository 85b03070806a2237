import type { FailureInfo } from '../jobs/views.ts'
import type { Code } from './failure.ts'

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
