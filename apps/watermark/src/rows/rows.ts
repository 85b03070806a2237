import { resolve } from 'node:path'
import { RedressError } from 'redress'
import { postgresRows } from './postgres.ts'
import { sqliteRows } from './sqlite.ts'

export type Value = string | number | null

/** One statement of a transaction. */
export interface Step {
  sql: string
  params?: readonly Value[]
}

/**
 * Rows of an app's own, in the database that the jobs are in. One SQL for both kinds of store: places are `$1`, numbers
 * are whole (`bigint`; times in milliseconds, truths 0 and 1), and RETURNING and ON CONFLICT are there.
 */
export interface Rows {
  all<Row extends object>(sql: string, ...params: Value[]): Promise<Row[]>
  first<Row extends object>(sql: string, ...params: Value[]): Promise<Row | null>
  /** How many rows it changed. */
  run(sql: string, ...params: Value[]): Promise<number>
  /** All of it or nothing. The rows that each step gave. */
  atomically(steps: readonly Step[]): Promise<object[][]>
  close(): Promise<void>
}

/** The tables of one app. The first process to start makes each version once, in order. */
export interface Tables {
  name: string
  versions: readonly string[]
  /** All of them, each after those that it refers to; the first column of each is its key. */
  copyOrder: readonly string[]
}

interface RowsOptions {
  /** Where the jobs are: `app.location`. */
  location: string | null
  tables: Tables
  /**
   * Awaited before the first statement. The store must make its tables first: it refuses a file that has only other
   * tables.
   */
  storeOpened(): Promise<unknown>
}

/** Nothing is opened before it is needed: a database that is away must not keep an app from being installed. */
export function openRows({ location, tables, storeOpened }: RowsOptions): Rows {
  const open = driverOf(location)
  let opening: Promise<Driver> | null = null
  let isClosed = false
  const opened = async (): Promise<Driver> => {
    if (isClosed) throw new RedressError('STORE_STOPPED', 'The rows of this app were closed.')
    opening ??= (async () => {
      await storeOpened()
      const driver = await open()
      try {
        await driver.migrate(tables)
      } catch (error) {
        await driver.close()
        throw error
      }
      return driver
    })().catch((error: unknown) => {
      // A failure is not cached: the database may be back at the next call.
      opening = null
      throw error
    })
    return opening
  }
  return {
    all: async <Row extends object>(sql: string, ...params: Value[]) =>
      (await (await opened()).ask(sql, params)).rows as Row[],
    first: async <Row extends object>(sql: string, ...params: Value[]) =>
      ((await (await opened()).ask(sql, params)).rows[0] as Row | undefined) ?? null,
    run: async (sql, ...params) => (await (await opened()).ask(sql, params)).count,
    atomically: async (steps) => (await opened()).atomically(steps),
    async close() {
      isClosed = true
      await (await opening?.catch(() => null))?.close()
    },
  }
}

export interface Answered {
  rows: object[]
  /** Of rows that were changed or given. */
  count: number
}

export interface Driver {
  ask(sql: string, params: readonly Value[]): Promise<Answered>
  atomically(steps: readonly Step[]): Promise<object[][]>
  migrate(tables: Tables): Promise<void>
  /** The version of an app's tables; null if there are none. Changes nothing. */
  versionOf(app: string): Promise<number | null>
  close(): Promise<void>
}

const MEMORY = ':memory:'

export function driverOf(location: string | null): () => Promise<Driver> {
  if (location !== null && /^postgres(ql)?:\/\//.test(location)) return () => postgresRows(location)
  const place = /^sqlite:(.+)$/.exec(location ?? '')?.[1]
  // A store in memory ends with its process, so the rows may be in a separate database.
  if (place === MEMORY) return async () => sqliteRows(MEMORY, true)
  if (place !== undefined) {
    // Resolved now, because the working folder may change before the first use.
    const path = resolve(place)
    return async () => sqliteRows(path, false)
  }
  throw new RedressError('OPTION_INVALID', 'This app keeps rows beside its jobs, and does not know where those are.', {
    action: 'Give redress() the place of its store (sqlite:FILE or postgres://...) instead of a store.',
  })
}

/** Which versions are still to be made. */
export function versionsAfter(version: number, { name, versions }: Tables): readonly string[] {
  if (version <= versions.length) return versions.slice(version)
  throw new RedressError(
    'STORE_TOO_NEW',
    `The tables of ${name} are of version ${version}; this program knows versions up to ${versions.length}.`,
  )
}
