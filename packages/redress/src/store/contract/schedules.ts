import type { Status } from '../../core/job/states.ts'
import type { MissedRule } from '../../core/schedule.ts'
import type { ActorAndReason, NewJob } from './store.ts'
/** The caller computes the ticks of a schedule. The store ensures that each tick is taken once. */
export interface ScheduleStore {
  /** Declares schedules. One with a new expression or zone gets the given next tick; the others keep theirs. */
  declareSchedules(params: { schedules: readonly ScheduleDeclaration[] }): Promise<void>
  /** Records that a running program still declares them. A schedule without this is obsolete. */
  seeSchedules(params: { names: readonly string[] }): Promise<void>
  /** Sorted by name: all of them, or those with these names. */
  schedules(params?: { names?: readonly string[] }): Promise<StoredSchedule[]>
  /**
   * Takes a tick: submits its jobs and sets the next tick, in one transaction. Changes nothing if the schedule is no longer as
   * the caller saw it.
   */
  tickSchedule(params: ScheduleTaken): Promise<'taken' | 'moved-on'>
  /** Stores why a due tick cannot be taken, until one is taken. */
  reportSchedule(params: { name: string; problem: string }): Promise<void>
  /** A person's act. `already`: the schedule is in that state, and nothing was done. */
  actOnSchedule(params: ActorAndReason & { name: string; act: ScheduleAct }): Promise<'done' | 'already' | 'not-found'>
}

export interface ScheduleDeclaration {
  name: string
  /** The job type. */
  type: string
  /** JSON text; null if the program makes the input for each tick. */
  payload: string | null
  cron: string
  timezone: string
  missed: MissedRule
  owner: string | null
  priority: number
  /** The first tick, if the expression is new. */
  nextAtMs: number
}

export interface StoredSchedule extends Omit<ScheduleDeclaration, 'nextAtMs'> {
  /** Grows with each change that could make a planned tick wrong. */
  revision: number
  /** null if there is no further tick. */
  nextAtMs: number | null
  /** The last tick that ran, or when a person triggered it. */
  lastAtMs: number | null
  /** `status` is null if the job was removed after its retention. */
  lastJob: { id: string; status: Status | null } | null
  runs: number
  skipped: number
  problem: { message: string; atMs: number } | null
  paused: (ActorAndReason & { atMs: number }) | null
  /** Ticks before this were missed during a pause and do not run. */
  resumedAtMs: number | null
  /** When its declaration last changed. */
  declaredAtMs: number
  /** When a program last declared it. */
  seenAtMs: number
}

interface ScheduleTaken {
  name: string
  expect: { revision: number; nextAtMs: number }
  /** Oldest first. The id of each job is derived from the name and the tick. */
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
