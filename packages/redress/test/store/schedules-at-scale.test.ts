import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { openWithConnection } from '../../../../test/support/stores/sqlite.ts'
import { App } from '../../src/app/app.ts'
import { policy } from '../../src/core/policy/policy.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openPool } from '../../src/store/postgres/connection/client.ts'
import { openTxOf } from '../../src/store/postgres/connection/tx.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'
import { dueSql } from '../../src/store/scripts/schedules.ts'
import { openTx } from '../../src/store/sqlite/connection/tx.ts'

const MANY = 10_000
const NOW_MS = Date.UTC(2026, 0, 1)
const DUE_MS = NOW_MS - 1_000
const LATER_MS = NOW_MS + 3_600_000

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

/** Runtime schedules of every hour: the first ones are due, the others are not. */
const insert = (due: number, numbers: string): string => `
  INSERT INTO schedules (name, origin, revision, type, payload, cron, every_ms, timezone, missed, priority, timed_at,
    next_at, declared_at, seen_at)
  SELECT 'report:customer-' || i, 'runtime', 1, 'plain', '{}', '', 3600000, 'UTC', 'once', 0, ${DUE_MS - 3_600_000},
    CASE WHEN i <= ${due} THEN ${DUE_MS} ELSE ${LATER_MS} END, 0, 0
  FROM ${numbers}`

interface Scene {
  store: Store
  clock: VirtualClock
  /** How many rows and index entries of schedules a look reads. */
  readOfLook(declared: readonly string[]): Promise<number>
}

async function onSqlite(due: number): Promise<Scene> {
  const clock = new VirtualClock(NOW_MS)
  const { database, store } = openWithConnection({ path: ':memory:', nowMs: () => clock.nowMs() })
  onTestFinished(() => store.stop())
  await store.register({ types: [{ name: 'plain', queue: 'default', policy: policy({}) }] })
  database.exec(
    insert(due, `(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${MANY}) SELECT i FROM n)`),
  )
  database.exec('ANALYZE')
  const { dialect } = openTx({ database, prepare: database.prepare.bind(database) }, { nowMs: () => NOW_MS })
  return {
    store,
    clock,
    async readOfLook(declared) {
      const look = dueSql(dialect, { declared, limit: 100, nowMs: NOW_MS })
      const plan = database.prepare(`EXPLAIN QUERY PLAN ${look.text}`).all() as { detail: string }[]
      const reads = plan.map(({ detail }) => detail).filter((detail) => /schedules/.test(detail))
      // A range of an index ends with the last row that is answered with. Declared ones may be looked up by their names.
      const BOUNDED =
        /SEARCH schedules USING INDEX (schedules_due \(origin=\? AND <expr>[<>]\?\)|schedules_planned \(planned_at>\?\))/
      const BY_NAME = /SEARCH schedules USING INDEX sqlite_autoindex_schedules_1 \(name=\?\)/
      const isBounded = (detail: string) => BOUNDED.test(detail) || (declared.length > 0 && BY_NAME.test(detail))
      expect(reads.filter((detail) => !isBounded(detail))).toEqual([])
      if (declared.length === 0) expect(plan.some(({ detail }) => /TEMP B-TREE/.test(detail))).toBe(false)
      return (database.prepare(look.text).all(...(look.values as string[])) as object[]).length
    },
  }
}

