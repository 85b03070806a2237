import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newJob as plainJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { until } from '../../../../../test/support/until.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import type { NewJob, Store } from '../../../src/store/contract/store.ts'
import type { AsyncExecutor } from '../../../src/store/contract/transactional.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

let places = 0

/** A store on empty tables, and a connection of somebody else to them. */
async function scene() {
  const schema = `own_${++places}`
  const open = async (): Promise<Store> => {
    const store = await openPostgres({ url: server.url, schema })
    onTestFinished(() => store.stop())
    return store
  }
  const store = await open()
  await store.register({ types: [{ name: 'plain', queue: 'default', policy: policy() }] })
  const sql = postgres(server.url, { max: 4, connection: { search_path: schema }, onnotice: () => undefined })
  onTestFinished(() => sql.end())
  return { store, open, sql, schema }
}

const newJob = (parts: Partial<NewJob> = {}): NewJob => plainJob({ type: 'plain', ...parts })

const some = (count: number, parts: Partial<NewJob> = {}): NewJob[] =>
  Array.from({ length: count }, () => newJob(parts))

const clientOf = (tx: postgres.TransactionSql): AsyncExecutor => ({
  query: async (text, values) => ({ rows: await tx.unsafe(text, [...values]) }),
})

/** How many sessions wait for a lock that somebody else holds. */
const waiting = async (sql: postgres.Sql): Promise<number> => {
  const [row] = await sql`SELECT count(*)::int AS n FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return row?.n
}

describe('many jobs at once', () => {
  test('stand in the line in the order in which they were given, whatever their keys', async () => {
    const { store, sql } = await scene()
    const jobs = Array.from({ length: 3_000 }, (_, i) =>
      newJob(i % 3 === 0 ? { dedupe: { key: `key ${(i * 7919) % 3_000}`, scope: 'live' } } : {}),
    )
    const submitted = await store.submit({ jobs })
    expect(submitted).toEqual(jobs.map(({ id }) => ({ id, isNew: true, status: 'queued' })))
    const rows = await sql`SELECT id FROM job_specs JOIN jobs USING (key) ORDER BY key`
    expect(rows.map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
    const [counted] = await sql`SELECT count(*)::int AS n FROM events WHERE kind = 'queued'`
    expect(counted?.n).toBe(3_000)
  })

  test('that were there already are found, among others that are new', async () => {
    const { store } = await scene()
    const [first, second, third, fourth] = some(4) as [NewJob, NewJob, NewJob, NewJob]
    await store.submit({ jobs: [second] })
    const answers = await store.submit({ jobs: [first, second, third, third, fourth] })
    expect(answers.map(({ id, isNew }) => [id, isNew])).toEqual([
      [first.id, true],
      [second.id, false],
      [third.id, true],
      [third.id, false],
      [fourth.id, true],
    ])
  })

  test('share transactions, and one that is refused harms no other', async () => {
    const { store, sql } = await scene()
    await store.register({ types: [{ name: 'narrow', queue: 'default', policy: policy({ backlog: { max: 2 } }) }] })
    const calls = Array.from({ length: 60 }, (_, i) =>
      store.submit({ jobs: some(1, { type: ['plain', 'narrow', 'nobody.declared.this'][i % 3] as string }) }),
    )
    const codes = (await Promise.allSettled(calls)).map((call) =>
      call.status === 'fulfilled' ? 'taken' : call.reason.code,
    )
    const count = (code: string) => codes.filter((one) => one === code).length
    expect([count('taken'), count('BACKLOG_FULL'), count('TYPE_UNKNOWN')]).toEqual([22, 18, 20])
    expect((await sql`SELECT count(*)::int AS n FROM jobs`)[0]?.n).toBe(22)
  })

  test('wait with what their first event says, when they are delayed', async () => {
    const { store, sql } = await scene()
    const scheduled = { name: 'nightly', atMs: 5, by: { actor: 'olga "o"', reason: 'why\0not' } }
    await store.submit({ jobs: [newJob({ delayMs: 60_000 }), newJob({ delayMs: 60_000, scheduled })] })
    const rows = await sql`SELECT data, due_at::float8 FROM events JOIN jobs ON jobs.key = events.job ORDER BY seq`
    expect(rows.map(({ data }) => JSON.parse(data))).toEqual([
      { dueAtMs: rows[0]?.due_at },
      { ...scheduled.by, schedule: 'nightly', scheduledForMs: 5, dueAtMs: rows[1]?.due_at },
    ])
  })
})

describe('a dedupe key', () => {
  const dedupe = (key: string) => ({ dedupe: { key, scope: 'live' as const } })

  test('that a transaction under way has taken is waited for, and its job is found', async () => {
    const { store, sql } = await scene()
    const first = newJob(dedupe('one'))
    const answer = await sql.begin(async (tx) => {
      await store.submitIn?.({ executor: clientOf(tx), jobs: [first] })
      const second = store.submit({ jobs: [newJob(dedupe('one'))] })
      await until('the second waits', async () => (await waiting(sql)) > 0)
      return { second }
    })
    expect(await answer.second).toEqual([{ id: first.id, isNew: false, status: 'queued' }])
  })

  test('that a transaction under way has taken, and gives back, is taken', async () => {
    const { store, sql } = await scene()
    const second = newJob(dedupe('one'))
    let answer: Promise<unknown> | undefined
    await sql
      .begin(async (tx) => {
        await store.submitIn?.({ executor: clientOf(tx), jobs: [newJob(dedupe('one'))] })
        answer = store.submit({ jobs: [second] })
        await until('the second waits', async () => (await waiting(sql)) > 0)
        throw new Error('rolled back')
      })
      .catch(() => undefined)
    expect(await answer).toEqual([{ id: second.id, isNew: true, status: 'queued' }])
  })

  test('taken by many in any order stops nobody', async () => {
    const { store, open, sql } = await scene()
    const handles = [store, await open(), await open(), await open()]
    const keys = Array.from({ length: 50 }, (_, i) => `key ${i}`)
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => {
        const order = i % 2 === 0 ? keys : keys.toReversed()
        return handles[i % 4]?.submit({ jobs: order.map((key) => newJob(dedupe(key))) })
      }),
    )
    expect(answers.flat().filter((one) => one?.isNew)).toHaveLength(50)
    expect((await sql`SELECT count(*)::int AS n FROM jobs`)[0]?.n).toBe(50)
  })
})

describe('a type that gets a bound', () => {
  const bounded = { name: 'plain', queue: 'default', policy: policy({ backlog: { max: 100 } }) }

  test('finds the jobs of a transaction that was under way', async () => {
    const { store, open, sql } = await scene()
    const other = await open()
    let declared: Promise<void> | undefined
    await sql.begin(async (tx) => {
      await store.submitIn?.({ executor: clientOf(tx), jobs: some(3) })
      declared = other.register({ types: [bounded] })
      await until('the declaration waits', async () => (await waiting(sql)) > 0)
    })
    await declared
    expect((await sql`SELECT DISTINCT limit_key FROM jobs`).map(({ limit_key }) => limit_key)).toEqual([''])
  })

  test('binds who has waited for its declaration, and knew it otherwise', async () => {
    const { store, sql } = await scene()
    // As often as it takes until the server keeps its plan.
    for (let i = 0; i < 10; i++) await store.submit({ jobs: some(1) })
    let submitted: Promise<unknown> | undefined
    await sql.begin(async (tx) => {
      await tx`LOCK TABLE job_types IN SHARE MODE`
      submitted = store.submit({ jobs: some(1) })
      // It may be refused before the commit that it waits for is answered.
      submitted.catch(() => undefined)
      await until('the submission waits', async () => (await waiting(sql)) > 0)
      await tx`UPDATE job_types SET policy = ${JSON.stringify(policy({ backlog: { max: 1 } }))}`
      await tx`UPDATE cursors SET position = position + 1 WHERE name = 'types'`
      await tx`UPDATE jobs SET limit_key = ''`
    })
    await expect(submitted).rejects.toMatchObject({ code: 'BACKLOG_FULL' })
  })
})
