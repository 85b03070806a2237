/**
 * The tables of both databases, in steps. A step that has landed is never edited. The text is SQLite's own; `forPostgres`
 * (postgres/schema/for-postgres.ts) translates it. Indexes and triggers that only one database has are in the `schema/` folder of its driver.
 *
 * `jobs` holds only what changes while a job lives, because every transition rewrites the row; what is fixed at
 * submission (payload, owner, ids) is in `job_specs` under the same key. No partial index mentions `status`: SQLite
 * maintains an index on UPDATE only if a column it mentions is set, so a close touches one index instead of five.
 */

/** Jobs, their types, the workers, and the history. */
export const JOBS = `
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
  key INTEGER NOT NULL PRIMARY KEY,
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
    ELSE false END)
) STRICT;
CREATE INDEX jobs_ready ON jobs (type, priority DESC, queued_at /* key */) WHERE ready IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (due_at) WHERE due_at IS NOT NULL AND ready IS NULL;
CREATE INDEX jobs_leased ON jobs (lease_until) WHERE lease_until IS NOT NULL AND orphaned_at IS NULL;
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
CREATE INDEX failures_of_job ON failures (job /* seq */);

-- Callers keep offsets, so AUTOINCREMENT never gives one to another letter.
CREATE TABLE dead_letters (
  "offset" INTEGER PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  failure INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT;
CREATE INDEX dead_letters_of_job ON dead_letters (job);
`

