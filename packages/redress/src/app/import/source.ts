/** The job systems that `redress import` reads. */
export const SYSTEMS = { bullmq: 'BullMQ', 'pg-boss': 'pg-boss' } as const
export type SystemName = keyof typeof SYSTEMS

/** States of a job in its own system that can be imported. */
export const IMPORTED_STATES = {
  bullmq: ['waiting', 'prioritized', 'delayed', 'failed'],
  'pg-boss': ['waiting', 'delayed', 'retry', 'failed'],
} as const satisfies Record<SystemName, readonly string[]>

/** A job in its own system. */
export interface SourceJob {
  queue: string
  /** null where a queue has jobs of one kind only. */
  name: string | null
  id: string
  state: string
  input: unknown
  /** In the order of Redress: the highest first. */
  priority: number
  dueAtMs: number | null
  dedupeKey: string | null
  createdAtMs: number
  attemptsMade: number
  failure: { error: string; atMs: number | null } | null
  /** Why it cannot be imported. */
  left: LeftReason | null
  /** What the import does not keep. */
  note: string | null
}

/** `isExpected`: no person needs to act on it. */
export interface LeftReason {
  why: string
  isExpected: boolean
}

/** Jobs that are not read one by one, because their state is not imported. */
export interface LeftJobs extends LeftReason {
  queue: string
  state: string
  count: number
}

/** A repeating job, which must be declared as a schedule. */
export interface SourceSchedule {
  queue: string
  name: string
  /** Five or six fields; null where `everyMs` says it. */
  cron: string | null
  everyMs: number | null
  timezone: string | null
  input: unknown
  /** What cannot be taken over as it is. */
  note: string | null
}

/** Another job system, which is only read. */
export interface Source {
  system: SystemName
  /** For messages, without a password. */
  place: string
  /** Workers that may take jobs meanwhile; null if the system does not tell. */
  workers(): Promise<number | null>
  /** In bounded chunks, in the order in which the jobs would run. */
  jobs(states: readonly string[]): AsyncIterable<SourceJob[]>
  left(states: readonly string[]): Promise<LeftJobs[]>
  schedules(): Promise<SourceSchedule[]>
  /** The parts that name a job, for its id. */
  partsOf(job: SourceJob): (string | number)[]
  stop(): Promise<void>
}

/** How many jobs are read and stored at once. */
export const JOBS_PER_CHUNK = 200

/** JSON of another system; `undefined` where it is not JSON. */
export function parsedJson(text: string | null | undefined): unknown {
  try {
    return text === null || text === undefined ? null : JSON.parse(text)
  } catch {
    return undefined
  }
}

export const NOT_JSON: LeftReason = { why: 'its data is not JSON', isExpected: false }
