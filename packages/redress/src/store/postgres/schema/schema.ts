import { JOBS, OPERATIONS } from '../../scripts/tables.ts'
import { ACCESS, ACTIVITY, LEAN, LIBRARY, RETRIES } from '../../scripts/tables-added.ts'
import { forPostgres } from './for-postgres.ts'

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

const JOBS_POSTGRES = `
-- The database's clock, in milliseconds. A worker's clock decides nothing.
CREATE FUNCTION redress_now() RETURNS bigint LANGUAGE sql VOLATILE AS
  $$ SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

CREATE INDEX specs_of_owner ON job_specs (owner, key) WHERE owner IS NOT NULL;
CREATE INDEX jobs_orphaned ON jobs (key) WHERE orphaned_at IS NOT NULL;
-- Few rows, read often: each worker looks for its own.
CREATE INDEX jobs_cancelling ON jobs (worker) WHERE cancel_requested_at IS NOT NULL AND lease_until IS NOT NULL;
-- For lists by status or type, or both. Jobs being processed are few, and found by their lease: so a claim, unlike a
-- submission and a close, adds nothing here.
CREATE INDEX jobs_listed ON jobs (type, status, key) WHERE lease_until IS NULL;

-- The database keeps terminal states final. The only way out is failed -> queued, counted as a manual retry, and never for
-- a job that only goes forward.
CREATE FUNCTION refuse_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'terminal states are final and attempt numbers only grow' USING ERRCODE = 'RD001';
END $$;
CREATE TRIGGER terminal_states_are_final AFTER UPDATE OF status, attempt ON jobs FOR EACH ROW
WHEN (NEW.attempt < OLD.attempt OR OLD.finished_at IS NOT NULL AND NOT (
  OLD.forward_only = 0 AND OLD.status = 'failed' AND NEW.status = 'queued' AND NEW.attempt = OLD.attempt
  AND coalesce((NEW.spent::json ->> 'manualRetries')::int, 0) > coalesce((OLD.spent::json ->> 'manualRetries')::int, 0)
))
EXECUTE FUNCTION refuse_final();

-- A transaction has its number before any of its failures has one. A reader that misses a failure's number knows by that
-- when the transaction that took it must have ended.
CREATE FUNCTION take_transaction_number() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_current_xact_id();
  RETURN NULL;
END $$;
CREATE TRIGGER failures_are_numbered_after_their_transaction BEFORE INSERT ON failures
FOR EACH STATEMENT EXECUTE FUNCTION take_transaction_number();
-- A close takes the number of the failure for the row of its job.
CREATE TRIGGER failures_are_numbered_after_their_transaction BEFORE UPDATE OF failure ON jobs
FOR EACH STATEMENT EXECUTE FUNCTION take_transaction_number();

-- Numbers are given before the commit, so that they become visible out of order. A reader that reads a table by its numbers
-- and must miss none reads only up to settled_to: no transaction under way has one of those, and none will get one.
-- For that each transaction holds, until its end, a lock that is named after the number before its own first one. Others
-- see a lock at once, and it is released only when the written rows are visible.
CREATE FUNCTION announce_numbers() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  -- Once per transaction: the setting ends with it, and with a savepoint that is undone, just as the lock does.
  mark text := 'redress.numbers_' || TG_RELID;
BEGIN
  IF coalesce(current_setting(mark, true), '') = '' THEN
    PERFORM pg_advisory_xact_lock_shared(TG_RELID::int, coalesce(pg_sequence_last_value(
      format('%I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME || '_seq_seq')::regclass), 0)::bit(32)::int);
    PERFORM set_config(mark, '1', true);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER numbers_are_announced BEFORE INSERT ON events FOR EACH STATEMENT EXECUTE FUNCTION announce_numbers();

-- The answer holds for statements that begin after this one: in the same statement, rows may be missing.
CREATE FUNCTION settled_to(numbered text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- First, or a transaction could come in between that has a lower one.
  newest bigint := coalesce(pg_sequence_last_value(
    format('%I.%I', current_schema(), numbered || '_seq_seq')::regclass), 0);
  behind bigint;
BEGIN
  -- The lock has 32 bits of the number; it is ahead where it was taken just now.
  SELECT max((newest - objid::bigint) & 4294967295) INTO behind FROM pg_locks
  WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = format('%I.%I', current_schema(), numbered)::regclass AND objsubid = 2
    AND (newest - objid::bigint) & 4294967295 < 2147483648;
  RETURN newest - coalesce(behind, 0);
END $$;

-- Numbers of failures that were not visible when a higher one was counted: those of transactions that were still
-- under way, which are counted when they come, and those of undone ones, which never come. "until" is the number of a
-- transaction that began after they were given out.
CREATE TABLE uncounted_failures (
  first_seq bigint PRIMARY KEY,
  last_seq bigint NOT NULL,
  until bigint NOT NULL,
  CHECK (first_seq <= last_seq)
);
`

