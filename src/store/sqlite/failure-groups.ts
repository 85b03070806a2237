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
  FailureGroupEvent,
  FailureGroupIntervention,
  FailureGroupStore,
  FailureGroupsParams,
  Folded,
} from '../failure-groups.ts'
import type { Row } from '../rows.ts'
import type { SqliteContext } from './context.ts'

const CURSOR = 'failure_groups'
const EVENTS_MAX = 20

export function openFailureGroups({ connection, types, history, nowMs, read, write }: SqliteContext) {
  const position = connection.prepare(`SELECT position FROM cursors WHERE name = '${CURSOR}'`)
  const moveOn = connection.prepare(`
    INSERT INTO cursors (name, position) VALUES ('${CURSOR}', ?1) ON CONFLICT (name) DO UPDATE SET position = ?1`)
  const newestSeq = connection.prepare('SELECT max(seq) AS seq FROM failures')
  const uncounted = connection.prepare(`
    SELECT seq, job, at, code, fault, message, context, fingerprint, to_status, job_specs.type AS type
    FROM failures LEFT JOIN job_specs ON job_specs.key = failures.job WHERE seq > ? ORDER BY seq LIMIT ?`)
  const select = connection.prepare('SELECT * FROM failure_groups WHERE fingerprint = ?')
  const put = connection.prepare(`
    INSERT OR REPLACE INTO failure_groups (fingerprint, type, code, fault, message, first_at, last_at, count, final,
      newest, fields, hours, state, state_at, state_by, state_reason, state_seq, snoozed_until, snoozed_count)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const jobOfFailure = connection.prepare(`
    SELECT job_specs.id, jobs.status, failures.attempt, failures.at,
      CASE WHEN left_batch IS NULL THEN job_specs.batch END AS batch
    FROM failures JOIN job_specs ON job_specs.key = failures.job JOIN jobs ON jobs.key = failures.job
    WHERE failures.seq = ?`)
  const batchOfKey = connection.prepare('SELECT * FROM batches WHERE key = ?')
  const events = connection.prepare('SELECT at, kind, data FROM events WHERE subject = ? ORDER BY seq DESC LIMIT ?')

  const countedUpTo = (): number => (position.get() as { position: number } | undefined)?.position ?? 0
  const newest = (): number => (newestSeq.get() as { seq: number | null }).seq ?? 0

  const find = (fingerprint: string): FailureGroup | null => {
    const row = select.get(fingerprint) as Row | undefined
    return row === undefined ? null : toGroup(row)
  }

  const save = (group: FailureGroup): void => void put.run(...Object.values(groupColumns(group)))

  /** Part of the caller's transaction: the counts and the place up to which they count are one change. */
  const fold = (limit: number): Folded => {
    const rows = uncounted.all(countedUpTo(), limit) as Row[]
    const touched = new Map<string, FailureGroup>()
    // Another process may have said since that a type is not to be counted.
    if (rows.length > 0) types.refresh()
    for (const row of rows) {
      const type = row.type === null ? undefined : types.byKey(row.type as number)
      if (type === undefined || !type.policy.aggregates) continue
      const failure = toGrouped(row, type.name)
      const { fingerprint } = failure
      const { group, became } = addToGroup(touched.get(fingerprint) ?? find(fingerprint), failure)
      touched.set(fingerprint, group)
      if (became === null) continue
      const kind: FailureGroupEvent['kind'] = became === 'regressed' ? 'regressed' : 'reopened'
      history.subjectEvent(subjectOf(fingerprint), nowMs(), kind, { failure: failure.seq })
    }
    for (const group of touched.values()) save(group)
    const last = rows.at(-1)
    if (last !== undefined) moveOn.run(last.seq as number)
    return { folded: rows.length, isCaughtUp: rows.length < limit }
  }

  const jobsOf = ({ newest: samples }: FailureGroup, atMs: number): Pick<FailureGroupDetail, 'jobs' | 'batches'> => {
    const found = samples.flatMap(({ seq }) => {
      const row = jobOfFailure.get(seq) as Row | undefined
      return row === undefined ? [] : [{ seq, row, batch: row.batch as number | null }]
    })
    const keys = [...new Set(found.map(({ batch }) => batch))]
    const batches = keys.flatMap((key) => (key === null ? [] : (batchOfKey.all(key) as unknown as StoredBatch[])))
    return {
      jobs: found.map(({ seq, row }) => toGroupJob(row, seq)),
      batches: toGroupBatches(
        found.map(({ batch }) => batch),
        batches,
        atMs,
      ),
    }
  }

  /** A type may have been told not to be counted after it was. */
  const hiddenTypes = (): string[] =>
    types
      .all()
      .filter(({ policy }) => !policy.aggregates)
      .map(({ name }) => name)

  const list = ({ filter, sort, after, limit }: FailureGroupsParams): FailureGroup[] => {
    const where: string[] = []
    const values: (string | number)[] = []
    const and = (sql: string, ...bound: (string | number)[]) => {
      where.push(sql)
      values.push(...bound)
    }
    const by = sort === 'count' ? 'count' : 'last_at'
    const hidden = hiddenTypes()
    if (hidden.length > 0) and(`type NOT IN (${hidden.map(() => '?').join(', ')})`, ...hidden)
    if (filter.type !== undefined) and('type = ?', filter.type)
    if (filter.code !== undefined) and('code = ?', filter.code)
    if (filter.fault !== undefined) and('fault = ?', filter.fault)
    if (filter.sinceMs !== undefined) and('last_at >= ?', filter.sinceMs)
    if (filter.text !== undefined) {
      and(`instr(lower(message || ' ' || code || ' ' || type || ' ' || fingerprint), lower(?)) > 0`, filter.text)
    }
    if (after !== null) and(`(${by}, fingerprint) < (?, ?)`, after.value, after.fingerprint)
    const sql = `SELECT * FROM failure_groups ${where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`}
      ORDER BY ${by} DESC, fingerprint DESC`
    const found: FailureGroup[] = []
    const atMs = nowMs()
    // Core says what the state is: a snooze that is over has nobody who writes so.
    for (const row of connection.prepare(sql).iterate(...values)) {
      const group = asOf(toGroup(row as Row), atMs)
      if (filter.state !== undefined && group.state !== filter.state) continue
      if (found.push(group) === limit) break
    }
    return found
  }

  const act = ({ fingerprint, act: wanted, expect, actor, reason }: FailureGroupIntervention): 'done' | 'moved-on' => {
    const group = find(fingerprint)
    const atMs = nowMs()
    if (group === null || stateAt(group, atMs) !== expect) return 'moved-on'
    const changed = actOnGroup(group, wanted, { actor, reason, nowMs: atMs, newestSeq: newest() })
    save(changed)
    const { kind, act: name, until } = noteOf(wanted, changed)
    const data: FailureGroupEvent['data'] = { actor, reason, ...until }
    history.subjectEvent(subjectOf(fingerprint), atMs, kind, data)
    history.audit(
      { actor, reason },
      { atMs, act: name, target: 'failure-group', ids: [fingerprint], data: { from: expect, ...until } },
    )
    return 'done'
  }

  const detail = (fingerprint: string): FailureGroupDetail | null => {
    const group = find(fingerprint)
    if (group === null || hiddenTypes().includes(group.type)) return null
    const happened = (events.all(subjectOf(fingerprint), EVENTS_MAX) as Row[]).map(toGroupEvent)
    const atMs = nowMs()
    return { group: asOf(group, atMs), ...jobsOf(group, atMs), events: happened }
  }

  const store: FailureGroupStore = {
    async foldFailures({ limit }) {
      // Mostly there is nothing to count, and then nobody who only looks has to wait for those who write.
      const isCaughtUp = await read('looking for failures to count', () => countedUpTo() >= newest())
      return isCaughtUp ? { folded: 0, isCaughtUp } : write('counting failures', () => fold(limit))
    },
    failureGroups: (params) => read('listing failure groups', () => list(params)),
    failureGroup: ({ fingerprint }) => read('reading a failure group', () => detail(fingerprint)),
    actOnFailureGroup: (params) => write('acting on a failure group', () => act(params)),
  }
  return { store, fold }
}
