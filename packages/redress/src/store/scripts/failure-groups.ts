import { stateAt as batchStateAt } from '../../core/batch.ts'
import {
  actOnGroup,
  addToGroup,
  type FailureGroup,
  type GroupAct,
  type GroupedFailure,
  stateAt,
} from '../../core/failure/group.ts'
import type { Status } from '../../core/job/states.ts'
import type {
  FailureGroupBatch,
  FailureGroupDetail,
  FailureGroupEvent,
  FailureGroupStore,
  FailureGroupsParams,
  Folded,
} from '../contract/failure-groups.ts'
import { type StoredBatch, standingOf } from './batches.ts'
import { hasUncounted, takeUncounted, type UncountedFailure } from './failure-cursor.ts'
import { history } from './history.ts'
import { parse } from './jobs/rows.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { allOf, type Sql, sql } from './tx/sql.ts'

/** Transactions that count failures or change a group run one after the other. */
export const GROUPS_ALONE = 'groups'

const EVENTS_MAX = 20
const KIND_OF_ACT = { resolved: 'resolved', snoozed: 'snoozed', open: 'reopened' } as const
/** Names of operations. */
const ACT = { resolved: 'failures.resolve', snoozed: 'failures.snooze', open: 'failures.reopen' } as const

const COLUMNS = {
  fingerprint: ['fingerprint', 'text'],
  type: ['type', 'text'],
  code: ['code', 'text'],
  fault: ['fault', 'text'],
  message: ['message', 'text'],
  firstAtMs: ['first_at', 'bigint'],
  lastAtMs: ['last_at', 'bigint'],
  count: ['count', 'bigint'],
  final: ['final', 'bigint'],
  newest: ['newest', 'text'],
  fields: ['fields', 'text'],
  hours: ['hours', 'text'],
  state: ['state', 'text'],
  stateAtMs: ['state_at', 'bigint'],
  stateBy: ['state_by', 'text'],
  stateReason: ['state_reason', 'text'],
  stateSeq: ['state_seq', 'bigint'],
  snoozedUntilMs: ['snoozed_until', 'bigint'],
  snoozedCount: ['snoozed_count', 'bigint'],
} as const satisfies Record<keyof FailureGroup, readonly [string, 'text' | 'bigint']>

const entries = Object.entries(COLUMNS)
const TYPES = Object.fromEntries(entries.map(([, [column, type]]) => [column, type]))
const SELECTED = sql([entries.map(([field, [column]]) => `${column} AS "${field}"`).join(', ')])
const INSERTED = sql([entries.map(([, [column]]) => column).join(', ')])
const UPDATED = sql([entries.map(([, [column]]) => `${column} = excluded.${column}`).join(', ')])

/** Lists and objects are stored as JSON. */
type GroupRow = { [Field in keyof FailureGroup]: FailureGroup[Field] extends object ? string : FailureGroup[Field] }

const toGroup = ({ newest, fields, hours, ...row }: GroupRow): FailureGroup => ({
  ...row,
  newest: JSON.parse(newest),
  fields: JSON.parse(fields),
  hours: JSON.parse(hours),
})

const toRow = (group: FailureGroup): Record<string, string | number | null> =>
  Object.fromEntries(
    entries.map(([field, [column]]) => {
      const value = group[field as keyof FailureGroup]
      return [column, typeof value === 'object' && value !== null ? JSON.stringify(value) : (value as string | number)]
    }),
  )

/** As it is at a time: the end of a snooze is not written. */
const asOf = (group: FailureGroup, nowMs: number): FailureGroup => ({ ...group, state: stateAt(group, nowMs) })

const subjectOf = (fingerprint: string): `failures:${string}` => `failures:${fingerprint}`

function* find(tx: Tx, fingerprints: readonly string[]): Script<Map<string, FailureGroup>> {
  const rows = yield* tx.all<GroupRow>`
    SELECT ${SELECTED} FROM failure_groups WHERE fingerprint ${tx.dialect.inTexts(fingerprints)}`
  return new Map(rows.map((row) => [row.fingerprint, toGroup(row)]))
}

