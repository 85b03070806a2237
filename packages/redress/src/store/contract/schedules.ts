import type { Status } from '../../core/job/states.ts'
import type { MissedRule, ScheduleOrigin } from '../../core/schedule.ts'
import type { ActorAndReason, NewJob } from './store.ts'
/** The caller computes the ticks of a schedule. The store ensures that each tick is taken once. */
export interface ScheduleStore {
  /**
   * Declares the schedules of a program. One with a new timing gets the given next tick; the others keep theirs. Throws
   * SCHEDULE_EXISTS, and changes nothing, if one of the names is that of a runtime schedule.
   */
  declareSchedules(params: { schedules: readonly ScheduleDeclaration[] }): Promise<void>
  /** Stores a runtime schedule. `declared`: a program declares the name in its code, and nothing was changed. */
  upsertSchedule(params: ActorAndReason & { schedule: ScheduleDeclaration }): Promise<ScheduleUpserted>
  /** Records that a running program still declares them. A declared schedule without this is obsolete. */
  seeSchedules(params: { names: readonly string[] }): Promise<void>
  /** Sorted by name. */
  schedules(params?: ScheduleFilter): Promise<StoredSchedule[]>
  /**
   * The due ones, oldest first: runtime schedules and those with these names. A held schedule is due when its hold ends.
   * Reads nothing of schedules that are not due.
   */
  dueSchedules(params: { declared: readonly string[]; limit: number }): Promise<DueSchedules>
  /**
   * Takes ticks: submits their jobs and sets the next ticks, in one transaction. Answers for each tick, in order. Changes
   * nothing of a schedule that is no longer as the caller saw it, or that another transaction is changing.
   */
  tickSchedules(params: { ticks: readonly ScheduleTaken[] }): Promise<('taken' | 'moved-on')[]>
  /**
   * Stores why a due tick cannot be taken, until one is taken, and leaves the schedule alone for some time. Changes nothing
   * if the schedule is no longer as the caller saw it.
   */
  holdSchedule(params: { name: string; expect: ExpectedSchedule; problem: string; holdMs: number }): Promise<void>
  /** A person's act. `already`: the schedule is in that state, and nothing was done. */
  actOnSchedule(params: ActorAndReason & { name: string; act: ScheduleAct }): Promise<'done' | 'already' | 'not-found'>
}

export type ScheduleUpserted = 'created' | 'changed' | 'same' | 'declared'

export interface ScheduleDeclaration {
  name: string
  /** The job type. */
  type: string
  /** JSON text; null if the program makes the input for each tick. */
  payload: string | null
  /** A schedule has either an expression or a period. */
  cron: string | null
  everyMs: number | null
  timezone: string
  /** No tick before, and none after. */
  fromMs: number | null
  untilMs: number | null
  jitterMs: number
  /** How many runs it has in all; null if there is no end. Triggered runs do not count. */
  count: number | null
  missed: MissedRule
  owner: string | null
  priority: number
  /** When its timing begins, if that is new: a period without `fromMs` is counted from here. */
  timedAtMs: number
  /** The first tick, if its timing is new; null if there is none. */
  nextAtMs: number | null
}

export interface StoredSchedule extends ScheduleDeclaration {
  origin: ScheduleOrigin
  /** Grows with each change that could make a planned tick wrong. */
  revision: number
  /** How many runs of its count are used up. */
  counted: number
  /** The last tick that ran, or when a person triggered it. */
  lastAtMs: number | null
  /** `status` is null if the job was removed after its retention. */
  lastJob: { id: string; status: Status | null } | null
  runs: number
  skipped: number
  problem: { message: string; atMs: number } | null
  /** Until when it is left alone because its tick could not be taken, and for how long; 0 if it is not held. */
  heldUntilMs: number
  holdMs: number
  paused: (ActorAndReason & { atMs: number }) | null
  /** Ticks before this were missed during a pause and do not run. */
  resumedAtMs: number | null
  /** When its declaration last changed. */
  declaredAtMs: number
  /** When a program last declared it, or a person or program last upserted it. */
  seenAtMs: number
}

/** As it is needed to take a tick. */
export type DueSchedule = Omit<StoredSchedule, 'lastJob'> & { nextAtMs: number }

interface DueSchedules {
  /** By the clock of the store. */
  nowMs: number
  due: DueSchedule[]
  /** Their next tick was computed by a clock that was more than a day ahead and was set back. */
  astray: DueSchedule[]
  /** When the first of the others is due, which is now if this page is full; null if there is none. */
  nextAtMs: number | null
}

/** Without `names`: a page of all that match. */
export interface ScheduleFilter {
  names?: readonly string[]
  owner?: string
  /** Part of the name or of the job type. */
  q?: string
  /** Only names after this one. */
  afterName?: string
  limit?: number
}

interface ExpectedSchedule {
  revision: number
  nextAtMs: number
}

export interface ScheduleTaken {
  name: string
  expect: ExpectedSchedule
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
