import type { Log } from '../runtime/log.ts'
import type { Close, CloseAnswer } from '../store/store.ts'
import type { Flight } from './flight.ts'
import type { Told, WorkerOptions } from './options.ts'

interface Telling {
  flight: Flight
  close: Close
  answer: CloseAnswer
  breaker: Told['breaker']
  to: Pick<WorkerOptions, 'tell' | 'tellLost'>
  log: Log
}

/** An outcome is durable. Whoever is told of it may throw: nothing of the worker's depends on it. */
export function tellOutcome({ flight, close, answer, breaker, to, log }: Telling): void {
  const { id: jobId, type, attempt } = flight.lease
  if (answer === 'lost') {
    log.warn({ job_id: jobId, attempt }, 'an outcome came after its lease was gone and does not count')
    noticeLoss(flight, to.tellLost, log)
  }
  try {
    to.tell?.({
      jobId,
      type,
      attempt,
      answer,
      change: close.change,
      ranMs: close.ranMs,
      breaker,
      trace: flight.traceparent,
    })
  } catch (error) {
    log.error({ err: error, job_id: jobId }, 'an outcome is recorded, but whoever was told of it threw')
  }
}

/** The lease is gone, and the attempt with it. */
export function tellLost(flight: Flight, workerId: string, tell: WorkerOptions['tellLost'], log: Log): void {
  const { id: jobId, type, attempt } = flight.lease
  log.warn({ job_id: jobId, type, attempt, worker_id: workerId }, 'lease lost; the attempt is stopped')
  noticeLoss(flight, tell, log)
}

/** Once per attempt: a renewal and the outcome may both find that it is gone. */
function noticeLoss(flight: Flight, tell: WorkerOptions['tellLost'], log: Log): void {
  if (flight.isLossTold) return
  flight.isLossTold = true
  flight.endSpan('lost')
  const { id: jobId, type, attempt } = flight.lease
  try {
    tell?.({ jobId, type, attempt })
  } catch (error) {
    log.error({ err: error, job_id: jobId }, 'a lease is lost, and whoever was told of it threw')
  }
}
