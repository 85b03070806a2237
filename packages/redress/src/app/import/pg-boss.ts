import { RedressError } from '../../core/errors.ts'
import { openPostgresRows, type PostgresQuery, type PostgresRows } from '../../store/index.ts'
import { FROM_OPTION, shownAddress, withoutPeriod, withValidAddress } from './address.ts'
import {
  JOBS_PER_CHUNK,
  type LeftJobs,
  parsedJson,
  type Source,
  type SourceJob,
  type SourceSchedule,
} from './source.ts'

export interface PgBossOptions {
  url: string
  schema: string
  /** All queues when left out. */
  queues: readonly string[] | null
}

/** The first version of the tables of pg-boss 10. Before it, a job had no policy and no queue of its own. */
const VERSION_MIN = 21

/** Queues with one of these policies keep jobs with the same key apart by not taking the second one. */
const UNIQUE_POLICIES = ['short', 'stately', 'exclusive']

/** As `state` is shown and chosen. A job that must wait for its time is `delayed`. */
const STATE = `CASE WHEN state::text = 'created' AND start_after > now() THEN 'delayed'
  WHEN state::text = 'created' THEN 'waiting' ELSE state::text END`

interface Row {
  id: string
  name: string
  state: string
  data: string | null
  priority: number
  start_after: number
  created_on: number
  completed_on: number | null
  retry_count: number
  singleton_key: string | null
  is_throttled: boolean
  policy: string | null
  output: string | null
  is_blocked: boolean
}

