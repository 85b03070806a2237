import { DatabaseSync } from 'node:sqlite'
import type { Connection } from './connection.ts'
import { storeError } from './errors.ts'

/** A read that may scan a whole table, in short steps. */
export type Steps<T> = (on: Connection) => Generator<unknown, T>

type Read = <T>(doing: string, run: () => T) => Promise<T>

const WAIT_MS = 1_000

/**
 * Other requests get a turn between two steps. All steps see one snapshot: they use a separate connection and one
 * transaction. A read of one step needs neither. An in-memory store has only one connection.
 */
export function openLongReads(path: string, connection: Connection, read: Read) {
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
            // No retry: a generator that has thrown is finished.
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
