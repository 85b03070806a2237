import type { NewJob, Submitted } from './store.ts'

/**
 * Submissions inside the caller's transaction, on the caller's connection: the job exists if and only if that transaction
 * commits. Absent if the driver cannot.
 */
export interface TransactionalStore {
  /**
   * All of them or none, also if the caller continues after a refusal. A synchronous executor gets its answer at once, an
   * asynchronous one a promise.
   */
  submitIn?(params: { executor: Executor; jobs: readonly NewJob[] }): Submitted[] | Promise<Submitted[]>
  /** Tells this process's workers that there may be work, for instance after such a commit. Polling is the bound. */
  wake(): void
}

/** The part of a connection that a driver needs. Each driver takes one of the two. */
export type Executor = SyncExecutor | AsyncExecutor

/** For example `DatabaseSync` of node:sqlite or `Database` of better-sqlite3. */
export interface SyncExecutor {
  prepare(sql: string): SyncStatement
}

export interface SyncStatement {
  run(...values: SqlValue[]): { changes: number | bigint; lastInsertRowid: number | bigint }
  get(...values: SqlValue[]): unknown
  all(...values: SqlValue[]): unknown[]
}

/** A client of a database server with an open transaction. */
export interface AsyncExecutor {
  query(sql: string, values: readonly SqlValue[]): Promise<{ rows: readonly Record<string, unknown>[] }>
}

export type SqlValue = string | number | null
