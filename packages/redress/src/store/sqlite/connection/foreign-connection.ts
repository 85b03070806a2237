import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { SqlValue, SyncExecutor, SyncStatement } from '../../contract/transactional.ts'
import type { Connection } from './connection.ts'

/** What some drivers have beside the least that we need. */
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

/** The caller's own connection in the shape that the parts of the store work with. What is asked for twice is kept. */
export function foreignConnection(handle: SyncExecutor): Connection {
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
 * Drivers differ in what they make of `?1`: some count it as a place, some as a name. All agree about a bare `?`, so
 * every numbered place becomes one of those, with its value given as often as it occurs.
 */
function foreignStatement(handle: SyncExecutor, sql: string): SyncStatement {
  const places = [...sql.matchAll(/\?(\d+)/g)].map(([, number]) => Number(number) - 1)
  const statement: Statement = handle.prepare(places.length === 0 ? sql : sql.replace(/\?\d+/g, '?'))
  // As their owner reads rows is not as we do.
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

/** Whether a transaction is open on it. */
export function isInTransaction(handle: Handle): boolean {
  const told = handle.isTransaction ?? handle.inTransaction
  if (typeof told === 'boolean') return told
  // Begun within another one it is refused, which harms nothing.
  try {
    handle.prepare('BEGIN').run()
  } catch {
    return true
  }
  handle.prepare('ROLLBACK').run()
  return false
}
