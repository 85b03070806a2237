import { actOnGroup, addToGroup, type FailureGroup, stateAt } from '../../core/failure-group.ts'
import type { StoredBatch } from '../batch-rows.ts'
import {
  asOf,
  groupColumns,
  noteOf,
  subjectOf,
  toGroup,
  toGroupBatches,
  toGroupEvent,
  toGrouped,
  toGroupJob,
} from '../failure-group-rows.ts'
import type {
  FailureGroupDetail,
  FailureGroupIntervention,
  FailureGroupStore,
  FailureGroupsParams,
  Folded,
} from '../failure-groups.ts'
import type { Row } from '../rows.ts'
import type { Pool, Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { hasUncounted, takeUncounted } from './failure-cursor.ts'
import { printable } from './history.ts'

const EVENTS_MAX = 20
const ROWS_PER_LOOK = 100
/** Whoever counts failures, or changes a group, does so alone. */
export const GROUPS_ALONE = 'groups'

export function openFailureGroups({ types, history, read, write }: PgContext) {
  const find = async (sql: Sql, fingerprints: readonly string[]): Promise<Map<string, FailureGroup>> => {
    const wanted = fingerprints.map(printable)
    const rows = await sql<Row[]>`SELECT * FROM failure_groups WHERE fingerprint = ANY(${wanted}::text[])`
    return new Map(rows.map((row) => [row.fingerprint as string, toGroup(row)]))
  }

  const save = async (tx: Tx, groups: readonly FailureGroup[]): Promise<void> => {
    if (groups.length === 0) return
    await tx`
      INSERT INTO failure_groups
      SELECT * FROM json_populate_recordset(NULL::failure_groups, ${JSON.stringify(groups.map(groupColumns))}::text::json)
      ON CONFLICT (fingerprint) DO UPDATE SET type = excluded.type, code = excluded.code, fault = excluded.fault,
        message = excluded.message, first_at = excluded.first_at, last_at = excluded.last_at, count = excluded.count,
        final = excluded.final, newest = excluded.newest, fields = excluded.fields, hours = excluded.hours,
        state = excluded.state, state_at = excluded.state_at, state_by = excluded.state_by,
        state_reason = excluded.state_reason, state_seq = excluded.state_seq, snoozed_until = excluded.snoozed_until,
        snoozed_count = excluded.snoozed_count`
  }

  /** Part of the caller's transaction, and the first to write in it: the counts and what they count are one change. */
  const fold = async (tx: Tx, limit: number, nowMs: number): Promise<Folded> => {
    const rows = await takeUncounted(tx, limit)
    if (rows.length === 0) return { folded: 0, isCaughtUp: true }
    // Another process may have said since that a type is not to be counted.
    await types.refresh(tx)
    const before = await find(tx, [...new Set(rows.map(({ fingerprint }) => fingerprint as string))])
    const touched = new Map<string, FailureGroup>()
    for (const row of rows) {
      const type = row.type === null ? undefined : types.knownByKey(row.type as number)
      if (type === undefined || !type.policy.aggregates) continue
      const failure = toGrouped(row, type.name)
      const { fingerprint } = failure
      const { group, became } = addToGroup(touched.get(fingerprint) ?? before.get(fingerprint) ?? null, failure)
      touched.set(fingerprint, group)
      if (became === null) continue
      const kind = became === 'regressed' ? 'regressed' : 'reopened'
      await history.subjectEvent(tx, subjectOf(fingerprint), nowMs, kind, { failure: failure.seq })
    }
    await save(tx, [...touched.values()])
    return { folded: rows.length, isCaughtUp: rows.length < limit }
  }

  const jobsOf = async (
    sql: Pool,
    { newest }: FailureGroup,
    nowMs: number,
  ): Promise<Pick<FailureGroupDetail, 'jobs' | 'batches'>> => {
    const rows = await sql<Row[]>`
      SELECT failures.seq, job_specs.id, jobs.status, failures.attempt, failures.at,
        CASE WHEN left_batch IS NULL THEN job_specs.batch END AS batch
      FROM failures JOIN job_specs ON job_specs.key = failures.job JOIN jobs ON jobs.key = failures.job
      WHERE failures.seq = ANY(${newest.map(({ seq }) => seq)}::bigint[])`
    const bySeq = new Map(rows.map((row) => [row.seq as number, row]))
    const jobs = newest.flatMap(({ seq }) => {
      const row = bySeq.get(seq)
      return row === undefined ? [] : [toGroupJob(row, seq)]
    })
    const keys = rows.map(({ batch }) => batch as number | null)
    const known = keys.filter((key) => key !== null)
    const batches =
      known.length === 0
        ? []
        : await sql<StoredBatch[]>`SELECT * FROM batches WHERE key = ANY(${known}::bigint[]) ORDER BY key`
    return { jobs, batches: toGroupBatches(keys, batches, nowMs) }
  }

  /** A type may have been told not to be counted after it was. */
  const hiddenTypes = async (sql: Pool): Promise<string[]> => {
    await types.refresh(sql)
    return types
      .all()
      .filter(({ policy }) => !policy.aggregates)
      .map(({ name }) => name)
  }

  const list = async (
    sql: Pool,
    { filter, sort, after, limit }: FailureGroupsParams,
    nowMs: number,
  ): Promise<FailureGroup[]> => {
    const by = sql(sort === 'count' ? 'count' : 'last_at')
    const hidden = await hiddenTypes(sql)
    const text = `message || ' ' || code || ' ' || type || ' ' || fingerprint`
    const rows = sql<Row[]>`
      SELECT * FROM failure_groups WHERE type <> ALL(${hidden}::text[])
        ${filter.type === undefined ? sql`` : sql`AND type = ${printable(filter.type)}`}
        ${filter.code === undefined ? sql`` : sql`AND code = ${printable(filter.code)}`}
        ${filter.fault === undefined ? sql`` : sql`AND fault = ${filter.fault}`}
        ${filter.sinceMs === undefined ? sql`` : sql`AND last_at >= ${filter.sinceMs}`}
        ${
          filter.text === undefined
            ? sql``
            : sql`AND strpos(lower(${sql.unsafe(text)}), lower(${printable(filter.text)})) > 0`
        }
        ${after === null ? sql`` : sql`AND (${by}, fingerprint) < (${after.value}::bigint, ${printable(after.fingerprint)})`}
      ORDER BY ${by} DESC, fingerprint DESC`
    const found: FailureGroup[] = []
    // Core says what the state is: a snooze that is over has nobody who writes so. One statement, read bit by bit until
    // the page is full, sees one moment.
    for await (const some of rows.cursor(ROWS_PER_LOOK)) {
      const groups = some.map((row) => asOf(toGroup(row), nowMs))
      found.push(...groups.filter(({ state }) => filter.state === undefined || state === filter.state))
      if (found.length >= limit) break
    }
    return found.slice(0, limit)
  }

  const act = async (
    tx: Tx,
    { fingerprint, act: wanted, expect, actor, reason }: FailureGroupIntervention,
    atMs: number,
  ): Promise<'done' | 'moved-on'> => {
    const group = (await find(tx, [fingerprint])).get(fingerprint)
    if (group === undefined || stateAt(group, atMs) !== expect) return 'moved-on'
    const [newest] = await tx<{ seq: number | null }[]>`SELECT max(seq) AS seq FROM failures`
    const by = { actor: printable(actor), reason: printable(reason) }
    const changed = actOnGroup(group, wanted, { ...by, nowMs: atMs, newestSeq: newest?.seq ?? 0 })
    await save(tx, [changed])
    const { kind, act: name, until } = noteOf(wanted, changed)
    await history.subjectEvent(tx, subjectOf(fingerprint), atMs, kind, { actor, reason, ...until })
    const data = { from: expect, ...until }
    await history.audit(tx, by, { atMs, act: name, target: 'failure-group', ids: [fingerprint], data })
    return 'done'
  }

  const detail = async (sql: Pool, fingerprint: string, nowMs: number): Promise<FailureGroupDetail | null> => {
    const group = (await find(sql, [fingerprint])).get(fingerprint)
    if (group === undefined || (await hiddenTypes(sql)).includes(group.type)) return null
    const subject = subjectOf(printable(fingerprint))
    // Between, not equal: see `pageOfKeys`.
    const events = await sql<Row[]>`
      SELECT at, kind, data FROM events WHERE subject BETWEEN ${subject} AND ${subject}
      ORDER BY subject DESC, seq DESC LIMIT ${EVENTS_MAX}`
    return { group: asOf(group, nowMs), ...(await jobsOf(sql, group, nowMs)), events: events.map(toGroupEvent) }
  }

  const store: FailureGroupStore = {
    async foldFailures({ limit }) {
      // Mostly there is nothing to count, and then nobody who only looks has to wait for those who count.
      if (!(await read('looking for failures to count', hasUncounted))) return { folded: 0, isCaughtUp: true }
      return write('counting failures', (tx, nowMs) => fold(tx, limit, nowMs), GROUPS_ALONE)
    },
    failureGroups: (params) => read('listing failure groups', async (sql, nowMs) => list(sql, params, await nowMs())),
    failureGroup: ({ fingerprint }) =>
      read('reading a failure group', async (sql, nowMs) => detail(sql, fingerprint, await nowMs())),
    actOnFailureGroup: (params) =>
      write('acting on a failure group', (tx, nowMs) => act(tx, params, nowMs), GROUPS_ALONE),
  }
  return { store, fold }
}
