import { type Change, type DecidedFailure, endEventOf } from '../../../core/job/change.ts'
import { FREES_LIVE_KEY } from '../../../core/job/dedupe.ts'
import { triesOfTask } from '../../../core/policy/budget.ts'
import type { BatchKey, Held, JobKey, WorkerKey } from '../../contract/store.ts'
import type { Sql } from '../connection/client.ts'
import { numbers, printable, textOf, texts } from '../connection/values.ts'
import { HELD } from './fence.ts'

/** The end of one attempt. */
export interface AttemptEnd extends Held {
  worker: WorkerKey
  change: Change
  /** In whole milliseconds; null when the handler never began. */
  ranMs: number | null
  /** A failure that is stored although the change has none. */
  keptFailure?: DecidedFailure | null
}

const PREPARED = { prepare: true } as const

/** $1: the time, or NULL for the database's own clock; then one array for each column. */
const COMPLETE_SQL = `
  WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, redress_now()) AS now),
  closed AS (
    UPDATE jobs SET status = 'complete', worker = NULL, lease_until = NULL, finished_at = (SELECT now FROM clock),
      started_at = coalesce(jobs.started_at,
        CASE WHEN given.ran IS NOT NULL THEN greatest(jobs.claimed_at, (SELECT now FROM clock) - given.ran) END),
      result = given.result
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])
      AS given (key, attempt, worker, ran, result, data)
    WHERE ${HELD}
    RETURNING given.key, given.attempt, given.worker, given.ran, given.data, jobs.untold_claim
  ), recorded AS (
    INSERT INTO events (job, at, kind, attempt, worker, duration_ms, data, claimed_at)
    SELECT key, (SELECT now FROM clock), 'complete', attempt, worker, ran, data, untold_claim FROM closed
  )
  SELECT CASE WHEN count(*) < array_length($2::bigint[], 1) THEN coalesce(string_agg(key::text, ','), '') END FROM closed`

/**
 * The hot path: the fence is in the UPDATE itself, and no row is read first. The statement may be a transaction of its own:
 * without a given time it reads the clock itself. Returns the closed keys. The ends must be sorted by key, like the locks of
 * every transaction that locks several jobs.
 */
export async function completeAll(
  sql: Sql,
  ends: readonly AttemptEnd[],
  givenNowMs: number | null,
): Promise<ReadonlySet<JobKey>> {
  const keys = ends.map(({ key }) => key)
  const values = [
    givenNowMs,
    numbers(keys),
    numbers(ends.map(({ attempt }) => attempt)),
    numbers(ends.map(({ worker }) => worker)),
    numbers(ends.map(({ ranMs }) => ranMs)),
    texts(ends.map(({ change }) => (change.to === 'complete' ? change.result : null))),
    texts(ends.map(({ change }) => textOf(endEventOf(change).data))),
  ]
  // NULL if all were closed.
  const [[closed]] = (await sql.unsafe(COMPLETE_SQL, values, PREPARED).values()) as unknown as [[string | null]]
  return new Set(closed === null ? keys : keysIn(closed))
}

const keysIn = (list: string): JobKey[] => (list === '' ? [] : list.split(',').map(Number))

/**
 * $1: the time, or NULL for the database's own clock. $2 to $16 and $27: an array for each column. $17 to $26: the shapes of
 * what is recorded, of which many attempts have the same. $28: whether the rows were read before.
 */
