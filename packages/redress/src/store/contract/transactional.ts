import type { NewJob, Submitted } from './store.ts'

/**
 * Submitting as part of the caller's own transaction, on the caller's own connection: the job is there if and only if
 * that transaction commits. Absent where a driver cannot.
 */
export interface TransactionalStore {
  /**
   * All of them or none, also when the caller goes on after a refusal. Answers in the way of the executor: at once for
   * one that works in this thread, as a promise for one that asks a server.
   */
  submitIn?(params: { executor: Executor; jobs: readonly NewJob[] }): Submitted[] | Promise<Submitted[]>
  /** Tells this process's workers that there may be work, for instance after such a commit. Polling is the bound. */
  wake(): void
}

/** The little of a connection that a driver needs; each driver says which of the two it takes. */
export type Executor = SyncExecutor | AsyncExecutor

/** node:sqlite's `DatabaseSync`, better-sqlite3's `Database`, and their like. */
export interface SyncExecutor {
  prepare(sql: string): SyncStatement
}

export interface SyncStatement {
  run(...values: SqlValue[]): { changes: number | bigint; lastInsertRowid: number | bigint }
  get(...values: SqlValue[]): unknown
  all(...values: SqlValue[]): unknown[]
}

/** A client of a database server, with its transaction open. */
export interface AsyncExecutor {
  query(sql: string, values: readonly SqlValue[]): Promise<{ rows: readonly Record<string, unknown>[] }>
}

export type SqlValue = string | number | null
