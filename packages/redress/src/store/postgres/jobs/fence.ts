import type { Sql } from '../connection/client.ts'

/**
 * What a worker may write to: the attempt it was leased, while that attempt is open. The attempt number only grows,
 * so it is the fencing token: once a job was reclaimed and claimed again, an older holder matches no row.
 *
 * Every statement that a worker's call runs has this in its WHERE, with what the worker says it holds as `given`.
 */
export const HELD = `jobs.key = given.key AND jobs.attempt = given.attempt AND jobs.status = 'processing'`

/** The same as a part of a statement. */
export const held = (sql: Sql) => sql.unsafe(HELD)