const CLOSE_SQL = `
  WITH clock AS MATERIALIZED (SELECT coalesce($1::bigint, redress_now()) AS now),
  closed AS (
    UPDATE jobs SET status = given.status, worker = NULL, lease_until = NULL,
      finished_at = CASE WHEN given.status <> 'queued' THEN (SELECT now FROM clock) END,
      claimed_at = CASE WHEN given.status <> 'queued' THEN jobs.claimed_at END,
      started_at = CASE WHEN given.status <> 'queued' THEN coalesce(jobs.started_at,
        CASE WHEN given.ran IS NOT NULL THEN greatest(jobs.claimed_at, (SELECT now FROM clock) - given.ran) END) END,
      progress = CASE WHEN given.status <> 'queued' THEN jobs.progress END,
      orphaned_at = CASE WHEN given.status <> 'queued' THEN jobs.orphaned_at END,
      ready = CASE WHEN given.status = 'queued' AND given.delay IS NULL THEN 1 END,
      due_at = (SELECT now FROM clock) + given.delay,
      due_since = CASE WHEN given.status = 'queued' THEN (SELECT now FROM clock) + coalesce(given.delay, 0)
        ELSE jobs.due_since END,
      spent = CASE WHEN given.status IN ('queued', 'failed') THEN given.spent ELSE jobs.spent END,
      result = given.result,
      failure = CASE WHEN given.status = 'failed' THEN nextval('failures_seq_seq') END,
      ended_with = CASE given.status WHEN 'failed' THEN ($20::text[])[given.shape] WHEN 'cancelled' THEN '' END,
      dead_letter = CASE given.letter WHEN 'queue' THEN nextval('dead_letters_offset_seq') WHEN 'flag' THEN 0 END
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[],
        $10::text[], $11::text[], $12::int[], $13::text[], $14::text[], $15::text[], $16::text[], $27::bigint[])
      AS given (key, attempt, worker, ran, delay, status, data, spent, result, letter, shape, detail, context, causes,
        decision, tries)
    -- A request to cancel is known only in this row: if it has not been read, core has to decide first.
    WHERE ${HELD} AND ($28::boolean OR jobs.cancel_requested_at IS NULL)
    RETURNING given.*, jobs.dead_letter, jobs.due_at, jobs.untold_claim,
      coalesce(jobs.failure, CASE WHEN given.decision IS NOT NULL THEN nextval('failures_seq_seq') END) AS failure,
      CASE WHEN given.status IN ('failed', 'cancelled') THEN
        (SELECT batch FROM job_specs WHERE job_specs.key = jobs.key AND left_batch IS NULL) END AS batch
  ), failed AS (
    INSERT INTO failures (seq, job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail,
      context, causes, rule, fingerprint, from_status, to_status, decision, permanent)
    SELECT failure, key, (SELECT now FROM clock), attempt, worker, ($18::text[])[shape], ($19::text[])[shape],
      ($20::text[])[shape], ($21::text[])[shape], ($22::text[])[shape], ($23::text[])[shape], detail,
      context, causes, ($24::text[])[shape], ($25::text[])[shape], 'processing', status, decision,
      ($26::bigint[])[shape]
    FROM closed WHERE failure IS NOT NULL
  ), lettered AS (
    INSERT INTO dead_letters ("offset", job, failure, attempts, at)
    SELECT dead_letter, key, failure, tries, (SELECT now FROM clock) FROM closed WHERE letter = 'queue'
  ), recorded AS (
    -- The number of the failure and the time are known only here.
    INSERT INTO events (job, at, kind, attempt, worker, duration_ms, claimed_at, data)
    SELECT key, (SELECT now FROM clock), ($17::text[])[shape], attempt, worker, ran, untold_claim,
      CASE WHEN status = 'cancelled' OR (failure IS NULL AND due_at IS NULL) THEN data
        ELSE '{' || CASE WHEN failure IS NULL THEN '' ELSE '"failure":' || failure || ',' END
          || CASE WHEN letter = 'queue' THEN '"deadLetterOffset":' || dead_letter || ',' ELSE '' END
          || CASE WHEN due_at IS NULL THEN '' ELSE '"dueAtMs":' || due_at || ',' END
          || substr(data, 2) END
    FROM closed
  ), freed AS (
    -- Written so that the planner can use no index but that of the keys, whatever the statistics say.
    UPDATE job_specs SET dedupe_held = NULL FROM closed
    WHERE job_specs.key = closed.key AND closed.status IN (${FREES_LIVE_KEY.map((status) => `'${status}'`).join()})
      AND coalesce(dedupe_held, 0) = 1 AND dedupe_scope = 'live'
  )
  SELECT key, batch FROM closed`

/**
 * Attempts that end in any way, in one statement whatever their number: the rows, their failures and dead letters, their
 * events, and the dedupe keys they no longer hold. The statement may be a transaction of its own: without a given time it reads
 * the clock itself. It leaves out jobs with a request to cancel, unless the caller has read and locked the rows (`areRead`).
 * Answers with the keys that were closed, and with the batch of those that ended without success.
 */
