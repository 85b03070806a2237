import { realpathSync } from 'node:fs'
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { RedressError } from '../../../core/errors.ts'
import type { NewJob, Submitted } from '../../contract/store.ts'
import type { Executor, SqlValue, SyncExecutor, SyncStatement } from '../../contract/transactional.ts'
import { noTransaction, refuseWriteAhead } from '../../scripts/jobs/submitting.ts'
import type { KnownType } from '../../scripts/jobs/types.ts'
import { type Connection, refuseOldSqlite } from '../connection/connection.ts'
import { isBusy, storeError } from '../connection/errors.ts'
import { MIGRATIONS } from '../schema/schema.ts'

interface SubmitInOptions {
  /** The store's own file, or ':memory:'. */
  path: string
  /** The current types of these jobs. */
  typesOf: (jobs: readonly NewJob[]) => KnownType[]
  /** Submits as the store itself does, over another connection, and throws when the backlog is full. */
  submitterOn: (connection: Connection) => (jobs: readonly NewJob[]) => Submitted[]
}

/** What is prepared once for each connection of a caller. */
interface Prepared {
  submit(jobs: readonly NewJob[]): Submitted[]
  version(): number
  savepoint(act: 'SAVEPOINT' | 'RELEASE' | 'ROLLBACK TO'): void
}

const DOING = 'submitting in your transaction'

/** Submits on the caller's connection, inside the caller's transaction. */
export function openSubmitIn({ path, typesOf, submitterOn }: SubmitInOptions) {
  const known = new WeakMap<SyncExecutor, Prepared>()

  const prepare = (handle: SyncExecutor): Prepared => {
    const connection = foreignConnection(handle)
    refuseOldSqlite((connection.prepare('SELECT sqlite_version() AS version').get() as { version: string }).version)
    refuseOtherFile(connection, path)
    const userVersion = connection.prepare('PRAGMA user_version')
    const savepoints = {
      SAVEPOINT: connection.prepare('SAVEPOINT redress_submit'),
      RELEASE: connection.prepare('RELEASE redress_submit'),
      'ROLLBACK TO': connection.prepare('ROLLBACK TO redress_submit'),
    }
    return {
      submit: submitterOn(connection),
      version: () => (userVersion.get() as { user_version: number }).user_version,
      savepoint: (act) => void savepoints[act].run(),
    }
  }

  const submitAll = (prepared: Prepared, jobs: readonly NewJob[]): Submitted[] => {
    // If the caller catches a refusal and commits anyway, no part of the submission may remain.
    prepared.savepoint('SAVEPOINT')
    try {
      const submitted = prepared.submit(jobs)
      prepared.savepoint('RELEASE')
      return submitted
    } catch (error) {
      undo(prepared)
      throw error
    }
  }

  const submitOn = (handle: SyncExecutor, jobs: readonly NewJob[]): Submitted[] => {
    const before = known.get(handle)
    const prepared = before ?? prepare(handle)
    known.set(handle, prepared)
    try {
      refuseOtherVersion(prepared.version(), path)
      return submitAll(prepared, jobs)
    } catch (error) {
      known.delete(handle)
      // The caller has closed and reopened the connection: its statements are gone, and nothing was done.
      if (before !== undefined && isFinalized(error)) return submitOn(handle, jobs)
      throw error
    }
  }

  return (executor: Executor, jobs: readonly NewJob[]): Submitted[] => {
    if (path === ':memory:') {
      throw new RedressError('TX_UNSUPPORTED', 'This store is in memory, where no other connection can reach it.', {
        action: 'Keep the store in a file, the one that your own tables are in.',
      })
    }
    if (!isSync(executor)) {
      const message = 'This store is an SQLite file: give an open database that has `prepare`, as node:sqlite does.'
      throw new RedressError('TX_WRONG_DATABASE', message)
    }
    for (const type of typesOf(jobs)) refuseWriteAhead(type)
    try {
      if (!isInTransaction(executor)) throw noTransaction()
      return submitOn(executor, jobs)
    } catch (error) {
      throw inOurWords(error)
    }
  }
}

const isSync = (executor: unknown): executor is SyncExecutor =>
  typeof (executor as Partial<SyncExecutor> | null)?.prepare === 'function'

const isFinalized = (error: unknown): boolean => error instanceof Error && /finalized/.test(error.message)

