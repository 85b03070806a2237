import { randomUUID } from 'node:crypto'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newJob as plainJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { until } from '../../../../../test/support/until.ts'
import { type PolicyInput, policy } from '../../../src/core/policy/policy.ts'
import type { NewJob, Store, Submitted } from '../../../src/store/contract/store.ts'
import type { AsyncExecutor } from '../../../src/store/contract/transactional.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

let places = 0

/** A store, and a business in the same database: `orders` is the business's own table. */
async function shop(parts: PolicyInput = {}) {
  const schema = `Shop ${++places}`
  const store = await openPostgres({ url: server.url, schema })
  onTestFinished(() => store.stop())
  await store.register({ types: [{ name: 'ship', queue: 'default', policy: policy(parts) }] })
  const sql = postgres(server.url, { max: 4, onnotice: () => undefined })
  onTestFinished(() => sql.end())
  const orders = `orders_${places}`
  await sql`CREATE TABLE ${sql(orders)} (id int PRIMARY KEY)`
  const order = (tx: postgres.Sql | postgres.TransactionSql, id: number) =>
    tx`INSERT INTO ${tx(orders)} (id) VALUES (${id})`
  const count = async (): Promise<[number, number]> => {
    const [row] = await sql`SELECT count(*)::int AS n FROM ${sql(orders)}`
    const [job] = await sql`SELECT count(*)::int AS n FROM ${sql(schema)}.jobs`
    return [row?.n, job?.n]
  }
  return { store, sql, schema, order, count }
}

const newJob = (parts: Partial<NewJob> = {}): NewJob =>
  plainJob({ type: 'ship', payload: '{"a":"\\\\ \\" {}, NULL"}', owner: 'NULL', ...parts })

const clientOf = (tx: postgres.Sql | postgres.TransactionSql): AsyncExecutor => ({
  query: async (text, values) => ({ rows: await tx.unsafe(text, [...values]) }),
})

const submitIn = async (store: Store, client: AsyncExecutor, jobs: readonly NewJob[]): Promise<Submitted[]> =>
  (await store.submitIn?.({ executor: client, jobs })) ?? []

const ROLLED_BACK = 'rolled back on purpose'
const rollBack = async (ended: Promise<unknown>) => expect(ended).rejects.toThrow(ROLLED_BACK)