/** The tables of pg-boss 10 to 12 on PostgreSQL. Everything is read in one read-only transaction. */
export async function openPgBoss({ url, schema, queues }: PgBossOptions): Promise<Source> {
  const place = shownAddress(url)
  const rows = await withValidAddress(FROM_OPTION, url, () => openPostgresRows({ url, schema }))
  const inSchema = `"${schema.replaceAll('"', '""')}"`
  const ask: PostgresQuery = async (text, params) => {
    try {
      return await rows.ask(text, params)
    } catch (error) {
      throw unreadable(place, error)
    }
  }
  const named = async <T>(text: string, params: readonly string[] = []): Promise<T[]> =>
    (await ask(text, params)).rows as T[]

  const opened = async (): Promise<{ known: string[]; tables: Set<string>; hasBlocked: boolean }> => {
    const tables = new Set(
      (
        await named<{ name: string }>(
          // Also those that the user may not read: information_schema leaves them out.
          'SELECT tablename AS name FROM pg_catalog.pg_tables WHERE schemaname = $1',
          [schema],
        )
      ).map(({ name }) => name),
    )
    if (!tables.has('job') || !tables.has('version')) {
      throw new RedressError(
        'OPTION_INVALID',
        `There are no tables of pg-boss in the schema "${schema}" of ${place}.`,
        {
          action: 'Check --from and --schema.',
        },
      )
    }
    const [version] = await named<{ version: number }>(`SELECT version::int AS version FROM ${inSchema}.version`)
    if (version === undefined || version.version < VERSION_MIN) {
      const found = version === undefined ? 'no version' : `version ${version.version}`
      throw new RedressError(
        'OPTION_INVALID',
        `The tables of pg-boss have ${found}; at least ${VERSION_MIN} is needed.`,
        {
          action: 'Upgrade pg-boss to 10 or newer first.',
        },
      )
    }
    const known = await named<{ name: string }>(
      `SELECT name FROM ${inSchema}.queue WHERE name NOT LIKE '\\_\\_pgboss\\_\\_%' ORDER BY name`,
    )
    const columns = await named<{ name: string }>(
      `SELECT column_name AS name FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'job'`,
      [schema],
    )
    return { known: known.map(({ name }) => name), tables, hasBlocked: columns.some(({ name }) => name === 'blocked') }
  }
  const { known, tables, hasBlocked } = await opened().catch(async (error: unknown) => {
    await rows.close()
    throw error
  })
  const missing = queues?.find((queue) => !known.includes(queue))
  if (missing !== undefined) {
    await rows.close()
    throw new RedressError('OPTION_INVALID', `There is no pg-boss queue "${missing}" in the schema "${schema}".`, {
      action: known.length === 0 ? 'Check --from and --schema.' : `The queues are: ${known.join(', ')}.`,
    })
  }
  const chosen = JSON.stringify(queues ?? known)
  // pg-boss 10 moves old jobs to another table.
  const from = (states: string): string => {
    const one = (table: string, blocked: string): string => `
      SELECT id, name, ${STATE} AS state, data::text AS data, priority::int AS priority,
        (extract(epoch FROM start_after) * 1000)::float8 AS start_after,
        (extract(epoch FROM created_on) * 1000)::float8 AS created_on,
        (extract(epoch FROM completed_on) * 1000)::float8 AS completed_on, retry_count::int AS retry_count,
        singleton_key, singleton_on IS NOT NULL AS is_throttled, policy, output::text AS output, ${blocked} AS is_blocked
      FROM ${inSchema}.${table} WHERE name IN (SELECT jsonb_array_elements_text($1::text::jsonb)) AND ${STATE} IN ${states}`
    const job = one('job', hasBlocked ? 'blocked' : 'false')
    return tables.has('archive') ? `${job} UNION ALL ${one('archive', 'false')}` : job
  }

  return {
    system: 'pg-boss',
    place,

    async workers() {
      return null
    },

    async *jobs(states) {
      const list = `(${states.map((state) => `'${state.replaceAll("'", "''")}'`).join(', ')})`
      const query = `${from(list)} ORDER BY name, priority DESC, created_on, id`
      yield* read({ rows, place }, query, chosen)
    },

    async left(states) {
      const left: LeftJobs[] = []
      const counted = await named<{ queue: string; state: string; count: number }>(
        `SELECT name AS queue, ${STATE} AS state, count(*)::int AS count FROM ${inSchema}.job
         WHERE name IN (SELECT jsonb_array_elements_text($1::text::jsonb)) GROUP BY 1, 2 ORDER BY 1, 2`,
        [chosen],
      )
      for (const one of counted) {
        if (!states.includes(one.state)) left.push({ ...one, ...leftBecause(one.state) })
      }
      return left
    },

    async schedules() {
      const hasKind = (
        await named(
          `SELECT 1 FROM information_schema.columns
           WHERE table_schema = $1 AND table_name = 'schedule' AND column_name = 'kind'`,
          [schema],
        )
      ).length
      const found = await named<{ queue: string; cron: string; timezone: string | null; data: string; kind: string }>(
        `SELECT name AS queue, cron, timezone, data::text AS data, ${hasKind ? 'kind' : `'cron'`} AS kind
         FROM ${inSchema}.schedule WHERE name IN (SELECT jsonb_array_elements_text($1::text::jsonb)) ORDER BY name, cron`,
        [chosen],
      )
      return found.map(toSchedule)
    },

    partsOf: ({ queue, id, createdAtMs }) => [schema, queue, id, createdAtMs],

    stop: () => rows.close(),
  }
}

/** The rows report errors as if they were of a store. Here they are of the source, which --from names. */
function unreadable(place: string, error: unknown): unknown {
  const cause = error instanceof RedressError ? error.cause : error
  if (!(cause instanceof Error)) return error
  const code = String((cause as { code?: unknown }).code ?? '')
  const why = withoutPeriod(cause.message) || code
  const refusal = (problem: string, action: string) =>
    new RedressError('OPTION_INVALID', `PostgreSQL at ${place} ${problem}: ${why}.`, { cause, action })
  switch (code) {
    case '28P01':
    case '28000':
      return refusal('refuses the login', 'Check the user and the password in --from.')
    case '3D000':
      return refusal('has no such database', 'Check the name of the database in --from.')
    case '42501':
      return refusal(
        'does not let this user read the tables of pg-boss',
        'Grant the user USAGE on the schema and SELECT on its tables, or use another user in --from.',
      )
  }
  return new RedressError('SERVER_UNREACHABLE', `PostgreSQL at ${place} cannot be read: ${why}.`, {
    cause,
    action: 'Check --from, and that the server runs.',
  })
}

