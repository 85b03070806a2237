import postgres from 'postgres'
import { FAILED_ONCE, FLOOR_TYPE, type Floor, makeTables, newId, perSecond } from './floor.ts'

/** Two connections: the next jobs are claimed on one while the outcomes of the last ones settle on the other. */
export async function openPostgresFloor(url: string): Promise<Floor> {
  await makeTables(url)
  const [claiming, settling] = [connect(url), connect(url)]
  const [row] = await settling`SELECT key FROM job_types WHERE name = ${FLOOR_TYPE}`
  await claiming`SELECT 1`
  const type = Number(row?.key)
  let settled = Promise.resolve(0)
  return {
    submit: (jobs, batch) => submitAll(settling, type, jobs, batch),
    drain: (jobs, { batch, failsOnce }) => drainAll(claiming, settling, type, jobs, batch, failsOnce),
    async pickUp() {
      const beganMs = performance.now()
      await submitAll(settling, type, 1, 1)
      const ackMs = performance.now() - beganMs
      const held = await claimSome(settling, type, 1)
      const pickUpMs = performance.now() - beganMs
      // Settled while the next one is submitted, as it would be.
      await settled
      settled = settle(claiming, held, false)
      return { pickUpMs, ackMs }
    },
    async close() {
      await settled
      await Promise.all([claiming.end(), settling.end()])
    },
  }
}

/** The planner knows nothing yet of tables that were just made: as Redress does, it is told to use their indexes. */
function connect(url: string) {
  return postgres(url, {
    max: 1,
    onnotice: () => undefined,
    connection: {
      search_path: 'redress',
      enable_hashjoin: 'off',
      enable_mergejoin: 'off',
      enable_seqscan: 'off',
      enable_bitmapscan: 'off',
      jit: 'off',
      plan_cache_mode: 'force_generic_plan',
    } as Record<string, string>,
    types: { bigint: { to: 20, from: [20], parse: Number, serialize: String } },
  })
}
type Connection = ReturnType<typeof connect>

const PREPARED = { prepare: true } as const
const arrayOf = (values: readonly number[]): string => `{${values.join()}}`

// $1: type, $2: now, $3: ids, $4: payloads
const SUBMIT = `
  WITH given AS MATERIALIZED (
    SELECT nextval('job_specs_key_seq') AS key, id, payload FROM unnest($3::text[], $4::text[]) AS given (id, payload)
  ), specs AS (
    INSERT INTO job_specs (key, id, type, payload, created_at) SELECT key, id, $1::bigint, payload, $2::bigint FROM given
  ), made AS (
    INSERT INTO jobs (key, type, status, priority, queued_at, ready, forward_only)
    SELECT key, $1::bigint, 'queued', 0, $2::bigint, 1, 0 FROM given
  )
  INSERT INTO events (job, at, kind, attempt) SELECT key, $2::bigint, 'queued', 0 FROM given`

// $1: type, $2: now, $3: at most so many
const CLAIM = `
  WITH leased AS (
    UPDATE jobs SET status = 'processing', ready = NULL, due_at = NULL, attempt = attempt + 1, worker = 1,
      lease_until = $2::bigint + 30000, claimed_at = $2::bigint, untold_claim = $2::bigint
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM jobs WHERE ready IS NOT NULL AND type = $1::bigint
      ORDER BY priority DESC, queued_at, key LIMIT $3::bigint FOR UPDATE SKIP LOCKED))
    RETURNING key, attempt
  )
  SELECT leased.key, attempt, id, payload FROM leased JOIN job_specs ON job_specs.key = leased.key`

const HELD = `jobs.key = given.key AND jobs.attempt = given.attempt AND jobs.status = 'processing'`

