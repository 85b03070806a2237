/** What happened by the minute, and since when a job is due. It only adds. */
export const TABLES_OF_ACTIVITY = `
-- How jobs ended, whose fault failed attempts were, and how long jobs had waited: sums that processes add to.
CREATE TABLE activity (
  minute bigint NOT NULL,
  type bigint NOT NULL,
  what text COLLATE "C" NOT NULL,
  count bigint NOT NULL,
  PRIMARY KEY (minute, type, what)
) WITH (fillfactor = 50);

-- Since when a job that went back to the queue is due, or when it will be. NULL until it does so for the first time: till
-- then queued_at says it. A program of the version before does not set it.
ALTER TABLE jobs ADD COLUMN due_since bigint;
`
