import { describe } from '../../core/text/describe.ts'
import type { Log } from '../../runtime/log.ts'

const EXIT_UNCAUGHT = 1

/**
 * An error that escapes from a handler (a rejection nobody awaits, a throw in a timer) ends the process: what it left
 * behind cannot be trusted. Node would print it as it is; here it is logged like every failure, without its secrets.
 */
export function logLastWords(log: Log): void {
  process.on('uncaughtException', (error, origin) => {
    log.error({ origin, detail: describe(error) }, 'an error escaped from a handler, and the worker ends')
    process.exit(EXIT_UNCAUGHT)
  })
}
