import { TABLES_OF_ACCESS } from './tables-of-access.ts'
import { TABLES_OF_ACTIVITY } from './tables-of-activity.ts'
import { TABLES_OF_HISTORY } from './tables-of-history.ts'
import { TABLES_OF_JOBS } from './tables-of-jobs.ts'
import { TABLES_OF_OPERATIONS } from './tables-of-operations.ts'

/** Brings a store from the version before it to its own, which is its place in the list, counted from one. */
export interface Migration {
  sql: string
  /**
   * The oldest version of Redress, by the version that it knows, that can go on working after it. While a fleet is
   * brought up to date, old and new processes share the store: so a migration only adds, and what it makes useless is
   * removed by a later one. Hence this is the version before, or an older one.
   */
  oldest: number
}

/**
 * A migration that has landed is never edited. The tables are those of the embedded store, in PostgreSQL's words; the
 * same reasons hold.
 */
export const MIGRATIONS: readonly Migration[] = [
  { sql: TABLES_OF_JOBS + TABLES_OF_HISTORY + TABLES_OF_OPERATIONS, oldest: 1 },
  { sql: TABLES_OF_ACCESS, oldest: 1 },
  { sql: TABLES_OF_ACTIVITY, oldest: 1 },
]
