import { RedressError } from '../core/errors.ts'
import type { BreakerStatus } from '../core/limits/breaker.ts'
import { type Chance, systemChance } from '../runtime/chance.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import type { Close, CloseAnswer, Store } from '../store/contract/store.ts'
import type { Handler } from './attempt/call-handler.ts'
import type { Step } from './attempt/steps.ts'
import type { Duty } from './duty.ts'

export interface WorkerOptions {
  store: Store
  handlers: ReadonlyMap<string, Handler>
  /** Handlers that run at once. */
  concurrency?: number
  /** Jobs claimed ahead of free slots: at most this many, and no more than the worker does in a tenth of a second. */
  prefetchMax?: number
  /** The longest wait for work submitted by another process. */
  pollMs?: number
  /**
   * An idle worker takes jobs that its own process submits in the transaction of the submission, where the store can do that.
   * False leaves them to whichever worker claims first.
   */
  handOff?: boolean
  maintenanceMs?: number
  pruneMs?: number
  resultBytesMax?: number
  /** Periodic tasks beside the jobs. */
  duties?: readonly Duty[]
  clock?: Clock
  chance?: Chance
  log?: Log
  id?: string
  /** Called after an outcome is durable. */
  onOutcome?: (report: AttemptReport) => void
  /** Called once for each attempt that lost its lease before its outcome counted. */
  onLeaseLost?: (lost: { jobId: string; type: string; attempt: number }) => void
  /** Called when an attempt begins: how long its job was due before that. */
  onStart?: (type: string, waitedMs: number) => void
  /** Called when a try of a stage has ended, either way. */
  onTry?: (type: string, stage: string, ms: number) => void
  /** Called when the code of a type blocked the event loop, with the milliseconds. */
  onBlocked?: (type: string, ms: number) => void
  /** Called as an attempt enters a step; answering 'crash' makes the worker fall dead there, as if killed. */
  probe?: (step: Step, attempt: { jobId: string; number: number }) => 'crash' | undefined
}

/** The outcome of one attempt. */
export interface AttemptReport {
  jobId: string
  type: string
  attempt: number
  answer: CloseAnswer
  change: Close['change']
  /** How long the handler ran; null when it never began. */
  ranMs: number | null
  /** The breaker of its type as this worker last heard of it; null where the type has none. */
  breaker: { name: string; status: BreakerStatus } | null
  /** The trace that the attempt is part of (a W3C traceparent), if it is. */
  trace: string | null
}

/** How often a worker looks for jobs of lost workers. */
export const MAINTENANCE_MS = 5_000

/** The defaults of `WorkerOptions`. */
const DEFAULTS = {
  clock: systemClock,
  chance: systemChance,
  log: silentLog,
  concurrency: 10,
  prefetchMax: 500,
  pollMs: 100,
  handOff: true,
  maintenanceMs: MAINTENANCE_MS,
  pruneMs: 600_000,
  resultBytesMax: 1024 * 1024,
  duties: [] as readonly Duty[],
}

const COUNTS_MIN = { concurrency: 1, prefetchMax: 0, pollMs: 1, maintenanceMs: 1, pruneMs: 1, resultBytesMax: 0 }

/** Options without a default. */
type Unset = 'onOutcome' | 'onLeaseLost' | 'onStart' | 'onTry' | 'onBlocked' | 'probe' | 'id'

export type FullWorkerOptions = Required<Omit<WorkerOptions, Unset>> & Pick<WorkerOptions, Unset>

/** Fills in the defaults, also for `undefined`, and checks the numbers: a worker of NaN slots would never start a job. */
export function fullOptions(options: WorkerOptions): FullWorkerOptions {
  const said = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as WorkerOptions
  const full = { ...DEFAULTS, ...said }
  for (const [name, min] of Object.entries(COUNTS_MIN)) {
    const value = full[name as keyof typeof COUNTS_MIN]
    if (Number.isSafeInteger(value) && value >= min) continue
    throw new RedressError('OPTION_INVALID', `${name} must be a whole number from ${min}, not ${String(value)}.`)
  }
  return full
}