export async function closeAll(
  sql: Sql,
  ends: readonly AttemptEnd[],
  givenNowMs: number | null,
  areRead = false,
): Promise<ReadonlyMap<JobKey, BatchKey | null>> {
  const rows = ends.map(rowOf)
  const { shapes, places } = shapesOf(rows)
  const each = (of: (row: EndRow) => string | null) => texts(rows.map(of))
  const failed = (of: (failure: DecidedFailure) => string | null) =>
    each(({ failure }) => (failure === null ? null : of(failure)))
  const shaped = (of: (failure: DecidedFailure) => string | null) =>
    texts(shapes.map(({ failure }) => (failure === null ? null : of(failure))))
  const values = [
    givenNowMs,
    numbers(rows.map(({ key }) => key)),
    numbers(rows.map(({ attempt }) => attempt)),
    numbers(rows.map(({ worker }) => worker)),
    numbers(rows.map(({ ranMs }) => ranMs)),
    numbers(rows.map(({ delayMs }) => delayMs)),
    each(({ status }) => status),
    each(({ data }) => data),
    each(({ spent }) => spent),
    each(({ result }) => result),
    each(({ letter }) => letter),
    numbers(places),
    failed(({ detail }) => printable(detail)),
    failed(({ context }) => unlessEmpty(context)),
    failed(({ causes }) => unlessEmpty(causes)),
    failed(({ decision }) => JSON.stringify(decision)),
    texts(shapes.map(({ kind }) => kind)),
    shaped(({ phase }) => phase),
    shaped(({ layer }) => layer),
    shaped(({ code }) => code),
    shaped(({ fault }) => fault),
    shaped(({ message }) => printable(message)),
    shaped(({ waiting }) => printable(waiting)),
    shaped(({ rule }) => printable(rule)),
    shaped(({ fingerprint }) => fingerprint),
    numbers(shapes.map(({ permanent }) => permanent)),
    numbers(rows.map(({ tries }) => tries)),
    areRead,
  ]
  return new Map((await sql.unsafe(CLOSE_SQL, values, PREPARED).values()) as unknown as [JobKey, BatchKey | null][])
}

/** The distinct shapes among the rows, and for each row the position of its shape, from 1. */
function shapesOf(rows: readonly EndRow[]): { shapes: readonly EndRow[]; places: readonly number[] } {
  const shapes: EndRow[] = []
  const placeOf = new Map<string, number>()
  let last: EndRow | null = null
  let lastPlace = 0
  const places = rows.map((row) => {
    // The usual case. Making a name is expensive.
    if (last !== null && isOfShape(last, row)) return lastPlace
    const { kind, permanent, failure: f } = row
    const parts = f === null ? [] : [f.phase, f.layer, f.code, f.fault, f.message, f.waiting, f.rule, f.fingerprint]
    const name = JSON.stringify([kind, permanent, ...parts])
    const place = placeOf.get(name) ?? shapes.push(row)
    placeOf.set(name, place)
    last = row
    lastPlace = place
    return place
  })
  return { shapes, places }
}

function isOfShape({ kind, permanent, failure: a }: EndRow, other: EndRow): boolean {
  const b = other.failure
  if (kind !== other.kind || permanent !== other.permanent || a === null || b === null) return false
  return (
    a.code === b.code &&
    a.fingerprint === b.fingerprint &&
    a.message === b.message &&
    a.waiting === b.waiting &&
    a.rule === b.rule &&
    a.phase === b.phase &&
    a.layer === b.layer &&
    a.fault === b.fault
  )
}

interface EndRow extends Held {
  worker: WorkerKey
  ranMs: number | null
  delayMs: number | null
  status: Change['to']
  kind: string
  data: string | null
  spent: string | null
  result: string | null
  letter: string | null
  /** Of a dead letter. */
  tries: number | null
  failure: DecidedFailure | null
  permanent: number | null
}

/** The columns and the event of a change. */
function rowOf({ key, attempt, worker, ranMs, change, keptFailure: failure = null }: AttemptEnd): EndRow {
  const { kind, data } = endEventOf(change)
  const event = { key, attempt, worker, ranMs, status: change.to, kind, data: textOf(data) }
  const row = {
    ...event,
    delayMs: null,
    spent: null,
    result: null,
    letter: null,
    tries: null,
    failure,
    permanent: null,
  }
  switch (change.to) {
    case 'complete':
      return { ...row, result: change.result }
    case 'cancelled':
      return row
    case 'queued':
      return {
        ...row,
        delayMs: change.delayMs > 0 ? change.delayMs : null,
        spent: change.spent,
        failure: change.failure,
      }
    case 'failed': {
      const { spent, failure: final, deadLetter, isPermanent } = change
      const letter = deadLetter === 'none' ? null : deadLetter
      const tries = letter === 'queue' ? triesOfTask(attempt, spent) : null
      return { ...row, spent, letter, tries, failure: final, permanent: Number(isPermanent) }
    }
  }
}

function unlessEmpty(value: object): string | null {
  for (const _ in value) return JSON.stringify(value)
  return null
}