/** Some errors, such as a full disk, end the whole transaction and the savepoint. */
function undo(prepared: Prepared): void {
  try {
    prepared.savepoint('ROLLBACK TO')
    prepared.savepoint('RELEASE')
  } catch {
    // Nothing of it is left; the first error says more than this one.
  }
}

function refuseOtherFile(connection: Connection, path: string): void {
  const databases = connection.prepare('PRAGMA database_list').all() as { name: string; file: string | null }[]
  const file = databases.find(({ name }) => name === 'main')?.file ?? ''
  // Symbolic links lead to the same file. A hard link is another name, by which SQLite would keep another log.
  const ours = realPath(path)
  if (realPath(file) === ours) return
  const isAttached = databases.some((one) => realPath(one.file ?? '') === ours)
  const attached = isAttached ? ' The store is only attached to it, and SQLite does not commit two files as one.' : ''
  throw new RedressError(
    'TX_WRONG_DATABASE',
    `This connection is to ${file === '' ? 'a database in memory' : file}; the store is ${path}.${attached}`,
  )
}

/** '' for a database in memory, which has no file. */
function realPath(path: string): string {
  return path === '' ? '' : realpathSync(path)
}

function refuseOtherVersion(version: number, path: string): void {
  if (version === MIGRATIONS.length) return
  throw new RedressError(
    'STORE_TOO_NEW',
    `${path} is of version ${version} by now; this Redress writes version ${MIGRATIONS.length}.`,
  )
}

function inOurWords(error: unknown): RedressError {
  const code = (error as { code?: unknown } | null)?.code
  const isBusyElsewhere = typeof code === 'string' && /^SQLITE_(BUSY|LOCKED)/.test(code)
  if (!isBusy(error) && !isBusyElsewhere) return storeError(error, DOING)
  return new RedressError('STORE_BUSY', 'Another connection wrote to the store since your transaction began.', {
    cause: error,
    action: 'Roll back and do it again, with BEGIN IMMEDIATE: that waits for its turn before anything is read.',
  })
}

/** Properties that some drivers have beside the required ones. */
interface Handle extends SyncExecutor {
  /** node:sqlite */
  isTransaction?: boolean
  /** better-sqlite3 */
  inTransaction?: boolean
}
interface Statement extends SyncStatement {
  setReadBigInts?(isOn: boolean): void
  setReturnArrays?(isOn: boolean): void
  safeIntegers?(isOn: boolean): void
}

/** The caller's connection with our interface. Each statement is prepared once. */
function foreignConnection(handle: SyncExecutor): Connection {
  const statements = new Map<string, StatementSync>()
  return {
    prepare(sql) {
      const statement = statements.get(sql) ?? (foreignStatement(handle, sql) as unknown as StatementSync)
      statements.set(sql, statement)
      return statement
    },
    database: handle as unknown as DatabaseSync,
  }
}

/**
 * Some drivers take `?1` for a position, others for a name. All agree about `?`, so every numbered placeholder becomes one, and
 * its value is bound as often as it occurs.
 */
function foreignStatement(handle: SyncExecutor, sql: string): SyncStatement {
  const places = [...sql.matchAll(/\?(\d+)/g)].map(([, number]) => Number(number) - 1)
  const statement: Statement = handle.prepare(places.length === 0 ? sql : sql.replace(/\?\d+/g, '?'))
  // The caller may have set other ways to read rows.
  statement.setReadBigInts?.(false)
  statement.setReturnArrays?.(false)
  statement.safeIntegers?.(false)
  const laid = (values: SqlValue[]): SqlValue[] =>
    places.length === 0 ? values : places.map((place) => values[place] as SqlValue)
  return {
    run(...values) {
      const { changes, lastInsertRowid } = statement.run(...laid(values))
      return { changes: Number(changes), lastInsertRowid: Number(lastInsertRowid) }
    },
    get: (...values) => statement.get(...laid(values)),
    all: (...values) => statement.all(...laid(values)),
  }
}

/** Whether a transaction is open on this connection. */
function isInTransaction(handle: Handle): boolean {
  const isOpen = handle.isTransaction ?? handle.inTransaction
  if (typeof isOpen === 'boolean') return isOpen
  // A BEGIN inside a transaction is refused and harms nothing.
  try {
    handle.prepare('BEGIN').run()
  } catch {
    return true
  }
  handle.prepare('ROLLBACK').run()
  return false
}