const OPERATIONS_POSTGRES = `
-- A reader of the feed must be told that events were removed.
CREATE FUNCTION mark_removed_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO cursors (name, position) SELECT 'removed_events', max(seq) FROM removed HAVING max(seq) IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET position = greatest(cursors.position, excluded.position);
  RETURN NULL;
END $$;
CREATE TRIGGER removed_events_are_marked AFTER DELETE ON events REFERENCING OLD TABLE AS removed
FOR EACH STATEMENT EXECUTE FUNCTION mark_removed_events();

CREATE INDEX dead_letters_by_replay ON dead_letters ((replays > 0), "offset");
CREATE INDEX dead_letters_by_time ON dead_letters (at);
-- The columns by which letters are looked for, copied from their jobs and failures.
CREATE TABLE letter_traits (
  "offset" bigint PRIMARY KEY REFERENCES dead_letters ON DELETE CASCADE,
  type bigint NOT NULL,
  owner text,
  code text NOT NULL,
  fingerprint text NOT NULL
);
CREATE INDEX letters_by_type ON letter_traits (type, "offset");
CREATE INDEX letters_by_owner ON letter_traits (owner, "offset") WHERE owner IS NOT NULL;
CREATE INDEX letters_by_code ON letter_traits (code, "offset");
CREATE INDEX letters_by_fingerprint ON letter_traits (fingerprint, "offset");
-- After the statement: then the failure is there even if the same statement adds it.
CREATE FUNCTION add_letter_traits() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO letter_traits ("offset", type, owner, code, fingerprint)
  SELECT added."offset", job_specs.type, job_specs.owner, failures.code, failures.fingerprint
  FROM added JOIN job_specs ON job_specs.key = added.job JOIN failures ON failures.seq = added.failure;
  RETURN NULL;
END $$;
CREATE TRIGGER letters_have_traits AFTER INSERT ON dead_letters REFERENCING NEW TABLE AS added
FOR EACH STATEMENT EXECUTE FUNCTION add_letter_traits();

-- A cause may be longer than an index takes.
CREATE INDEX notices_by_cause ON notices (md5(kind || ' ' || cause || ' ' || channels), seq DESC);
CREATE INDEX failure_groups_by_count ON failure_groups (count, fingerprint);
CREATE INDEX replay_items_waiting ON replay_items (replay, type, position) WHERE state = 'waiting';
CREATE INDEX replay_items_by_state ON replay_items (replay, state, position);

CREATE INDEX audit_by_actor ON audit (actor, seq);
CREATE INDEX audit_by_act ON audit (act, seq);
CREATE INDEX audit_by_target ON audit (target, seq);
-- The ids as JSON strings, with their quotes.
CREATE FUNCTION ids_in(list text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
  $$ SELECT array(SELECT value::text FROM json_array_elements(list::json)) $$;
CREATE INDEX audit_by_id ON audit USING gin (ids_in(ids));
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the audit trail is append-only and kept for ever' USING ERRCODE = 'RD002';
END $$;
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();

-- Rows that are rewritten again and again, in columns that no index has: with room beside them, the new version stays on
-- its page and the indexes are not touched.
ALTER TABLE batches SET (fillfactor = 50);
ALTER TABLE breakers SET (fillfactor = 50);
ALTER TABLE breaker_calls SET (fillfactor = 50);
ALTER TABLE cursors SET (fillfactor = 50);
ALTER TABLE meters SET (fillfactor = 50);
ALTER TABLE replays SET (fillfactor = 50);
ALTER TABLE workers SET (fillfactor = 50);
-- Each job leaves two dead rows on its way. Claims walk over dead rows, so they are removed long before the fifth of
-- the table that is the default has died, and without pauses.
ALTER TABLE jobs SET (fillfactor = 80, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_threshold = 10000, autovacuum_analyze_scale_factor = 0.05);
`

const ACTIVITY_POSTGRES = 'ALTER TABLE activity SET (fillfactor = 50);'

const LIBRARY_POSTGRES = `
-- A look for due schedules reads only those that are due, however many there are.
CREATE INDEX schedules_due ON schedules (origin, greatest(next_at, held_until)) WHERE next_at IS NOT NULL;
-- Lists are ordered by the bytes of the name, whatever the collation of the database.
CREATE INDEX schedules_by_name ON schedules (name COLLATE "C");
`

const LEAN_POSTGRES = `
-- For lists, as on SQLite: an index of what is fixed at submission costs once, and a job that completes touches none of these.
CREATE INDEX specs_of_type ON job_specs (type, key);
CREATE INDEX jobs_unsuccessful ON jobs (status, key) WHERE status IN ('failed', 'cancelled');
DROP INDEX jobs_listed;
`

/** A migration that has landed is never edited. A program of the version before sets none of the columns that one adds. */
export const MIGRATIONS: readonly Migration[] = [
  { sql: forPostgres(JOBS) + JOBS_POSTGRES + forPostgres(OPERATIONS) + OPERATIONS_POSTGRES, oldest: 1 },
  { sql: forPostgres(ACCESS), oldest: 1 },
  { sql: forPostgres(ACTIVITY) + ACTIVITY_POSTGRES, oldest: 1 },
  { sql: forPostgres(RETRIES), oldest: 1 },
  { sql: forPostgres(LIBRARY) + LIBRARY_POSTGRES, oldest: 1 },
  { sql: forPostgres(LEAN) + LEAN_POSTGRES, oldest: 1 },
]
