import type { AuditFilter, AuditParams, AuditStore, StoredAct } from '../contract/audit.ts'
import { parse } from './jobs/rows.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { allOf, type Sql, sql } from './tx/sql.ts'

type ActRow = Omit<StoredAct, 'ids' | 'data'> & { ids: string; data: string | null }

const COLUMNS = sql`seq, at AS "atMs", actor, act, reason, target, ids, data`
const ACTS_PER_STEP = 5_000

/** The trail is kept for ever, so it may be long, and a filter may match few of its entries. */
export function openAudit({ read }: ScriptContext): AuditStore {
  const find = function* (tx: Tx, params: AuditParams): Script<StoredAct[]> {
    const rows = yield* tx.dialect.choose({ sqlite: inSteps, postgres: byIndex })(tx, params)
    return rows.map(({ ids, data, ...row }) => ({ ...row, ids: JSON.parse(ids), data: parse(data, null) }))
  }
  return { auditTrail: (params) => read('reading the audit trail', (tx) => find(tx, params), { isLong: true }) }
}

/** SQLite reads the trail from its end, part by part, and lets other requests run in between. */
function* inSteps(tx: Tx, { filter, beforeSeq, limit }: AuditParams): Script<ActRow[]> {
  const conditions = conditionsOf(filter)
  // The id with its quotes. Inside of another id they would be escaped, so only whole ids match.
  if (filter.id !== undefined) conditions.push(sql`instr(ids, ${JSON.stringify(filter.id)}) > 0`)
  const matches = allOf(conditions)
  const found: ActRow[] = []
  for (let before = beforeSeq ?? Number.MAX_SAFE_INTEGER; ; yield* tx.pause()) {
    const end = yield* tx.get<{ seq: number }>`
      SELECT seq FROM audit WHERE seq < ${before} ORDER BY seq DESC LIMIT 1 OFFSET ${ACTS_PER_STEP - 1}`
    const page = yield* tx.all<ActRow>`
      SELECT ${COLUMNS} FROM audit WHERE seq < ${before} AND seq >= ${end?.seq ?? 0} AND ${matches}
      ORDER BY seq DESC LIMIT ${limit - found.length}`
    found.push(...page)
    if (end === undefined || found.length >= limit) return found
    before = end.seq
  }
}

/** PostgreSQL has indexes for this. Each query is ordered by all columns of the index that it is meant to use. */
function* byIndex(tx: Tx, { filter, beforeSeq, limit }: AuditParams): Script<ActRow[]> {
  const before = beforeSeq ?? Number.MAX_SAFE_INTEGER
  const { id, actor, act, target } = filter
  const newestOf = (column: Sql, value: Sql, rest: AuditFilter): Sql => sql`
    SELECT ${COLUMNS} FROM audit
    WHERE (${column}, seq) < (${value}, ${before}::bigint) AND ${column} >= ${value} AND ${allOf(conditionsOf(rest))}
    ORDER BY ${column} DESC, seq DESC LIMIT ${limit}`
  if (id !== undefined) {
    // Found as a whole before they are put in order: one thing has few entries.
    return yield* tx.all<ActRow>`
      SELECT * FROM (
        SELECT ${COLUMNS} FROM audit WHERE ids_in(ids) @> ARRAY[${JSON.stringify(id)}]
          AND ${allOf(conditionsOf(filter))} OFFSET 0) AS found
      WHERE seq < ${before} ORDER BY seq DESC LIMIT ${limit}`
  }
  if (actor !== undefined) {
    return yield* tx.all<ActRow>`${newestOf(sql`actor`, sql`${actor}::text`, without(filter, 'actor'))}`
  }
  if (act !== undefined) {
    return yield* tx.all<ActRow>`
      SELECT found.* FROM unnest(${yield* actsNamed(tx, act)}::text[]) AS named (act) CROSS JOIN LATERAL (
        ${newestOf(sql`act`, sql`named.act`, without(filter, 'act'))}) AS found
      ORDER BY found.seq DESC LIMIT ${limit}`
  }
  if (target !== undefined) {
    return yield* tx.all<ActRow>`${newestOf(sql`target`, sql`${target}::text`, without(filter, 'target'))}`
  }
  return yield* tx.all<ActRow>`
    SELECT ${COLUMNS} FROM audit WHERE seq < ${before} AND ${allOf(conditionsOf(filter))}
    ORDER BY seq DESC LIMIT ${limit}`
}

/** The operations that this name matches. There are few, and the index leads from each to the next. */
function* actsNamed(tx: Tx, name: string): Script<string[]> {
  const rows = yield* tx.all<{ act: string }>`
    WITH RECURSIVE names AS (
      SELECT min(act) AS act FROM audit
      UNION ALL
      SELECT (SELECT min(audit.act) FROM audit WHERE audit.act > names.act) FROM names WHERE names.act IS NOT NULL)
    SELECT act FROM names WHERE ${isNamed(name)}`
  return rows.map(({ act }) => act)
}

const isNamed = (name: string): Sql =>
  sql`(act = ${name} OR substr(act, 1, length(CAST(${`${name}.`} AS text))) = ${`${name}.`})`

/** All but the id. */
function conditionsOf({ actor, act, target, sinceMs, untilMs }: AuditFilter): Sql[] {
  return [
    ...(actor === undefined ? [] : [sql`actor = ${actor}`]),
    ...(act === undefined ? [] : [isNamed(act)]),
    ...(target === undefined ? [] : [sql`target = ${target}`]),
    ...(sinceMs === undefined ? [] : [sql`at >= ${sinceMs}`]),
    ...(untilMs === undefined ? [] : [sql`at < ${untilMs}`]),
  ]
}

function without(filter: AuditFilter, name: keyof AuditFilter): AuditFilter {
  const { [name]: _, ...rest } = filter
  return rest
}