/** Batches, limits, schedules, notices, failure groups, replays and the audit trail. */
export const OPERATIONS = `
-- A job's place in a batch, and the key by which its type limits how many run at once ('' where only the type counts).
ALTER TABLE job_specs ADD COLUMN batch INTEGER;
ALTER TABLE job_specs ADD COLUMN left_batch INTEGER CHECK (left_batch = 1);
CREATE INDEX specs_of_batch ON job_specs (batch /* key */) WHERE batch IS NOT NULL;
ALTER TABLE jobs ADD COLUMN limit_key TEXT COLLATE BINARY;
CREATE INDEX jobs_limited_running ON jobs (type, limit_key) WHERE limit_key IS NOT NULL AND lease_until IS NOT NULL;
CREATE INDEX jobs_limited_ready ON jobs (type, limit_key, priority DESC, queued_at /* key */)
  WHERE limit_key IS NOT NULL AND ready IS NOT NULL;
CREATE INDEX jobs_limited_waiting ON jobs (type) WHERE limit_key IS NOT NULL AND due_at IS NOT NULL AND ready IS NULL;

-- Whether further attempts were useless, as far as the failure ended its job: what it counts for in a batch.
ALTER TABLE failures ADD COLUMN permanent INTEGER CHECK (permanent IN (0, 1));

-- The job types that it runs: a job whose type no worker runs can say so.
ALTER TABLE workers ADD COLUMN types TEXT NOT NULL DEFAULT '[]';

-- What happens to anything but a job has a subject ('batch:...', 'breaker:...') and job 0, which no job has.
ALTER TABLE events ADD COLUMN subject TEXT;
CREATE INDEX events_of_subject ON events (subject /* seq */) WHERE subject IS NOT NULL;

CREATE TABLE batches (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  owner TEXT,
  -- As its first job's type says, until it has one.
  rollup TEXT CHECK (rollup IN ('all-or-nothing', 'partial', 'any-permanent')),
  state TEXT NOT NULL CHECK (state IN ('open', 'complete', 'partial', 'failed', 'cancelled', 'expired')),
  sealed INTEGER NOT NULL CHECK (sealed IN (0, 1)),
  total INTEGER NOT NULL DEFAULT 0,
  unfinished INTEGER NOT NULL DEFAULT 0,
  complete INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  permanent INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  data TEXT NOT NULL,
  on_settled TEXT,
  notify TEXT,
  created_at INTEGER NOT NULL,
  settled_at INTEGER,
  settlements INTEGER NOT NULL DEFAULT 0,
  expires_at INTEGER,
  CONSTRAINT the_counts_sum CHECK (total = unfinished + complete + failed + cancelled AND permanent <= failed
    AND unfinished >= 0 AND complete >= 0 AND failed >= 0 AND permanent >= 0 AND cancelled >= 0),
  CONSTRAINT settled_means_finished CHECK (state IN ('open', 'expired') OR (settled_at IS NOT NULL AND unfinished = 0))
) STRICT;
CREATE INDEX batches_expiring ON batches (expires_at) WHERE expires_at IS NOT NULL AND state <> 'expired';

CREATE TABLE breakers (
  name TEXT PRIMARY KEY,
  policy TEXT NOT NULL,
  -- Grows with each computed change of the status: calls that were begun before say nothing about it.
  epoch INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('closed', 'open', 'half-open')),
  since INTEGER NOT NULL,
  tries_at INTEGER,
  passed INTEGER NOT NULL,
  reason TEXT NOT NULL,
  forced_status TEXT CHECK (forced_status IN ('open', 'closed')),
  forced_by TEXT,
  forced_reason TEXT,
  forced_at INTEGER,
  forced_until INTEGER,
  -- The health probe under way, and until when some process has promised to make them.
  probe INTEGER NOT NULL DEFAULT 0,
  probe_until INTEGER,
  prober_until INTEGER,
  probed_at INTEGER,
  probe_passed INTEGER CHECK (probe_passed IN (0, 1)),
  probe_said TEXT,
  CHECK ((forced_status IS NULL) = (forced_by IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE breaker_calls (
  breaker TEXT NOT NULL,
  at INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  PRIMARY KEY (breaker, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE queues (
  name TEXT PRIMARY KEY,
  paused_at INTEGER NOT NULL,
  paused_by TEXT NOT NULL,
  paused_reason TEXT NOT NULL,
  resume_at INTEGER
) STRICT, WITHOUT ROWID;

-- Buckets of tokens: of a rate limit ('rate:TYPE', 'rate:TYPE KEY') or of a retry budget ('retry:TYPE').
CREATE TABLE meters (
  name TEXT COLLATE BINARY PRIMARY KEY,
  tokens REAL NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The revision only grows, also over a removal. With next_at it tells whether a planned tick is still valid.
-- A payload of NULL is made anew for each tick by the program that declares the schedule.
CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  type TEXT NOT NULL,
  payload TEXT,
  cron TEXT NOT NULL,
  timezone TEXT NOT NULL,
  missed TEXT NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
  owner TEXT,
  priority INTEGER NOT NULL,
  next_at INTEGER,
  last_at INTEGER,
  last_job TEXT,
  runs INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  problem TEXT,
  problem_at INTEGER,
  paused_at INTEGER,
  paused_by TEXT,
  paused_reason TEXT,
  resumed_at INTEGER,
  declared_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  CHECK ((paused_at IS NULL) = (paused_by IS NULL) AND (problem IS NULL) = (problem_at IS NULL))
) STRICT;

-- The outbox. A repeat within the window is counted here instead of sent, and the next notice names the number of
-- repeats.
CREATE TABLE notices (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  channels TEXT NOT NULL,
  subject TEXT NOT NULL,
  cause TEXT NOT NULL,
  until INTEGER NOT NULL,
  repeats INTEGER NOT NULL DEFAULT 0,
  last_at INTEGER NOT NULL,
  earlier INTEGER NOT NULL DEFAULT 0,
  earlier_at INTEGER,
  data TEXT NOT NULL,
  relayed_at INTEGER
) STRICT;
CREATE INDEX notices_to_relay ON notices (seq) WHERE relayed_at IS NULL;
-- One row for each channel that a notice is still to be relayed to: a process looks only for those of its own channels.
CREATE TABLE notice_waits (
  channel TEXT NOT NULL,
  notice INTEGER NOT NULL,
  PRIMARY KEY (channel, notice)
) STRICT, WITHOUT ROWID;
CREATE INDEX waits_of_notice ON notice_waits (notice);

CREATE TABLE failure_groups (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  type TEXT NOT NULL,
  code TEXT NOT NULL,
  fault TEXT NOT NULL,
  message TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  count INTEGER NOT NULL,
  final INTEGER NOT NULL,
  newest TEXT NOT NULL,
  fields TEXT NOT NULL,
  hours TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'snoozed', 'resolved', 'regressed')),
  state_at INTEGER NOT NULL,
  state_by TEXT,
  state_reason TEXT,
  state_seq INTEGER NOT NULL,
  snoozed_until INTEGER,
  snoozed_count INTEGER,
  CHECK (state = 'snoozed' OR (snoozed_until IS NULL AND snoozed_count IS NULL))
) STRICT;
CREATE INDEX failure_groups_by_time ON failure_groups (last_at /* fingerprint */);
-- How far a reader of an append-only table has read.
CREATE TABLE cursors (name TEXT PRIMARY KEY, position INTEGER NOT NULL) STRICT, WITHOUT ROWID;
ALTER TABLE dead_letters ADD COLUMN replays INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dead_letters ADD COLUMN replayed_at INTEGER;
ALTER TABLE dead_letters ADD COLUMN replayed_as TEXT;

CREATE TABLE replays (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK (state IN
    ('planning', 'planned', 'canary', 'running', 'paused', 'stopped', 'done', 'aborted')),
  why TEXT NOT NULL,
  selection TEXT NOT NULL,
  patch TEXT,
  per_second REAL,
  canary INTEGER NOT NULL,
  canary_failures_max INTEGER NOT NULL,
  canary_over INTEGER NOT NULL DEFAULT 0 CHECK (canary_over IN (0, 1)),
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  started_by TEXT,
  started_reason TEXT,
  total INTEGER NOT NULL DEFAULT 0,
  submitted INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  -- The pace: letter n since the anchor goes at anchor + n / per_second.
  anchor INTEGER NOT NULL DEFAULT 0,
  sent INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER,
  CHECK (submitted + skipped <= total),
  CONSTRAINT under_way_has_a_next_time CHECK ((next_at IS NOT NULL) = (state IN ('canary', 'running')))
) STRICT;
CREATE INDEX replays_due ON replays (next_at) WHERE next_at IS NOT NULL;
CREATE TABLE replay_items (
  replay INTEGER NOT NULL,
  position INTEGER NOT NULL,
  "offset" INTEGER NOT NULL,
  type TEXT NOT NULL,
  replays_seen INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'skipped', 'submitted')),
  skip_code TEXT,
  why TEXT,
  job TEXT NOT NULL,
  PRIMARY KEY (replay, position),
  CHECK ((skip_code IS NULL) = (state <> 'skipped'))
) STRICT, WITHOUT ROWID;
-- Who did what, why, and to which ids: written in the transaction that does it.
CREATE TABLE audit (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL CHECK (actor <> ''),
  act TEXT COLLATE BINARY NOT NULL,
  reason TEXT NOT NULL,
  target TEXT NOT NULL,
  ids TEXT NOT NULL,
  data TEXT
) STRICT;
`