// $1: now, $2: keys, $3: attempts
const COMPLETE = `
  WITH closed AS (
    UPDATE jobs SET status = 'complete', worker = NULL, lease_until = NULL, finished_at = $1::bigint, started_at = $1::bigint
    FROM unnest($2::bigint[], $3::bigint[]) AS given (key, attempt) WHERE ${HELD}
    RETURNING given.key, given.attempt, jobs.untold_claim
  )
  INSERT INTO events (job, at, kind, attempt, worker, duration_ms, claimed_at)
  SELECT key, $1::bigint, 'complete', attempt, 1, 0, untold_claim FROM closed`

// $1: now, $2: keys, $3: attempts, $4: spent, $5: detail, $6: decision
const REQUEUE = `
  WITH closed AS (
    UPDATE jobs SET status = 'queued', worker = NULL, lease_until = NULL, claimed_at = NULL, ready = 1, spent = $4::text
    FROM unnest($2::bigint[], $3::bigint[]) AS given (key, attempt) WHERE ${HELD}
    RETURNING given.key, given.attempt, jobs.untold_claim, nextval('failures_seq_seq') AS failure
  ), failed AS (
    INSERT INTO failures (seq, job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail, rule,
      fingerprint, from_status, to_status, decision)
    SELECT failure, key, $1::bigint, attempt, 1, 'execution', 'worker', 'BOOM', 'dependency', 'It went wrong.',
      'It went wrong.', $5::text, 'declared by the handler', '1:0123456789abcdef', 'processing', 'queued', $6::text
    FROM closed
  )
  INSERT INTO events (job, at, kind, attempt, worker, duration_ms, claimed_at, data)
  SELECT key, $1::bigint, 'retry', attempt, 1, 0, untold_claim, '{"failure":' || failure || ',"spent":' || to_json($4::text) || ',"code":"BOOM"}'
  FROM closed`

async function submitAll(sql: Connection, type: number, jobs: number, batch: number): Promise<number> {
  const beganMs = performance.now()
  for (let n = 0; n < jobs; n += batch) {
    const size = Math.min(batch, jobs - n)
    const ids = Array.from({ length: size }, newId)
    const payloads = ids.map((_, i) => `"{\\"n\\":${n + i}}"`)
    await sql.unsafe(SUBMIT, [type, Date.now(), `{${ids.join()}}`, `{${payloads.join()}}`], PREPARED)
  }
  return perSecond(jobs, beganMs)
}

type Claimed = [key: number, attempt: number, id: string, payload: string]

async function claimSome(sql: Connection, type: number, max: number): Promise<Claimed[]> {
  return (await sql.unsafe(CLAIM, [type, Date.now(), max], PREPARED).values()) as unknown as Claimed[]
}

/** Answers with how many are complete. */
async function settle(sql: Connection, held: readonly Claimed[], failsOnce: boolean): Promise<number> {
  const { spent, detail, decision } = FAILED_ONCE
  const isOver = ([, attempt]: Claimed): boolean => !failsOnce || attempt > 1
  const sorted = held.toSorted((a, b) => a[0] - b[0])
  const [over, failed] = [sorted.filter(isOver), sorted.filter((one) => !isOver(one))]
  const given = (of: readonly Claimed[]) => [Date.now(), arrayOf(of.map(([k]) => k)), arrayOf(of.map(([, n]) => n))]
  await Promise.all([
    over.length > 0 && sql.unsafe(COMPLETE, given(over), PREPARED),
    failed.length > 0 && sql.unsafe(REQUEUE, [...given(failed), spent, detail, decision], PREPARED),
  ])
  return over.length
}

async function drainAll(
  claiming: Connection,
  settling: Connection,
  type: number,
  jobs: number,
  batch: number,
  failsOnce: boolean,
): Promise<number> {
  const claim = () => claimSome(claiming, type, batch)
  let done = 0
  const beganMs = performance.now()
  let held = await claim()
  while (done < jobs) {
    const [next, completed] = await Promise.all([claim(), settle(settling, held, failsOnce)])
    held = next
    done += completed
  }
  return perSecond(jobs, beganMs)
}
