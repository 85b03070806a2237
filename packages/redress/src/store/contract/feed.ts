import type { EventData, EventKind } from '../../core/job/events.ts'
import type { ReportData, ReportKind } from '../../core/job/reports.ts'
import type { Status } from '../../core/job/states.ts'

/** All events of the store, in order. */
export interface FeedStore {
  /**
   * The events after a number, in order. Numbers become visible in order: after a reader has seen one, no lower number
   * appears. Not each number is used.
   */
  feed(params: { afterSeq: number; limit: number; only?: FeedFilter }): Promise<FeedPage>
  /** The number of the newest event; 0 when there is none. */
  lastSeq(): Promise<number>
  /** Calls back when this process has committed something. It can miss commits of other processes: poll for those. */
  onCommit(listener: () => void): () => void
}

/**
 * The events of some subjects. An event that matches any condition is included; the others are left out. Exception:
 * events about all schedules match any schedule. A page scans a bounded number of events, however few match.
 */
export interface FeedFilter {
  jobs: readonly string[]
  types: readonly string[]
  queues: readonly string[]
  owners: readonly string[]
  batches: readonly string[]
  /** 'batch:ID', 'breaker:NAME', ...: events about the subject itself. */
  subjects: readonly string[]
  /** Events of jobs that a schedule made. */
  hasSchedules: boolean
}

/** How many events one page of a filtered feed looks at. */
export const FEED_SCAN_MAX = 2_000

interface FeedPage {
  events: FeedEvent[]
  /** Where to continue: every event up to this number is in `events`, was filtered out, or was removed. */
  nextSeq: number
  hasMore: boolean
  /** The highest number of an event after `afterSeq` that was removed with its job; null when none was. */
  removedToSeq: number | null
}

/** One event of the whole store, of a job or of something else. */
export type FeedEvent = JobFeedEvent | SubjectFeedEvent

/** An event of a job, with the fields that a reader filters by. */
export interface JobFeedEvent {
  seq: number
  atMs: number
  subject: null
  kind: EventKind | ReportKind
  jobId: string
  type: string
  queue: string
  owner: string | null
  batchId: string | null
  /** The failed job that it was made from. */
  retriedFrom: string | null
  attempt: number
  /** The state of the job after the event. */
  status: Status
  /** The failure that the event is about. */
  failure: {
    code: string
    /** For the owner. Of a failure that will be retried: the text that is shown meanwhile. */
    message: string
    /** Whether the policy shows it to the owner before the job has ended. */
    isPublic: boolean
  } | null
  data: EventData & ReportData
}

/** An event of anything else: `subject` is 'batch:ID', 'breaker:NAME', 'queue:NAME', 'schedule:NAME'. */
export interface SubjectFeedEvent {
  seq: number
  atMs: number
  subject: string
  kind: string
  data: Record<string, unknown>
}
