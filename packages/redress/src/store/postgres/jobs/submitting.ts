import type { BatchKey, JobKey, NewJob, Submitted } from '../../contract/store.ts'
import type { Batches } from '../../scripts/batches.ts'
import { mergeLocksOf, openSubmitSpecial } from '../../scripts/jobs/merging.ts'
import {
  isSpecial,
  isWindowOver,
  LOOKS_MAX,
  limitKeyOf,
  neverStill,
  originOf,
  type TwinRow,
} from '../../scripts/jobs/submitting.ts'
import type { KnownType } from '../../scripts/jobs/types.ts'
import { awaited, awaiting } from '../../scripts/tx/script.ts'
import type { Sql, Tx } from '../connection/client.ts'
import type { PgContext } from '../connection/context.ts'
import { isTaken } from '../connection/errors.ts'
import { lockNames } from '../connection/locks.ts'
import { numbers, printable, textOf, texts } from '../connection/values.ts'

/** A job with its type. */
interface Typed {
  job: NewJob
  type: KnownType
}

const PREPARED = { prepare: true } as const

/** $1: the time, or NULL for the database's own clock; then one array for each column. */
const GIVEN = `unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[],
    $9::bigint[], $10::text[], $11::text[]`
const GIVEN_AS = 'id, type, payload, owner, priority, delay, limit_key, forward_only, data, trace'

function columnsOf(given: readonly Typed[], nowMs: number | null): (string | number | null)[] {
  return [
    nowMs,
    texts(given.map(({ job }) => job.id)),
    numbers(given.map(({ type }) => type.key)),
    texts(given.map(({ job }) => job.payload)),
    texts(given.map(({ job }) => freeText(job.owner))),
    numbers(given.map(({ job }) => job.priority)),
    numbers(given.map(({ job }) => delayOrTime(job))),
    texts(given.map(({ job, type }) => freeText(limitKeyOf(job, type)))),
    numbers(given.map(({ type }) => Number(type.policy.forwardOnly))),
    texts(given.map(({ job }) => textOf(originOf(job)))),
    texts(given.map(({ job }) => job.trace ?? null)),
  ]
}

/** A delay as it is, a time as its negative: one column serves both, and most jobs have neither. */
const delayOrTime = ({ delayMs, runAtMs }: NewJob): number | null => {
  if (runAtMs !== undefined) return -runAtMs
  return delayMs > 0 ? delayMs : null
}

const dueAt = (now: string): string =>
  `CASE WHEN delay < 0 THEN CASE WHEN -delay > ${now} THEN -delay END ELSE ${now} + delay END AS due_at`

/** A delayed job enters the queue when it is due, and is ordered there by its creation time. */
const madeAndTold = (added: string): string => `
  made AS (
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, due_at, counts_from, due_since, limit_key,
      forward_only)
    SELECT key, type, 'queued', priority, now, CASE WHEN due_at IS NULL THEN 1 END,
      due_at, due_at, due_at, limit_key, forward_only FROM ${added}
  ), recorded AS (
    INSERT INTO events (job, at, kind, attempt, data)
    SELECT key, now, 'queued', 0, CASE WHEN due_at IS NULL THEN data
      ELSE coalesce(left(data, -1) || ',', '{') || '"dueAtMs":' || due_at || '}' END FROM ${added}
  )`

/**
 * The hot path. If any id exists already, the statement fails and adds nothing, so it need not look for existing jobs; that
 * saves a third of the work per row. $12: the version of the types. If the types have another version now, nothing is added.
 * The UPDATE of no row takes the same lock as `keepUp`, before the statement reads.
 */
const ADD_PLAIN_SQL = `
  WITH lock AS (
    UPDATE job_types SET queue = queue WHERE false
  ), moment AS MATERIALIZED (
    SELECT coalesce($1::bigint, redress_now()) AS now
    WHERE $12::bigint = (SELECT position FROM cursors WHERE name = 'types')
  ), given AS MATERIALIZED (
    SELECT nextval('job_specs_key_seq') AS key, given.*, now, ${dueAt('now')}
    FROM moment CROSS JOIN ${GIVEN}) AS given (${GIVEN_AS})
  ), specs AS (
    INSERT INTO job_specs (key, id, type, payload, owner, created_at, trace)
    SELECT key, id, type, payload, owner, now, trace FROM given
  ), ${madeAndTold('given')}
  SELECT count(*) FROM moment`

