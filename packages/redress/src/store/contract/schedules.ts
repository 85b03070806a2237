import type { Status } from '../../core/job/states.ts'
import type { MissedRule } from '../../core/schedule.ts'
import type { By, NewJob } from './store.ts'
/** Schedules: what is due when is worked out by the caller; the store sees to it that each tick is taken once. */
export interface ScheduleStore {
  /** Makes schedules known. One whose expression or zone is new gets the given next tick; the others keep theirs. */
  declareSchedules(params: { schedules: readonly ScheduleDeclaration[] }): Promise<void>
  /** A running program still declares them: what nobody declares any more can be told by its silence. */
  seeSchedules(params: { names: readonly string[] }): Promise<void>
  /** By name; all of them, or those of these names. */
  schedules(params?: { names?: readonly string[] }): Promise<StoredSchedule[]>
  /**
   * Takes a tick: submits its jobs and moves the schedule on, in one transaction, or changes nothing because the
   * schedule does not stand any more as the caller saw it.
   */
  tickSchedule(params: ScheduleTaken): Promise<'taken' | 'moved-on'>
  /** Keeps why a due tick cannot be taken, until one is. */
  reportSchedule(params: { name: string; problem: string }): Promise<void>
  /** A person's act. `already`: it is so, and nothing was done. */
  actOnSchedule(params: By & { name: string; act: ScheduleAct }): Promise<'done' | 'already' | 'not-found'>
}

export interface ScheduleDeclaration {
  name: string
  /** The job type. */
  type: string
  /** JSON text; null when the program makes the input anew for each tick. */
  payload: string | null
  cron: string
  timezone: string
  missed: MissedRule
  owner: string | null
  priority: number
  /** The first tick, in case the expression is new. */
  nextAtMs: number
}

export interface StoredSchedule extends Omit<ScheduleDeclaration, 'nextAtMs'> {
  /** Changes with everything that could make a planned tick wrong; only grows. */
  revision: number
  /** null when no tick will come any more. */
  nextAtMs: number | null
  /** The tick that ran last, or when a person triggered it. */
  lastAtMs: number | null
  /** `status` is null when the job was removed after its retention. */
  lastJob: { id: string; status: Status | null } | null
  runs: number
  skipped: number
  problem: { message: string; atMs: number } | null
  paused: (By & { atMs: number }) | null
  /** Ticks before this are not made up for: it was paused. */
  resumedAtMs: number | null
  /** Since when it has been declared as it is. */
  declaredAtMs: number
  /** When a program last said that it declares it. */
  seenAtMs: number
}

export interface ScheduleTaken {
  name: string
  expect: { revision: number; nextAtMs: number }
  /** Oldest first. Each job's id follows from the name and the tick. */
  runs: readonly { atMs: number; job: NewJob }[]
  skipped: number
  /** Why some were skipped. */
  because: string | null
  nextAtMs: number | null
}

export type ScheduleAct =
  | { kind: 'pause' }
  | { kind: 'resume' }
  /** Runs it now, beside its ticks. */
  | { kind: 'trigger'; job: NewJob }
  | { kind: 'remove' }
