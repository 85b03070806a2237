import type * as batches from '../../scripts/batches.ts'
import type * as history from '../../scripts/history.ts'
import type { reports } from '../../scripts/jobs/reports.ts'
import * as scripts from '../../scripts/jobs/types.ts'
import type * as meters from '../../scripts/limits/meters.ts'
import type { How, ScriptContext } from '../../scripts/tx/context.ts'
import { type Awaited, awaiting, type Script } from '../../scripts/tx/script.ts'
import type { Pool, Sql, Tx } from './client.ts'
import type { Wakes } from './listen.ts'
import type { PgTx } from './tx.ts'

/** Scripts as hot code of this driver calls them. */
type History = Awaited<Sql, typeof history.history>
export type Batches = Awaited<Sql, batches.Batches>
export type RetryMeters = Awaited<Sql, typeof meters.retryMeters>
export type Reports = Awaited<Sql, typeof reports>

/** What each part of the store works with. */
export interface PgContext {
  sql: Pool
  /** A connection as scripts use it. */
  txOf(on: Sql): PgTx
  types: Types
  history: History
  scripts: Pick<ScriptContext, 'dialect' | 'types' | 'history' | 'read' | 'write'>
  /**
   * Runs in one transaction that is durable when the promise resolves. `nowMs` is the database's clock, read at its
   * beginning. With `alone`, transactions of the same name run one after the other: one that compares and then writes needs
   * this.
   *
   * While the server is away, the transaction is retried for half a minute at most. `sinceMs` is null, unless an earlier try
   * may have been committed: then no such commit is older than this, by the database's clock.
   */
  write<T>(
    doing: string,
    run: (tx: Tx, nowMs: number, sinceMs: number | null) => Promise<T>,
    alone?: string,
    how?: How,
  ): Promise<T>
  /**
   * One statement that writes and is its own transaction: one round trip, for the hot paths. It reads the clock itself:
   * `givenNowMs` if that is not null, else `redress_now()`. `hasNewWork`: the commit wakes workers. With null the caller
   * reports the commit itself.
   */
  once<T>(doing: string, run: (sql: Pool) => Promise<T>, hasNewWork?: boolean | null, how?: How): Promise<T>
  /** The time that a test sets; null to use the database's clock. */
  givenNowMs(): number | null
  read<T>(doing: string, run: (sql: Pool, nowMs: () => Promise<number>) => Promise<T>, how?: How): Promise<T>
  /**
   * Reads the clock again. A transaction that waited for a lock must do so: otherwise rows that were written meanwhile
   * would seem to be of the future, as if the clock had been set back.
   */
  now(on: Sql): Promise<number>
  /** Wakes listeners after commits. */
  wakes: Wakes
  /** Wakes workers after the commit, at most once per commit. */
  wakeWorkers(tx: Sql): void
}

type Types = ReturnType<typeof awaitedTypes>

/** The job types as scripts ask for them. */
export function openTypes(): scripts.Types {
  const types = scripts.openTypes()
  const keptUp = new WeakSet<object>()
  return {
    ...types,
    /**
     * Once per transaction. Writers of jobs share the lock. Only a declaration that gives jobs a limit waits for them, so
     * that it finds every job that was made without one.
     */
    *keepUp(tx): Script<void> {
      if (keptUp.has(tx)) return
      keptUp.add(tx)
      yield* tx.together(tx.run`LOCK TABLE job_types IN ROW EXCLUSIVE MODE`, types.keepUp(tx))
    },
  }
}

/** The job types as hot code of this driver asks for them. */
export function awaitedTypes(types: scripts.Types, txOf: (on: Sql) => PgTx, pool: Sql) {
  return {
    ...{ known: types.known, knownByName: types.knownByName, knownByKey: types.knownByKey, version: types.version },
    refresh: (on: Sql = pool) => awaiting(types.refresh(txOf(on))),
    keepUp: (on: Sql) => awaiting(types.keepUp(txOf(on))),
    needed: (name: string, on: Sql) => awaiting(types.needed(txOf(on), name)),
  }
}