function* save(tx: Tx, groups: readonly FailureGroup[]): Script<void> {
  if (groups.length === 0) return
  yield* tx.run`
    INSERT INTO failure_groups (${INSERTED})
    SELECT ${INSERTED} FROM ${tx.dialect.table(TYPES, groups.map(toRow))} AS given WHERE true
    ON CONFLICT (fingerprint) DO UPDATE SET ${UPDATED}`
}

/** Counts failures and moves the cursor, in one transaction. It must be the first to write in it. */
export function* foldFailures(tx: Tx, types: ScriptContext['types'], limit: number, nowMs: number): Script<Folded> {
  const failures = yield* takeUncounted(tx, limit)
  if (failures.length === 0) return { folded: 0, isCaughtUp: true }
  // Another process may have excluded a type from the counts since.
  yield* types.refresh(tx)
  const counted = new Map(
    types.known().flatMap(({ key, name, policy }) => (policy.aggregates ? [[key, name] as const] : [])),
  )
  const groups = yield* find(tx, [...new Set(failures.map(({ fingerprint }) => fingerprint))])
  const touched = new Map<string, FailureGroup>()
  for (const row of failures) {
    const type = counted.get(row.type ?? 0)
    if (type === undefined) continue
    const { fingerprint, seq } = row
    const { group, became } = addToGroup(groups.get(fingerprint) ?? null, toFailure(row, type))
    groups.set(fingerprint, group)
    touched.set(fingerprint, group)
    if (became === null) continue
    const kind = became === 'regressed' ? 'regressed' : 'reopened'
    yield* history.subjectEvent(tx, subjectOf(fingerprint), nowMs, kind, { failure: seq })
  }
  yield* save(tx, [...touched.values()])
  return { folded: failures.length, isCaughtUp: failures.length < limit }
}

const toFailure = ({ to, context, ...row }: UncountedFailure, type: string): GroupedFailure => ({
  ...row,
  type,
  context: parse<GroupedFailure['context']>(context, {}),
  isFinal: to === 'failed',
})

