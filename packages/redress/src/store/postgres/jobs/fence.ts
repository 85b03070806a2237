import type { Sql } from '../connection/client.ts'

/**
 * The fence: a worker may write to the attempt that it was leased, while that attempt is open. The attempt number only grows, so
 * it is the fencing token: after a job was reclaimed and claimed again, an older holder matches no row.
 *
 * Every statement of a worker's call has this in its WHERE. `given` holds the attempts that the worker claims to hold.
 */
export const HELD = `jobs.key = given.key AND jobs.attempt = given.attempt AND jobs.status = 'processing'`

/** The same as a part of a statement. */
export const held = (sql: Sql) => sql.unsafe(HELD)