/** Reads with a cursor, so that the jobs are of one moment and at most one chunk is in memory. */
async function* read(
  { rows, place }: { rows: PostgresRows; place: string },
  query: string,
  chosen: string,
): AsyncGenerator<SourceJob[]> {
  const chunks: SourceJob[][] = []
  let wake = (): void => undefined
  let take = (): void => undefined
  let isOver = false
  let trouble: unknown = null
  let isBegun = false
  const reading = rows
    .transaction(async (ask) => {
      // The connection broke. A second reading would count the jobs of the first one again.
      if (isBegun) {
        throw new RedressError(
          'STORE_UNREACHABLE',
          'The connection to the database of pg-boss broke during the import.',
          {
            action: 'Run the import again: it imports only what is missing.',
          },
        )
      }
      isBegun = true
      await ask('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY')
      await ask(`DECLARE waiting NO SCROLL CURSOR FOR ${query.replaceAll('$1', `'${chosen.replaceAll("'", "''")}'`)}`)
      for (;;) {
        const { rows: found } = await ask(`FETCH ${JOBS_PER_CHUNK} FROM waiting`)
        if (found.length === 0 || isOver) return
        chunks.push((found as Row[]).map(toJob))
        wake()
        // One chunk ahead of the one that is being stored.
        if (chunks.length > 1) {
          await new Promise<void>((resolve) => {
            take = resolve
          })
        }
      }
    })
    .catch((error: unknown) => {
      trouble = unreadable(place, error)
    })
    .finally(() => {
      isOver = true
      wake()
    })
  try {
    for (;;) {
      const chunk = chunks.shift()
      take()
      if (chunk !== undefined) yield chunk
      else if (isOver) break
      else {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    }
  } finally {
    isOver = true
    take()
    await reading
  }
  if (trouble !== null) throw trouble
}

function leftBecause(state: string): { why: string; isExpected: boolean } {
  switch (state) {
    case 'active':
      return { why: 'a worker runs them', isExpected: false }
    case 'completed':
      return { why: 'their work is done', isExpected: true }
    case 'cancelled':
      return { why: 'they were cancelled', isExpected: true }
    default:
      return { why: 'the state is not in --include', isExpected: true }
  }
}

function toJob(row: Row): SourceJob {
  const { id, name, state, priority, policy, singleton_key: key } = row
  const isFailed = state === 'failed'
  const isUnique = key !== null && (row.is_throttled || (policy !== null && UNIQUE_POLICIES.includes(policy)))
  return {
    queue: name,
    name: null,
    id,
    state,
    input: parsedJson(row.data),
    priority,
    dueAtMs: isFailed || row.start_after <= row.created_on ? null : row.start_after,
    dedupeKey: isUnique ? key : null,
    createdAtMs: row.created_on,
    // The first attempt is not counted as a retry.
    attemptsMade: isFailed ? row.retry_count + 1 : row.retry_count,
    failure: isFailed ? { error: errorOf(row.output), atMs: row.completed_on } : null,
    left: row.is_blocked ? { why: 'it waits for other jobs', isExpected: false } : null,
    note: null,
  }
}

/** pg-boss keeps an error as an object, and anything else that a handler rejected with as `value`. */
function errorOf(output: string | null): string {
  const kept = parsedJson(output) as { name?: unknown; message?: unknown; stack?: unknown } | null
  if (kept === null || typeof kept !== 'object') return output ?? 'no reason was kept'
  if (typeof kept.stack === 'string') return kept.stack
  if (typeof kept.message !== 'string') return JSON.stringify(kept)
  return typeof kept.name === 'string' ? `${kept.name}: ${kept.message}` : kept.message
}

function toSchedule(row: {
  queue: string
  cron: string
  timezone: string | null
  data: string | null
  kind: string
}): SourceSchedule {
  const isRule = row.kind !== 'cron'
  return {
    queue: row.queue,
    name: row.queue,
    cron: isRule ? null : row.cron,
    everyMs: null,
    timezone: row.timezone,
    input: parsedJson(row.data) ?? null,
    note: isRule ? `${row.kind}: ${row.cron}` : null,
  }
}