export function openFailureGroups({ types, read, write }: ScriptContext): FailureGroupStore {
  /** Types that were excluded from the counts may have groups from before. */
  const hiddenTypes = function* (tx: Tx): Script<string[]> {
    yield* types.refresh(tx)
    return types.known().flatMap(({ name, policy }) => (policy.aggregates ? [] : [name]))
  }

  const list = function* (tx: Tx, { filter, sort, after, limit }: FailureGroupsParams): Script<FailureGroup[]> {
    const [nowMs, hidden] = yield* tx.together(tx.now(), hiddenTypes(tx))
    const by = sort === 'count' ? sql`count` : sql`last_at`
    const { type, code, fault, sinceMs, text, state } = filter
    const find = tx.dialect.choose({ sqlite: sql`instr`, postgres: sql`strpos` })
    const conditions: Sql[] = [
      sql`NOT type ${tx.dialect.inTexts(hidden)}`,
      ...(type === undefined ? [] : [sql`type = ${type}`]),
      ...(code === undefined ? [] : [sql`code = ${code}`]),
      ...(fault === undefined ? [] : [sql`fault = ${fault}`]),
      ...(sinceMs === undefined ? [] : [sql`last_at >= ${sinceMs}`]),
      ...(text === undefined
        ? []
        : [sql`${find}(lower(message || ' ' || code || ' ' || type || ' ' || fingerprint), lower(${text})) > 0`]),
      ...(after === null ? [] : [sql`(${by}, fingerprint) < (${after.value}, ${after.fingerprint})`]),
    ]
    const found: FailureGroup[] = []
    // Core computes the state, so the rows are read until there are enough with this state.
    const take = (row: GroupRow): boolean => {
      const group = asOf(toGroup(row), nowMs)
      if (state === undefined || group.state === state) found.push(group)
      return found.length < limit
    }
    yield* tx.each(
      take,
      sql`SELECT ${SELECTED} FROM failure_groups WHERE ${allOf(conditions)} ORDER BY ${by} DESC, fingerprint DESC`,
    )
    return found
  }

  /** The newest jobs of a group that are still kept, and their batches. */
  const jobsOf = function* (
    tx: Tx,
    { newest }: FailureGroup,
    nowMs: number,
  ): Script<Pick<FailureGroupDetail, 'jobs' | 'batches'>> {
    const rows = yield* tx.all<FailureGroupDetail['jobs'][number] & { status: Status; batch: number | null }>`
      SELECT job_specs.id, jobs.status, failures.seq AS failure, failures.attempt, failures.at AS "atMs",
        CASE WHEN left_batch IS NULL THEN job_specs.batch END AS batch
      FROM failures JOIN job_specs ON job_specs.key = failures.job JOIN jobs ON jobs.key = failures.job
      WHERE failures.seq ${tx.dialect.inNumbers(newest.map(({ seq }) => seq))}`
    const byFailure = new Map(rows.map(({ batch: _, ...job }) => [job.failure, job]))
    const batches = yield* tx.all<StoredBatch>`
      SELECT key, id, name, rollup, state, sealed, total, unfinished, complete, failed, permanent, cancelled, expires_at
      FROM batches WHERE key ${tx.dialect.inNumbers(rows.flatMap(({ batch }) => batch ?? []))}`
    const shown = batches.map((row): FailureGroupBatch => {
      const count = rows.filter(({ batch }) => batch === row.key).length
      return { id: row.id, name: row.name, state: batchStateAt(standingOf(row), nowMs), count }
    })
    return {
      jobs: newest.flatMap(({ seq }) => byFailure.get(seq) ?? []),
      batches: shown.sort((a, b) => b.count - a.count || a.id.localeCompare(b.id)),
    }
  }

  return {
    async foldFailures({ limit }) {
      // Usually there is nothing to count, and then a reader does not wait for a lock.
      if (!(await read('looking for failures to count', hasUncounted))) return { folded: 0, isCaughtUp: true }
      return write('counting failures', (tx, nowMs) => foldFailures(tx, types, limit, nowMs), { alone: GROUPS_ALONE })
    },

    failureGroups: (params) => read('listing failure groups', (tx) => list(tx, params)),

    failureGroup: ({ fingerprint }) =>
      read('reading a failure group', function* (tx) {
        const [nowMs, found, hidden] = yield* tx.together(tx.now(), find(tx, [fingerprint]), hiddenTypes(tx))
        const [group] = found.values()
        if (group === undefined || hidden.includes(group.type)) return null
        const subject = subjectOf(fingerprint)
        // With an equality, PostgreSQL would not take the order from the index.
        const events = yield* tx.all<{ atMs: number; kind: FailureGroupEvent['kind']; data: string | null }>`
          SELECT at AS "atMs", kind, data FROM events WHERE subject BETWEEN ${subject} AND ${subject}
          ORDER BY subject DESC, seq DESC LIMIT ${EVENTS_MAX}`
        return {
          group: asOf(group, nowMs),
          ...(yield* jobsOf(tx, group, nowMs)),
          events: events.map(({ data, ...event }) => ({ ...event, data: parse<FailureGroupEvent['data']>(data, {}) })),
        }
      }),

    actOnFailureGroup: ({ fingerprint, act, expect, actor, reason }) =>
      write(
        'acting on a failure group',
        function* (tx, atMs) {
          const [group] = (yield* find(tx, [fingerprint])).values()
          if (group === undefined || stateAt(group, atMs) !== expect) return 'moved-on'
          const newest = yield* tx.get<{ seq: number | null }>`SELECT max(seq) AS seq FROM failures`
          const changed = actOnGroup(group, act, { actor, reason, nowMs: atMs, newestSeq: newest?.seq ?? 0 })
          yield* save(tx, [changed])
          const until = untilOf(act, changed)
          const data = { actor, reason, ...until }
          yield* history.subjectEvent(tx, subjectOf(fingerprint), atMs, KIND_OF_ACT[act.to], data)
          const entry = { atMs, act: ACT[act.to], target: 'failure-group', ids: [fingerprint] }
          yield* history.audit(tx, { actor, reason }, { ...entry, data: { from: expect, ...until } })
          return 'done'
        },
        { alone: GROUPS_ALONE },
      ),
  }
}

/** When a snooze ends, for the event and the audit trail. */
const untilOf = (act: GroupAct, { snoozedUntilMs }: FailureGroup) => ({
  ...(snoozedUntilMs !== null && { untilMs: snoozedUntilMs }),
  ...(act.to === 'snoozed' && act.more !== null && { more: act.more }),
})