async function onPostgres(due: number, schema: string): Promise<Scene> {
  const clock = new VirtualClock(NOW_MS)
  const store = await openPostgres({ url: server.url, schema, nowMs: () => clock.nowMs() })
  const sql = openPool({ url: server.url, schema, connectionsMax: 1 })
  onTestFinished(async () => {
    await sql.end()
    await store.stop()
  })
  await store.register({ types: [{ name: 'plain', queue: 'default', policy: policy({}) }] })
  await sql.unsafe(insert(due, `generate_series(1, ${MANY}) AS i`))
  await sql.unsafe('ANALYZE schedules')
  const txOf = openTxOf({ now: async () => NOW_MS, givenNowMs: () => NOW_MS, wakeWorkers: () => undefined })
  return {
    store,
    clock,
    async readOfLook(declared) {
      const look = dueSql(txOf(sql).dialect, { declared, limit: 100, nowMs: NOW_MS })
      const text = look.strings.reduce((before, part, i) => `${before}$${i}${part}`)
      const [row] = await sql.unsafe<{ 'QUERY PLAN': { Plan: Plan }[] }[]>(
        `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
        look.values as string[],
      )
      return readOf((row as { 'QUERY PLAN': { Plan: Plan }[] })['QUERY PLAN'][0]?.Plan as Plan)
    },
  }
}

interface Plan {
  'Relation Name'?: string
  'Actual Rows': number
  'Rows Removed by Filter'?: number
  Plans?: Plan[]
}

const readOf = (plan: Plan): number =>
  (plan['Relation Name'] === 'schedules' ? plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0) : 0) +
  (plan.Plans ?? []).map(readOf).reduce((sum, rows) => sum + rows, 0)

const drivers: Record<string, (due: number, schema: string) => Promise<Scene>> = {
  SQLite: onSqlite,
  PostgreSQL: onPostgres,
}

describe.each(Object.entries(drivers))('ten thousand schedules on %s', (_, open) => {
  test('a look reads those that are due and the next one, not those that wait', { timeout: 60_000 }, async () => {
    const { readOfLook } = await open(3, 'few_due')
    expect(await readOfLook([])).toBe(4)
    expect(await readOfLook(['nightly', 'weekly'])).toBe(4)
  })

  test('a look reads one page when all of them are due', { timeout: 60_000 }, async () => {
    const { readOfLook } = await open(MANY, 'all_due')
    expect(await readOfLook([])).toBe(100)
  })

  test('several processes take all that are due at once, each once, and some that cannot be taken stop none', {
    timeout: 120_000,
  }, async () => {
    const { store, clock } = await open(MANY, 'shared')
    const [some] = await store.schedules({ limit: 1 })
    if (some === undefined) throw new Error('there are none')
    const { origin: _, revision: __, counted: ___, ...rest } = some
    for (const n of [1, 2, 3]) {
      const schedule = { ...rest, name: `unknown-${n}`, type: 'nobody-declares-this', nextAtMs: DUE_MS - n }
      await store.upsertSchedule({ schedule, actor: 'olga', reason: 'a test' })
    }
    let [looks, transactions, movedOn] = [0, 0, 0]
    const counting: Store = {
      ...store,
      stop: async () => undefined,
      dueSchedules: (params) => {
        looks++
        return store.dueSchedules(params)
      },
      async tickSchedules(params) {
        transactions++
        const answers = await store.tickSchedules(params)
        movedOn += answers.filter((answer) => answer === 'moved-on').length
        return answers
      },
    }
    const tickers = Array.from({ length: 3 }, () => {
      const app = new App({ store: counting, clock })
      const ticker = app.duties.find(({ name }) => name === 'schedules')
      if (ticker === undefined) throw new Error('the app takes no ticks')
      return ticker
    })
    const isLeft = async () => (await store.dueSchedules({ declared: [], limit: 1 })).due.length > 0
    for (let rounds = 0; (await isLeft()) && rounds < 20; rounds++) await Promise.all(tickers.map(({ run }) => run()))
    expect(await isLeft()).toBe(false)

    const { count, isMore } = await store.countJobs({ max: MANY + 1 })
    expect({ count, isMore }).toEqual({ count: MANY, isMore: false })
    const after = await store.schedules()
    expect(after.filter(({ type, runs }) => type === 'plain' && runs !== 1)).toEqual([])
    const stuck = after.filter(({ problem }) => problem !== null)
    expect(stuck.map(({ name }) => name)).toEqual(['unknown-1', 'unknown-2', 'unknown-3'])
    expect(stuck.every(({ problem }) => problem?.message.startsWith('TYPE_UNKNOWN'))).toBe(true)
    // Three processes that all did everything would take three times as many.
    expect(movedOn).toBeLessThan(MANY)
    expect(transactions).toBeLessThan(MANY / 10)
    expect(looks).toBeLessThan(MANY / 10)
  })
})
