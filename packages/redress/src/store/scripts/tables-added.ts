/** The steps after the first tables (tables.ts), in their order. The same rules hold: a step that has landed is never edited. */

/** Accounts, and the columns by which jobs are looked for. */
export const ACCESS = `
CREATE TABLE accounts (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE CHECK (name <> ''),
  email TEXT,
  created_at INTEGER NOT NULL,
  disabled_at INTEGER
) STRICT;

-- Tokens, sessions and sign-in links. Only the hash of the secret is stored.
CREATE TABLE credentials (
  key INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('token', 'session', 'link')),
  hash TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL CHECK (name <> ''),
  role TEXT NOT NULL CHECK (role IN ('owner', 'viewer', 'operator', 'admin')),
  account INTEGER REFERENCES accounts,
  scopes TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  expires_at INTEGER,
  used_at INTEGER,
  revoked_at INTEGER,
  CONSTRAINT an_owner_has_an_account CHECK (role <> 'owner' OR account IS NOT NULL)
) STRICT;
CREATE INDEX credentials_of_account ON credentials (account) WHERE account IS NOT NULL;

-- What a job ended with that did not complete, so that it can be looked for: the code of its failure, or '' where it was
-- cancelled. NULL for all others: a job that completes need not set it. Not named "code", as a column of failures is: a
-- program of the version before joins both tables and says just "code".
ALTER TABLE jobs ADD COLUMN ended_with TEXT;
UPDATE jobs SET ended_with = (SELECT code FROM failures WHERE failures.seq = jobs.failure) WHERE failure IS NOT NULL;
UPDATE jobs SET ended_with = '' WHERE status = 'cancelled';
CREATE INDEX jobs_by_end ON jobs (ended_with, key) WHERE ended_with IS NOT NULL;

-- The trace that the submission was part of (W3C traceparent), so that attempts can be linked to it.
ALTER TABLE job_specs ADD COLUMN trace TEXT;
`

/** Activity by the minute. */
export const ACTIVITY = `
-- How jobs ended, whose fault failed attempts were, and how long jobs had waited: sums that processes add to.
CREATE TABLE activity (
  minute INTEGER NOT NULL,
  type INTEGER NOT NULL,
  what TEXT COLLATE BINARY NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (minute, type, what)
) STRICT, WITHOUT ROWID;

-- Since when a job that went back to the queue is due, or when it will be. NULL until it does so for the first time: till
-- then queued_at says it.
ALTER TABLE jobs ADD COLUMN due_since INTEGER;
`

/** Retries of failed jobs. */
export const RETRIES = `
-- The newest job that a person made from this one. It is compared when another one is to be made, and outlives that job.
-- A retry that was refused at submission does not count.
ALTER TABLE job_specs ADD COLUMN retried_as TEXT;
UPDATE job_specs SET retried_as = (
  SELECT made.id FROM job_specs AS made JOIN jobs ON jobs.key = made.key LEFT JOIN failures ON failures.seq = jobs.failure
  WHERE made.retried_from = job_specs.id AND (failures.seq IS NULL OR failures.from_status IS NOT NULL)
  ORDER BY made.key DESC LIMIT 1)
WHERE id IN (SELECT retried_from FROM job_specs WHERE retried_from IS NOT NULL)
  AND (SELECT status FROM jobs WHERE jobs.key = job_specs.key) = 'failed';

-- A job stands in the line by queued_at, which is the time it was created. Its total time is counted from this time where
-- that is later: its delay was over, or a person sent it back to the queue.
ALTER TABLE jobs ADD COLUMN counts_from INTEGER;

-- orphan.stuckAfter of the policy. It is no part of its text: a program of the version before would refuse to read that.
ALTER TABLE job_types ADD COLUMN stuck_after INTEGER;
`

/** What programs that use Redress as a library expect. */
export const LIBRARY = `
-- Schedules that are stored at runtime ('runtime'), beside those that programs declare ('code').
ALTER TABLE schedules ADD COLUMN origin TEXT NOT NULL DEFAULT 'code' CHECK (origin IN ('code', 'runtime'));
-- A period instead of an expression: cron is '' then. It is counted from "from_at", or else from "timed_at".
ALTER TABLE schedules ADD COLUMN every_ms INTEGER CHECK (every_ms > 0);
ALTER TABLE schedules ADD COLUMN timed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN from_at INTEGER;
ALTER TABLE schedules ADD COLUMN until_at INTEGER;
ALTER TABLE schedules ADD COLUMN jitter_ms INTEGER NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0);
ALTER TABLE schedules ADD COLUMN count_max INTEGER CHECK (count_max > 0);
ALTER TABLE schedules ADD COLUMN counted INTEGER NOT NULL DEFAULT 0;
-- A schedule whose tick cannot be taken is left alone until then; and for how long that is.
ALTER TABLE schedules ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE schedules ADD COLUMN hold_ms INTEGER NOT NULL DEFAULT 0;
-- When next_at was computed: later than now if the clock was ahead and was set back.
ALTER TABLE schedules ADD COLUMN planned_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX schedules_planned ON schedules (planned_at);
CREATE INDEX schedules_of_owner ON schedules (owner, name COLLATE BINARY) WHERE owner IS NOT NULL;
-- A dedupe key that is held for a time, whatever becomes of the job. NULL where the scope decides.
ALTER TABLE job_specs ADD COLUMN dedupe_until INTEGER;
-- When a job expires that no worker has begun by then. NULL once an attempt has begun.
ALTER TABLE job_specs ADD COLUMN ttl_until INTEGER;
CREATE INDEX specs_expiring ON job_specs (ttl_until) WHERE ttl_until IS NOT NULL;
-- Set once a job of the type had to run alone: from then on, claims compare the limit keys of the type.
ALTER TABLE job_types ADD COLUMN singletons INTEGER CHECK (singletons = 1);
-- The newest job of each key by which submissions are merged ('debounce KEY', 'throttle KEY', 'singleton KEY'). What "at"
-- means depends on the kind. "submission" is the id of the newest submission: it may come twice.
CREATE TABLE submit_keys (
  type INTEGER NOT NULL,
  name TEXT COLLATE BINARY NOT NULL,
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  submission TEXT NOT NULL,
  needed_until INTEGER NOT NULL,
  PRIMARY KEY (type, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX submit_keys_by_end ON submit_keys (needed_until);

-- What the handler of an attempt reported beside its lines, which are events of the kind 'log': how many there are, and its
-- progress in detail.
CREATE TABLE attempt_reports (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  done REAL,
  total REAL,
  note TEXT,
  PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;
`

/** Fewer rows and index entries for each job. */
export const LEAN = `
-- An attempt that ends at once leaves one row: its end, with the time of its claim. The claim is a row of its own only where
-- another event comes between.
ALTER TABLE events ADD COLUMN claimed_at INTEGER;
-- When the attempt under way was claimed, as long as no event tells of it. It counts only where it equals claimed_at: what an
-- earlier attempt left here means nothing.
ALTER TABLE jobs ADD COLUMN untold_claim INTEGER;
`