describe('a job in a transaction of the caller', () => {
  test('is there with the business row when it commits, and as absent as it when it rolls back', async () => {
    const { store, sql, order, count } = await shop()
    const [first, second] = [newJob(), newJob({ delayMs: 1_000, priority: 3 })]
    await rollBack(
      sql.begin(async (tx) => {
        await order(tx, 1)
        expect(await submitIn(store, clientOf(tx), [first])).toEqual([{ id: first.id, isNew: true, status: 'queued' }])
        throw new Error(ROLLED_BACK)
      }),
    )
    expect(await count()).toEqual([0, 0])
    await sql.begin(async (tx) => {
      await order(tx, 1)
      expect(await submitIn(store, clientOf(tx), [first, second])).toMatchObject([{ isNew: true }, { isNew: true }])
      expect(await submitIn(store, clientOf(tx), [first])).toEqual([{ id: first.id, isNew: false, status: 'queued' }])
    })
    expect(await count()).toEqual([1, 2])
  })

  test('is kept as it was handed in, and leaves the connection as it was', async () => {
    const { store, sql, schema } = await shop()
    const job = newJob()
    await sql.begin(async (tx) => {
      await tx`SET LOCAL search_path = pg_catalog, public`
      await submitIn(store, clientOf(tx), [job])
      const [row] = await tx`SELECT current_setting('search_path') AS path`
      expect(row?.path).toBe('pg_catalog, public')
    })
    const [row] = await sql`SELECT id, payload, owner FROM ${sql(schema)}.job_specs`
    expect(row).toEqual({ id: job.id, payload: job.payload, owner: job.owner })
  })

  test('goes into a batch, whose counts roll back with it', async () => {
    const { store, sql } = await shop()
    const batch = { id: randomUUID(), name: 'day', owner: null, rollup: null, isSealed: false, expiresInMs: null }
    await store.openBatch({ batch: { ...batch, data: '{}', onSettled: null, notify: null }, jobs: [] })
    const total = async () => (await store.batch({ id: batch.id }))?.total
    await rollBack(
      sql.begin(async (tx) => {
        await submitIn(store, clientOf(tx), [newJob({ batch: batch.id })])
        throw new Error(ROLLED_BACK)
      }),
    )
    expect(await total()).toBe(0)
    await sql.begin((tx) => submitIn(store, clientOf(tx), [newJob({ batch: batch.id }), newJob({ batch: batch.id })]))
    expect(await total()).toBe(2)
  })

  test('is told to the workers of every process when it commits, and not before', async () => {
    const { store, sql, schema } = await shop()
    const other = await openPostgres({ url: server.url, schema })
    onTestFinished(() => other.stop())
    const heard = { store: 0, other: 0 }
    store.onWake(() => heard.store++)
    other.onWake(() => heard.other++)
    // Whoever begins to listen is told once that there may be something.
    await until('both listen', () => heard.store > 0 && heard.other > 0)
    const before = { ...heard }
    await sql.begin(async (tx) => {
      await submitIn(store, clientOf(tx), [newJob()])
      expect(heard).toEqual(before)
    })
    await until('both have heard', () => heard.store > before.store && heard.other > before.other)
  })

  test('any client will do, whatever it makes of a bigint', async () => {
    const { store, sql, count } = await shop({ backlog: { max: 3 } })
    const batch = { id: randomUUID(), name: '7', owner: '8', rollup: null, isSealed: false, expiresInMs: 5_000 }
    await store.openBatch({ batch: { ...batch, data: '9', onSettled: null, notify: null }, jobs: [] })
    const twin = { dedupe: { key: '1', scope: 'live' as const }, batch: batch.id }
    await sql.begin(async (tx) => {
      const strings: AsyncExecutor = {
        async query(text, values) {
          const rows = await tx.unsafe(text, [...values])
          const asText = (value: unknown) => (value === null ? null : String(value))
          return { rows: rows.map((row) => Object.fromEntries(Object.entries(row).map(([k, v]) => [k, asText(v)]))) }
        },
      }
      const submitted = await submitIn(store, strings, [newJob(twin), newJob(twin), newJob()])
      expect(submitted.map(({ isNew }) => isNew)).toEqual([true, false, true])
    })
    expect(await count()).toEqual([0, 2])
  })
})

