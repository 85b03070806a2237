import { EXIT_OF_SIGNAL } from '../../app/signals.ts'
import { describe } from '../../core/failure/facts.ts'
import { formatMs } from '../../core/text/duration.ts'
import type { Log } from '../../runtime/log.ts'

/** Not SIGHUP: a listener would defeat nohup. */
const SIGNALS = Object.keys(EXIT_OF_SIGNAL) as (keyof typeof EXIT_OF_SIGNAL)[]
const REPORT_MS = 1_000

/** Exits with `process.exit` on a signal, so that exit handlers remove unfinished files. */
export function exitOnSignals(): void {
  for (const signal of SIGNALS) process.once(signal, () => process.exit(EXIT_OF_SIGNAL[signal]))
}

/** Waits for a signal, then lets running jobs finish. A second signal exits at once. */
export function stopOnSignals(stop: () => Promise<void>, graceMs: number, isQuiet: boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    let isStopping = false
    const onSignal = (signal: keyof typeof EXIT_OF_SIGNAL): void => {
      if (isStopping) process.exit(EXIT_OF_SIGNAL[signal])
      isStopping = true
      if (!isQuiet) {
        process.stderr.write(
          `Stopping: running jobs have ${formatMs(graceMs)} to finish. ${signal} again exits at once.\n`,
        )
      }
      stop().then(
        () => {
          resolve()
          // A handler that ignores its abort signal would keep the process alive. Its job was already given back.
          setImmediate(() => process.exit(0))
        },
        (error: unknown) => {
          reject(error)
          // The caller reports the error; handlers that still run must not keep the process alive.
          setTimeout(() => process.exit(1), REPORT_MS).unref()
        },
      )
    }
    for (const signal of SIGNALS) process.on(signal, onSignal)
  })
}

const EXIT_UNCAUGHT = 1

/**
 * An error that escapes from a handler (an unhandled rejection, a throw in a timer) ends the process, because the state
 * it leaves cannot be trusted. Node would print it unchanged; this logs it without its secrets, like every failure.
 */
export function exitOnUncaughtErrors(log: Log): void {
  process.on('uncaughtException', (error, origin) => {
    log.error({ origin, detail: describe(error) }, 'an error escaped from a handler, and the worker ends')
    process.exit(EXIT_UNCAUGHT)
  })
}
