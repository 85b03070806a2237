import pino from 'pino'
import { redactAddresses } from '../core/text/redact.ts'
import { type Log, NEVER_LOGGED } from './log.ts'

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** JSON lines on standard error, so that standard output stays what the command answers. */
export function jsonLog({ level = 'info' }: { level?: LogLevel } = {}): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      // Any text, such as an error message, may contain an address with a password.
      hooks: { streamWrite: redactAddresses },
      redact: [...NEVER_LOGGED, ...NEVER_LOGGED.map((name) => `*.${name}`)],
    },
    // Written at once: what was logged before a crash is what one needs after it.
    pino.destination({ dest: 2, sync: true }),
  )
}
