import { JOBS, OPERATIONS } from '../../scripts/tables.ts'
import { ACCESS, ACTIVITY, LEAN, LIBRARY, RETRIES } from '../../scripts/tables-added.ts'

const JOBS_SQLITE = `
CREATE INDEX jobs_orphaned ON jobs (orphaned_at) WHERE orphaned_at IS NOT NULL;
CREATE INDEX jobs_failed ON jobs (finished_at) WHERE failure IS NOT NULL;
-- The database keeps terminal states final. The only way out is failed -> queued, counted as a manual retry, and never for
-- a job that only goes forward.
CREATE TRIGGER terminal_states_are_final AFTER UPDATE OF status, attempt ON jobs
WHEN NEW.attempt < OLD.attempt OR OLD.finished_at IS NOT NULL AND NOT (
  OLD.forward_only = 0 AND OLD.status = 'failed' AND NEW.status = 'queued' AND NEW.attempt = OLD.attempt
  AND coalesce(json_extract(NEW.spent, '$.manualRetries'), 0) > coalesce(json_extract(OLD.spent, '$.manualRetries'), 0)
)
BEGIN
  SELECT raise(ABORT, 'terminal states are final and attempt numbers only grow');
END;
`

const OPERATIONS_SQLITE = `
CREATE INDEX notices_by_cause ON notices (kind, cause);
-- A reader of the feed must be told that events were removed.
CREATE TRIGGER removed_events_are_marked AFTER DELETE ON events
BEGIN
  INSERT INTO cursors (name, position) VALUES ('removed_events', OLD.seq)
    ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position);
END;
CREATE INDEX replay_items_waiting ON replay_items (replay, position) WHERE state = 'waiting';
CREATE INDEX replay_items_submitted ON replay_items (replay, position) WHERE state = 'submitted';
CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit BEGIN SELECT raise(ABORT, 'the audit trail is append-only'); END;
CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT raise(ABORT, 'the audit trail is kept for ever'); END;
`

const ACCESS_SQLITE = `
-- For lists. An index that is written when a job is made costs once; a job that completes touches none of these.
CREATE INDEX specs_of_owner ON job_specs (owner) WHERE owner IS NOT NULL;
CREATE INDEX specs_of_type ON job_specs (type);
DROP INDEX jobs_failed;
CREATE INDEX jobs_failed ON jobs (key) WHERE failure IS NOT NULL;
`

const LIBRARY_SQLITE = `
-- A look for due schedules reads only those that are due, however many there are.
CREATE INDEX schedules_due ON schedules (origin, max(next_at, held_until)) WHERE next_at IS NOT NULL;
`

/** Number N brings a store from version N - 1 to N. */
export const MIGRATIONS: readonly string[] = [
  JOBS + JOBS_SQLITE,
  OPERATIONS + OPERATIONS_SQLITE,
  ACCESS + ACCESS_SQLITE,
  ACTIVITY,
  RETRIES,
  LIBRARY + LIBRARY_SQLITE,
  LEAN,
]
