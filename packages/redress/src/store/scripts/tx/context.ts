import type { RedressError } from '../../../core/errors.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { History } from '../history.ts'
import type { Types } from '../jobs/types.ts'
import type { Script } from './script.ts'
import type { Dialect, Part, Sql } from './sql.ts'

type Answers<Scripts extends readonly Script<unknown>[]> = {
  -readonly [I in keyof Scripts]: Scripts[I] extends Script<infer T> ? T : never
}

/** Sends the statements of a script; see script.ts. */
export interface Tx {
  readonly dialect: Dialect
  all<R extends object>(strings: TemplateStringsArray, ...parts: readonly Part[]): Script<R[]>
  /** The first row. */
  get<R extends object>(strings: TemplateStringsArray, ...parts: readonly Part[]): Script<R | undefined>
  /** The number of rows changed. */
  run(strings: TemplateStringsArray, ...parts: readonly Part[]): Script<number>
  /** Gives the rows of a long answer to `take`, in order, until it returns false. All rows are of one moment. */
  each<R extends object>(take: (row: R) => boolean, query: Sql): Script<void>
  /** Sends independent statements at once; none may need another one's answer. */
  together<const Scripts extends readonly Script<unknown>[]>(...scripts: Scripts): Script<Answers<Scripts>>
  /** Whether a long read must be cut into short steps. PostgreSQL answers it in one statement. */
  readonly isPaced: boolean
  /** The end of a short step of a long read: other requests may run now. */
  pause(): Script<void>
  /** The clock of the store. A transaction that waited for a lock reads it again. */
  now(): Script<number>
  /** The clock as a part of a statement, which saves a round trip. */
  clock(): Sql
  /** Until the end of the transaction, other transactions wait for these names. */
  lock(names: readonly string[]): Script<void>
  /** The same without waiting: false if another transaction holds it. */
  tryLock(name: string): Script<boolean>
  /** Locks rows by ascending keys, like every transaction that locks several; nothing to do on SQLite. */
  lockRows(table: string, column: string, keys: readonly number[]): Script<void>
  /** Wakes workers after the commit. */
  wakeWorkers(): void
}

/** How a call meets a server that cannot be reached. A file is always there. */
export interface How {
  /** The caller tries again by itself and has other work meanwhile. */
  isImpatient?: boolean
  /** Idempotent: it may be repeated although its first try may have been committed. */
  mayRepeat?: boolean
  patienceMs?: number
  /** How long the whole call may take without an answer, if this differs from the timeout per statement. */
  deadlineMs?: number
  /** When an earlier try of the same call, which may have been committed, was made, by the monotonic clock. */
  unknownSinceMonoMs?: number
}

/** The context that a driver gives to every subject. */
export interface ScriptContext {
  readonly dialect: Dialect
  readonly types: Types
  readonly history: History
  /** Submits inside the transaction of `tx`, in this order. */
  submit(tx: Tx, jobs: readonly NewJob[], nowMs: number): Script<Submitted[]>
  /**
   * Runs a submission of these jobs and undoes it when it would exceed `policy.backlog.max`. The refusal is an answer or
   * is thrown, as the driver undoes it.
   */
  withinBacklog(tx: Tx, jobs: readonly NewJob[], submit: () => Script<Submitted[]>): Script<Submitted[] | RedressError>
  /**
   * One transaction, which is durable when the promise resolves. `nowMs` is the store's clock at its beginning.
   * `sinceMs` is null, unless an earlier try may have been committed: then no such commit is older than this.
   */
  write<T>(
    doing: string,
    script: (tx: Tx, nowMs: number, sinceMs: number | null) => Script<T>,
    how?: How & {
      alone?: string
      /** A call with an unknown outcome counts as done; its effect may be lost. */
      mayGoMissing?: boolean
    },
  ): Promise<T>
  read<T>(doing: string, script: (tx: Tx) => Script<T>, how?: How & { isLong?: boolean }): Promise<T>
}
