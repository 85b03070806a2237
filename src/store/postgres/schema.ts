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
  {
    sql: `
-- The newest job that a person made from this one. It is compared when another one is to be made, and outlives that job.
-- A retry that was refused at submission does not count. A program of the version before does not set it.
ALTER TABLE job_specs ADD COLUMN retried_as text;
UPDATE job_specs SET retried_as = (
  SELECT made.id FROM job_specs AS made JOIN jobs ON jobs.key = made.key LEFT JOIN failures ON failures.seq = jobs.failure
  WHERE made.retried_from = job_specs.id AND (failures.seq IS NULL OR failures.from_status IS NOT NULL)
  ORDER BY made.key DESC LIMIT 1)
WHERE id IN (SELECT retried_from FROM job_specs WHERE retried_from IS NOT NULL)
  AND (SELECT status FROM jobs WHERE jobs.key = job_specs.key) = 'failed';

-- A job stands in the line by queued_at, which is the time it was created. Its total time is counted from this time where
-- that is later: its delay was over, or a person sent it back to the queue. A program of the version before sets queued_at
-- instead.
ALTER TABLE jobs ADD COLUMN counts_from bigint;

-- orphan.stuckAfter of the policy. It is no part of its text: a program of the version before would refuse to read that.
ALTER TABLE job_types ADD COLUMN stuck_after bigint;
`,
    oldest: 1,
  },
]
