import type { Log } from '../../runtime/log.ts'
import type { Close, Store, WorkerKey } from '../../store/contract/store.ts'
import type { Flight } from '../attempt/flight.ts'
import { closeForExit } from '../attempt/outcome.ts'

type AtExit = (exitCode: number) => void

const waiting = new Set<AtExit>()

/** One listener for all workers of the process, however many they are. Answers with how to take `atExit` off again. */
export function beforeProcessExit(atExit: AtExit): () => void {
  if (waiting.size === 0) process.on('exit', runAll)
  waiting.add(atExit)
  return () => {
    if (waiting.delete(atExit) && waiting.size === 0) process.off('exit', runAll)
  }
}

function runAll(exitCode: number): void {
  for (const atExit of waiting) atExit(exitCode)
}

interface LastMoment {
  store: Store
  log: Log
  worker: WorkerKey
  held: readonly Flight[]
  /** Outcomes that are not known to be recorded. */
  unsent: readonly Close[]
  exitCode: number
  nowMonoMs: number
}

/** Writes at once what can still be written of a process that ends with jobs in its hands. */
export function recordAtExit({ store, log, worker, held, unsent, exitCode, nowMonoMs }: LastMoment): void {
  if (store.closeNow === undefined) return
  const running = held.filter((flight) => flight.state.kind === 'running').map((flight) => flight.lease.id)
  if (running.length > 0) {
    log.error({ exit_code: exitCode, running }, 'the process ends while jobs run in it: did one call process.exit?')
  }
  const lost = held.flatMap((flight) => closeForExit(flight, exitCode, nowMonoMs))
  try {
    store.closeNow({ worker, closes: [...unsent, ...lost] })
  } catch (error) {
    // The leases run out by themselves: what is missing then is only the reason.
    log.error({ err: error }, 'the process ends, and what it was doing could not be recorded')
  }
}