/**
 * $12: dedupe keys, $13: their scopes, $14: the batch, $15: how long the keys are held, $16: times to live. Keys are numbered in the order of the jobs, which is their order in
 * the queue. The rows are inserted in the order of their dedupe keys, so two transactions with the same keys cannot
 * deadlock. IS TRUE keeps the planner from a join: only the slowest kind is enabled.
 */
const ADD_SQL = `
  WITH given AS MATERIALIZED (
    SELECT nextval('job_specs_key_seq') AS key, given.*, $1::bigint AS now, ${dueAt('$1::bigint')}
    FROM ${GIVEN}, $12::text[], $13::text[], $15::bigint[], $16::bigint[]) WITH ORDINALITY
      AS given (${GIVEN_AS}, dedupe_key, dedupe_scope, held_for, ttl, place)
  ), specs AS (
    INSERT INTO job_specs (key, id, type, payload, owner, created_at, dedupe_key, dedupe_scope, dedupe_held, dedupe_until,
      ttl_until, batch, trace)
    SELECT key, id, type, payload, owner, now, dedupe_key, dedupe_scope,
      CASE WHEN dedupe_key IS NOT NULL THEN 1 END, now + held_for, coalesce(due_at, now) + ttl, $14::bigint, trace
    FROM given ORDER BY dedupe_key, key
    ON CONFLICT DO NOTHING RETURNING key
  ), added AS MATERIALIZED (
    SELECT * FROM given WHERE (key IN (SELECT key FROM specs)) IS TRUE
  ), ${madeAndTold('added')}
  SELECT string_agg(place::text, ',') AS places FROM added`

const newlyQueued = ({ id }: NewJob): Submitted => ({ id, isNew: true, status: 'queued' })

export type Submitting = ReturnType<typeof openSubmitting>

