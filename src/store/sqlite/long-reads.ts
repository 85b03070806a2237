import { DatabaseSync } from 'node:sqlite'
import type { Connection } from './connection.ts'
import type { SqliteContext } from './context.ts'
import { storeError } from './errors.ts'

/** A read that may walk a whole table, in short steps. */
export type Steps<T> = (on: Connection) => Generator<undefined, T>

const WAIT_MS = 1_000

/**
 * Between two steps others get their turn. All steps see the store as it was at one moment: over a connection of their own,
 * in a transaction. What is done in one step needs neither. A store in memory has one connection only.
 */
export function openLongReads(path: string, connection: Connection, read: SqliteContext['read']) {
  return async <T>(doing: string, steps: Steps<T>): Promise<T> => {
    const first = await read(doing, () => steps(connection).next())
    if (first.done === true) return first.value
    const on = path === ':memory:' ? connection : openSnapshot(path, doing)
    try {
      const going = steps(on)
      for (;;) {
        const step = await read(doing, () => {
          try {
            return going.next()
          } catch (error) {
            // Not to be tried again: a generator that has thrown is over.
            throw storeError(error, doing)
          }
        })
        if (step.done === true) return step.value
      }
    } finally {
      if (on !== connection) on.database.close()
    }
  }
}

function openSnapshot(path: string, doing: string): Connection {
  try {
    const database = new DatabaseSync(path, { readOnly: true, timeout: WAIT_MS })
    database.exec('BEGIN')
    return { database, prepare: database.prepare.bind(database) }
  } catch (error) {
    throw storeError(error, doing)
  }
}
