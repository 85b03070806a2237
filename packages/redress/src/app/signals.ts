import { RedressError } from '../core/errors.ts'
import { refuseUnknownOptions } from '../core/text/options.ts'
import { systemClock } from '../runtime/clock.ts'
import type { Log } from '../runtime/log.ts'
import { answerWithin, NO_ANSWER } from '../worker/store-calls.ts'
import { notice } from './default-log.ts'

/** As a shell reports a process that a signal ended. */
export const EXIT_OF_SIGNAL = { SIGINT: 130, SIGTERM: 143 } as const
type Signal = keyof typeof EXIT_OF_SIGNAL
const SIGNALS = Object.keys(EXIT_OF_SIGNAL) as Signal[]
const EXIT_FAILED = 1

/** Within this time after the grace the process ends, also when the store does not answer. Together below 30 s. */
const CLOSING_MS = 4_000

/** Less than the 30 s after which container platforms kill a process. */
const GRACE_MS = 25_000

/** How long running jobs may finish after a signal; null leaves signals alone. */
export function signalGraceMs(signals: boolean | { graceMs: number } | undefined): number | null {
  if (signals === false) return null
  if (signals === undefined || signals === true) return GRACE_MS
  refuseUnknownOptions('signals', signals, ['graceMs'])
  const { graceMs } = signals
  if (typeof graceMs === 'number' && graceMs >= 0) return graceMs
  throw new RedressError('OPTION_INVALID', `signals.graceMs must be a number from 0 on; got ${String(graceMs)}.`)
}

/** An app whose workers run in this process. */
interface SignalledApp {
  graceMs: number
  log(): Log
  stop(): Promise<void>
}

const apps = new Set<SignalledApp>()
let isStopping = false

/** Stops the app when the process is told to end. Returns a function that takes this back. */
export function stopOnSignals(app: SignalledApp): () => void {
  // First in the list: a listener that the program added with `once` is gone as soon as it is called.
  if (apps.size === 0 && !isStopping)
    for (const signal of SIGNALS) process.prependListener(signal, onSignal as NodeJS.SignalsListener)
  apps.add(app)
  return () => {
    apps.delete(app)
    // While the process ends, a second signal must still find its listener.
    if (apps.size === 0 && !isStopping) for (const signal of SIGNALS) process.off(signal, onSignal)
  }
}

/** A program with its own listener decides itself; it is asked when the signal arrives, because it may listen late. */
function onSignal(signal: Signal): void {
  if (process.listenerCount(signal) > 1) return
  // The exit handlers of the workers record what they can, at once.
  if (isStopping) process.exit(EXIT_OF_SIGNAL[signal])
  isStopping = true
  void stopAll(signal)
}

async function stopAll(signal: Signal): Promise<void> {
  const stopping = [...apps].map(async (app) => {
    notice(app.log(), { signal }, `${signal}: stopping; running jobs may finish, and a second signal exits at once`)
    try {
      if ((await answerWithin(systemClock, app.graceMs + CLOSING_MS, app.stop())) !== NO_ANSWER) return true
      app.log().error({ signal }, 'the app did not stop in time, and the process ends; its leases expire')
      return false
    } catch (error) {
      app.log().error({ err: error, signal }, 'the app could not be stopped')
      return false
    }
  })
  const stopped = await Promise.all(stopping)
  // A handler that ignores its abort signal would keep the process alive. Its job was already given back.
  process.exit(stopped.every(Boolean) ? EXIT_OF_SIGNAL[signal] : EXIT_FAILED)
}