export function openSubmitting({ types, txOf }: PgContext, batchScripts: Batches) {
  const batches = awaited(batchScripts, txOf)
  const submitSpecial = openSubmitSpecial(batchScripts)

  /**
   * Adds the jobs that do not exist yet, in one statement, and returns their positions. DO NOTHING covers both unique keys: the
   * id (a submission repeated after an unknown commit) and the dedupe key. If another transaction has just written the same
   * key, the statement waits for its end.
   */
  const addMany = async (tx: Tx, given: readonly Typed[], batch: BatchKey | null, nowMs: number): Promise<number[]> => {
    const keys = given.map(({ job }) => freeText(job.dedupe?.key ?? null))
    const scopes = given.map(({ job }) => job.dedupe?.scope ?? null)
    const heldFor = numbers(given.map(({ job }) => job.dedupe?.forMs ?? null))
    const ttls = numbers(given.map(({ job }) => job.ttlMs ?? null))
    const values = [...columnsOf(given, nowMs), texts(keys), texts(scopes), batch, heldFor, ttls]
    const [row] = await tx.unsafe<{ places: string | null }[]>(ADD_SQL, values, PREPARED)
    const { places } = row as { places: string | null }
    return places === null ? [] : places.split(',').map((place) => Number(place) - 1)
  }

  /**
   * For each, the job with the same id or dedupe key; null if it has ended meanwhile. A dedupe key whose time is over is
   * freed, and its job is not found.
   */
  const findTwins = async (sql: Sql, given: readonly Typed[], nowMs: number): Promise<(Submitted | null)[]> => {
    const rows = await sql<(TwinRow & { place: number; key: JobKey })[]>`
      SELECT place, twin.key, twin.id, status, dedupe_until
      FROM unnest(${given.map(({ job }) => job.id)}::text[], ${given.map(({ type }) => type.key)}::bigint[],
        ${given.map(({ job }) => freeText(job.dedupe?.key ?? null))}::text[])
        WITH ORDINALITY AS given (id, type, dedupe_key, place)
      CROSS JOIN LATERAL (
        SELECT key, id, dedupe_until, 1 AS choice FROM job_specs WHERE job_specs.id = given.id
        UNION ALL
        SELECT key, id, dedupe_until, 2 FROM job_specs
        WHERE job_specs.type = given.type AND job_specs.dedupe_key = given.dedupe_key AND dedupe_held IS NOT NULL
        ORDER BY choice LIMIT 1) AS twin
      JOIN jobs ON jobs.key = twin.key`
    const isPast = (row: (typeof rows)[number]) => isWindowOver(row, (given[row.place - 1] as Typed).job, nowMs)
    const past = rows.filter(isPast).map(({ key }) => key)
    if (past.length > 0) await freePastKeys(sql, past, nowMs)
    const held = rows.filter((row) => !isPast(row))
    const found = new Map(held.map(({ place, id, status }) => [place - 1, { id, isNew: false, status }]))
    return given.map((_, i) => found.get(i) ?? null)
  }

  /** Adds each job, or finds the one with the same id or dedupe key. */
  const addOrFind = async (
    tx: Tx,
    given: readonly Typed[],
    batch: BatchKey | null,
    nowMs: number,
  ): Promise<Submitted[]> => {
    const answers: (Submitted | null)[] = given.map(() => null)
    let open = given.map((_, i) => i)
    for (let looks = 0; open.length > 0; looks++) {
      if (looks === LOOKS_MAX) throw neverStill()
      const tried = open.map((i) => given[i] as Typed)
      for (const place of await addMany(tx, tried, batch, nowMs)) {
        answers[open[place] as number] = newlyQueued((tried[place] as Typed).job)
      }
      const inTheWay = open.filter((i) => answers[i] === null)
      if (inTheWay.length === 0) break
      // A separate statement sees rows that were committed while the first one waited.
      const others = inTheWay.map((i) => given[i] as Typed)
      const twins = await findTwins(tx, others, nowMs)
      for (const [place, i] of inTheWay.entries()) answers[i] = twins[place] ?? null
      open = inTheWay.filter((i) => answers[i] === null)
    }
    return answers as Submitted[]
  }

  /** Jobs that are not special (`isSpecial`), all of one batch or all of none. */
  const submitAlike = async (tx: Tx, given: readonly Typed[], nowMs: number): Promise<Submitted[]> => {
    const batchId = given[0]?.job.batch ?? null
    const batch = batchId === null ? null : await batches.keyOf(tx, batchId)
    const submitted = await addOrFind(tx, given, batch, nowMs)
    const first = given[submitted.findIndex(({ isNew }) => isNew)]
    if (batchId !== null && first !== undefined) {
      const jobs = submitted.filter(({ isNew }) => isNew).length
      await batches.entered(tx, batchId, first.type.policy, 'queued', false, nowMs, jobs)
    }
    return submitted
  }

  const submitMany = async (tx: Tx, jobs: readonly NewJob[], nowMs: number): Promise<Submitted[]> => {
    await types.keepUp(tx)
    const typed: Typed[] = []
    for (const job of jobs) typed.push({ job, type: await types.needed(job.type, tx) })
    await lockNames(tx, mergeLocksOf(typed))
    const submitted: Submitted[] = []
    while (submitted.length < typed.length) {
      const rest = typed.slice(submitted.length)
      const [first] = rest as [Typed]
      const end = rest.findIndex(({ job }) => isSpecial(job) || job.batch !== first.job.batch)
      if (end === 0) submitted.push(await awaiting(submitSpecial(txOf(tx), first.job, first.type, nowMs)))
      else submitted.push(...(await submitAlike(tx, end === -1 ? rest : rest.slice(0, end), nowMs)))
    }
    return submitted
  }

  return {
    /** Whether one statement can submit them, as far as this process knows. */
    arePlain: (jobs: readonly NewJob[]): boolean =>
      jobs.every((job) => {
        if (isSpecial(job) || job.batch !== null || job.dedupe !== null || job.ttlMs !== undefined) return false
        return types.knownByName(job.type)?.policy.backlog.max === null
      }),

    /**
     * In one statement that is its own transaction. null if nothing was done: the types have changed, or one of the ids
     * exists already.
     */
    async submitPlain(sql: Sql, jobs: readonly NewJob[], nowMs: number | null): Promise<Submitted[] | null> {
      const given = jobs.map((job) => ({ job, type: types.knownByName(job.type) as KnownType }))
      const values = [...columnsOf(given, nowMs), types.version()]
      try {
        const [[moments]] = (await sql.unsafe(ADD_PLAIN_SQL, values, PREPARED).values()) as unknown as [[number]]
        return moments === 0 ? null : jobs.map(newlyQueued)
      } catch (error) {
        if (isTaken(error)) return null
        throw error
      }
    },

    /** All of them, in order. If it throws, the caller must undo the transaction. */
    submitMany,
  }
}

/** In the order of their keys, so that two transactions cannot deadlock. */
const freePastKeys = async (sql: Sql, keys: readonly JobKey[], nowMs: number): Promise<void> => {
  await sql`
    UPDATE job_specs SET dedupe_held = NULL WHERE key = ANY (ARRAY(
      SELECT key FROM job_specs WHERE key = ANY (${numbers(keys)}::bigint[]) AND dedupe_held IS NOT NULL
        AND dedupe_until <= ${nowMs}::bigint
      ORDER BY key FOR UPDATE))`
}

const freeText = (text: string | null): string | null => (text === null ? null : printable(text))
