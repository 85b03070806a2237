import type { LogEntry, Progress } from '../../core/job/reports.ts'
import type { Held, JobKey, WorkerKey } from './store.ts'

/** What handlers report while they run. */
export interface ReportStore {
  /**
   * Keeps what handlers report while they run: lines of their log and progress. Idempotent: a line has a number, and is
   * kept once. Returns the keys whose lease is lost.
   */
  report(params: { worker: WorkerKey; reports: readonly Report[] }): Promise<{ lost: JobKey[] }>
  /** The lines that the handler of a job logged, in order: after a number, or the newest ones. */
  logs(params: LogFilter): Promise<StoredLogLine[]>
  /** How many lines each attempt of a job logged. */
  logCounts(params: { id: string }): Promise<LogCount[]>
}

/** What the handler of an attempt reported. */
export interface Report extends Held {
  /** Lines that may not be in the store yet, in the order of their numbers. */
  lines: readonly ReportedLine[]
  /** How many lines of the attempt were dropped so far, because there were too many. */
  dropped: number
  /** null if there is none, or none that is new. */
  progress: (Progress & { isEvent: boolean }) | null
}

export interface ReportedLine extends LogEntry {
  /** Counts the lines of the attempt, from 1. */
  number: number
  /** How long ago it was logged, by the worker's monotonic clock. */
  agoMs: number
}

export interface LogFilter {
  id: string
  attempt?: number
  /** Only lines after this number of the feed. Without it, the newest lines. */
  afterSeq?: number
  limit: number
}

export interface StoredLogLine extends LogEntry {
  seq: number
  atMs: number
  attempt: number
  number: number
}

export interface LogCount {
  attempt: number
  lines: number
  dropped: number
}
