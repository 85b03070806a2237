/**
 * The tables, as numbered migrations: number N brings a store from version N - 1 to N. A migration that has landed
 * is never edited.
 *
 * `jobs` holds only what changes while a job lives, because every transition rewrites the row; what is fixed at
 * submission (payload, owner, ids) is in `job_specs` under the same key. No partial index mentions `status`: SQLite
 * maintains an index on UPDATE only if a column it mentions is set, so a close touches one index instead of five.
 */
export const MIGRATIONS: readonly string[] = [
  `
CREATE TABLE job_types (
  key INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  queue TEXT NOT NULL,
  policy TEXT NOT NULL,
  forward_only INTEGER NOT NULL CHECK (forward_only IN (0, 1)),
  registered_at INTEGER NOT NULL
) STRICT;

CREATE TABLE workers (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  stopped_at INTEGER
) STRICT;

-- AUTOINCREMENT: a key is never used again, or a zombie's attempt 1 could close a stranger's attempt 1.
CREATE TABLE job_specs (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  type INTEGER NOT NULL,
  payload TEXT NOT NULL,
  owner TEXT,
  created_at INTEGER NOT NULL,
  dedupe_key TEXT,
  dedupe_scope TEXT CHECK (dedupe_scope IN ('live', 'always')),
  dedupe_held INTEGER CHECK (dedupe_held = 1),
  retried_from TEXT,
  CHECK ((dedupe_key IS NULL) = (dedupe_scope IS NULL))
) STRICT;
CREATE UNIQUE INDEX one_job_per_dedupe_key ON job_specs (type, dedupe_key) WHERE dedupe_held IS NOT NULL;
CREATE INDEX specs_by_origin ON job_specs (retried_from) WHERE retried_from IS NOT NULL;

CREATE TABLE jobs (
  key INTEGER PRIMARY KEY,
  type INTEGER NOT NULL,
  status TEXT NOT NULL,
  priority INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  ready INTEGER,
  due_at INTEGER,
  attempt INTEGER NOT NULL DEFAULT 0,
  worker INTEGER,
  lease_until INTEGER,
  claimed_at INTEGER,
  started_at INTEGER,
  finished_at INTEGER,
  forward_only INTEGER NOT NULL,
  spent TEXT,
  failure INTEGER,
  dead_letter INTEGER,
  progress REAL,
  cancel_requested_at INTEGER,
  orphaned_at INTEGER,
  result TEXT,
  -- One CASE, not one CHECK per rule: only the branch of the row's status is evaluated.
  CONSTRAINT the_columns_fit_the_status CHECK (CASE status
    WHEN 'queued' THEN (ready IS NOT NULL OR due_at IS NOT NULL) AND lease_until IS NULL AND worker IS NULL
      AND claimed_at IS NULL AND started_at IS NULL AND finished_at IS NULL AND failure IS NULL AND result IS NULL
      AND (forward_only = 0 OR attempt = 0)
    WHEN 'processing' THEN lease_until IS NOT NULL AND worker IS NOT NULL AND claimed_at IS NOT NULL AND attempt > 0
      AND ready IS NULL AND due_at IS NULL AND finished_at IS NULL AND failure IS NULL AND result IS NULL
    WHEN 'complete' THEN finished_at IS NOT NULL AND lease_until IS NULL AND worker IS NULL AND ready IS NULL
      AND due_at IS NULL AND failure IS NULL AND attempt > 0
    WHEN 'failed' THEN finished_at IS NOT NULL AND lease_until IS NULL AND worker IS NULL AND ready IS NULL
      AND due_at IS NULL AND failure IS NOT NULL AND result IS NULL
    WHEN 'cancelled' THEN finished_at IS NOT NULL AND lease_until IS NULL AND worker IS NULL AND ready IS NULL
      AND due_at IS NULL AND failure IS NULL AND result IS NULL
    ELSE 0 END)
) STRICT;
CREATE INDEX jobs_ready ON jobs (type, priority DESC, queued_at) WHERE ready IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (due_at) WHERE due_at IS NOT NULL AND ready IS NULL;
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE lease_until IS NOT NULL AND orphaned_at IS NULL;
CREATE INDEX jobs_orphaned ON jobs (orphaned_at) WHERE orphaned_at IS NOT NULL;
CREATE INDEX jobs_failed ON jobs (finished_at) WHERE failure IS NOT NULL;

-- Finality is the database's own: the one way out of a terminal state is failed -> queued, counted as a manual retry,
-- and never for a job that only goes forward.
CREATE TRIGGER terminal_states_are_final AFTER UPDATE OF status, attempt ON jobs
WHEN NEW.attempt < OLD.attempt OR OLD.finished_at IS NOT NULL AND NOT (
  OLD.forward_only = 0 AND OLD.status = 'failed' AND NEW.status = 'queued' AND NEW.attempt = OLD.attempt
  AND coalesce(json_extract(NEW.spent, '$.manualRetries'), 0) > coalesce(json_extract(OLD.spent, '$.manualRetries'), 0)
)
BEGIN
  SELECT raise(ABORT, 'terminal states are final and attempt numbers only grow');
END;

CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  worker INTEGER,
  duration_ms INTEGER,
  data TEXT
) STRICT;
CREATE INDEX events_of_job ON events (job);

CREATE TABLE failures (
  seq INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  worker INTEGER,
  stage TEXT NOT NULL CHECK (stage IN ('pre_dispatch', 'dispatch', 'execution', 'verification')),
  owner TEXT NOT NULL CHECK (owner IN ('submission', 'coordination', 'worker')),
  code TEXT NOT NULL,
  fault TEXT NOT NULL,
  message TEXT NOT NULL,
  waiting TEXT NOT NULL,
  detail TEXT NOT NULL,
  context TEXT,
  causes TEXT,
  rule TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  from_status TEXT,
  to_status TEXT NOT NULL,
  decision TEXT NOT NULL
) STRICT;
CREATE INDEX failures_of_job ON failures (job);

-- An offset is a promise to whoever keeps one: AUTOINCREMENT never gives it to another letter.
CREATE TABLE dead_letters (
  "offset" INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  failure INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_letters_of_job ON dead_letters (job);
`,
]
