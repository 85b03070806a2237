import type { DeadLetter, DecidedFailure } from '../../core/job/change.ts'
import type { NewNotice } from '../../core/notice/notice.ts'
import type { JobKey } from './store.ts'

/** What becomes of waiting jobs without a claim. */
export interface WaitingStore {
  /** Queued jobs whose time to live is over; the longest ago first. Forgets the time of jobs that have ended. */
  expiredJobs(params: { limit: number }): Promise<ExpiredJob[]>
  /** Fails queued jobs whose time to live is over. `moved-on` if a worker or a person was faster. */
  failExpired(params: { jobs: readonly ExpiredFailure[] }): Promise<('failed' | 'moved-on')[]>
  /** When the next job expires, unless a worker begins it. */
  nextExpiryAtMs(): Promise<number | null>

  /**
   * From now on, a claim lets one job of the type run at a time for each singleton key. Submit jobs with such a limit key
   * (`singletonLimitKey`) only afterwards. False if no program has declared the type.
   */
  enforceSingletons(params: { type: string }): Promise<boolean>

  /** Removes keys of merged submissions that no submission can meet any more. Returns the number of keys that it looked at. */
  forgetKeys(params: { limit: number }): Promise<number>
}

export interface ExpiredJob {
  key: JobKey
  id: string
  type: string
  attempt: number
  spent: string | null
  owner: string | null
  createdAtMs: number
  expiresAtMs: number
  retriedFrom: string | null
  isForwardOnly: boolean
  nowMs: number
}

export interface ExpiredFailure {
  key: JobKey
  /** The attempt that the decision was based on. */
  attempt: number
  failure: DecidedFailure
  spent: string | null
  deadLetter: DeadLetter
  notices?: readonly NewNotice[]
}
