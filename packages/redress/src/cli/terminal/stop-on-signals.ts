import { formatMs } from '../../core/text/duration.ts'

/** As a shell reports a process that the signal ended. Not SIGHUP: listening to it would undo what nohup is for. */
const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143 } as const
const SIGNALS = Object.keys(EXIT_OF_SIGNAL) as (keyof typeof EXIT_OF_SIGNAL)[]
const LAST_WORDS_MS = 1_000

/** Waits for a signal, then lets running jobs finish. A second signal means that there is no time for that. */
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
          // A handler that does not listen to its signal would keep the process alive; its job is accounted for.
          setImmediate(() => process.exit(0))
        },
        (error: unknown) => {
          reject(error)
          // The error is reported; what still runs here must not keep the process.
          setTimeout(() => process.exit(1), LAST_WORDS_MS).unref()
        },
      )
    }
    for (const signal of SIGNALS) process.on(signal, onSignal)
  })
}