describe('a refusal', () => {
  test('leaves none of the jobs, though the caller goes on and commits', async () => {
    const { store, sql, order, count } = await shop({ backlog: { max: 2 } })
    const tx = await sql.reserve()
    onTestFinished(() => tx.release())
    await tx`BEGIN`
    await order(tx, 1)
    const refused = (jobs: NewJob[]) => submitIn(store, clientOf(tx), jobs)
    await expect(refused([newJob(), newJob({ type: 'nobody.declared.this' })])).rejects.toMatchObject({
      code: 'TYPE_UNKNOWN',
    })
    await expect(refused([newJob(), newJob(), newJob()])).rejects.toMatchObject({ code: 'BACKLOG_FULL' })
    await expect(refused([newJob(), newJob({ payload: '\0' })])).rejects.toMatchObject({ code: 'STORE_FAILED' })
    const [row] = await tx`SELECT current_setting('search_path') AS path`
    expect(row?.path).toContain('public')
    await tx`COMMIT`
    expect(await count()).toEqual([1, 0])
  })

  test('without a transaction', async () => {
    const { store, sql, count } = await shop()
    await expect(submitIn(store, clientOf(sql), [newJob()])).rejects.toMatchObject({ code: 'TX_REQUIRED' })
    expect(await count()).toEqual([0, 0])
  })

  test('on another database, also one that has a store of the same name', async () => {
    const { store, sql, schema } = await shop()
    const name = `elsewhere_${places}`
    await sql`CREATE DATABASE ${sql(name)}`
    const url = server.url.replace(/\/[^/]*$/, `/${name}`)
    const elsewhere = postgres(url, { max: 1, onnotice: () => undefined })
    onTestFinished(() => elsewhere.end())
    const tried = () => elsewhere.begin((tx) => submitIn(store, clientOf(tx), [newJob()]))
    await expect(tried()).rejects.toMatchObject({ code: 'TX_WRONG_DATABASE' })
    const stranger = await openPostgres({ url, schema })
    onTestFinished(() => stranger.stop())
    await expect(tried()).rejects.toMatchObject({ code: 'TX_WRONG_DATABASE' })
  })

  test('of what is no client of a server, and after the store was stopped', async () => {
    const { store, sql } = await shop()
    const handle = { prepare: () => undefined } as unknown as AsyncExecutor
    await expect(submitIn(store, handle, [newJob()])).rejects.toMatchObject({ code: 'TX_WRONG_DATABASE' })
    await store.stop()
    const tried = sql.begin((tx) => submitIn(store, clientOf(tx), [newJob()]))
    await expect(tried).rejects.toMatchObject({ code: 'STORE_STOPPED' })
  })

  test('of a type whose lines must be on disk first, and on a store that a newer Redress has changed', async () => {
    const { store, sql, schema } = await shop({ audit: 'write-ahead' })
    const tried = () => sql.begin((tx) => submitIn(store, clientOf(tx), [newJob()]))
    await expect(tried()).rejects.toMatchObject({ code: 'TX_UNSUPPORTED' })
    await sql`UPDATE ${sql(schema)}.redress_version SET version = 99, oldest = 98`
    await expect(tried()).rejects.toMatchObject({ code: 'STORE_TOO_NEW' })
  })

  test('of a transaction that looked before somebody else took the key', async () => {
    const { store, sql } = await shop()
    const dedupe = { key: 'one', scope: 'live' as const }
    const tried = sql.begin('ISOLATION LEVEL REPEATABLE READ', async (tx) => {
      await tx`SELECT 1 FROM pg_class LIMIT 1`
      await store.submit({ jobs: [newJob({ dedupe })] })
      await submitIn(store, clientOf(tx), [newJob({ dedupe })])
    })
    await expect(tried).rejects.toMatchObject({ code: 'STORE_BUSY', action: expect.stringContaining('Roll back') })
  })
})

test('a merged submission in a rolled back transaction changes nothing, and others wait for its end', async () => {
  const { store, sql } = await shop()
  const merge = { kind: 'debounce', key: 'a', waitMs: 3_600_000, maxWaitMs: null } as const
  const [first] = await store.submit({ jobs: [newJob({ merge, payload: '1' })] })
  const id = first?.id ?? ''
  const before = await store.job({ id })
  const undone = sql.begin(async (tx) => {
    const submitted = await submitIn(store, clientOf(tx), [
      newJob({ merge, payload: '2', ttlMs: 1_000 }),
      newJob({ merge: { kind: 'throttle', key: 'a', everyMs: 1_000 }, runAtMs: 1 }),
      newJob({ merge: { kind: 'singleton', key: '' }, dedupe: { key: 'a', scope: 'always', forMs: 1_000 } }),
    ])
    expect(submitted).toMatchObject([{ id, isNew: false, isReplaced: true }, { isNew: true }, { isNew: true }])
    throw new Error(ROLLED_BACK)
  })
  await expect(undone).rejects.toThrow(ROLLED_BACK)
  expect(await store.job({ id })).toEqual(before)
  expect(await store.jobs({ limit: 10 })).toHaveLength(1)

  let isThird = false
  let third: Promise<unknown> = Promise.resolve()
  await sql.begin(async (tx) => {
    await submitIn(store, clientOf(tx), [newJob({ merge, payload: '3' })])
    third = store.submit({ jobs: [newJob({ merge, payload: '4' })] }).then(() => {
      isThird = true
    })
    await until('the other submission waits', async () => {
      const [row] = await sql`SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`
      return row?.n > 0
    })
    expect(isThird).toBe(false)
  })
  await third
  expect(await store.job({ id })).toMatchObject({ payload: '4' })
})
