import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { until } from '../../../../../test/support/until.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import { someFailure } from '../../../src/store/conformance/bench/changes.ts'
import { openPool } from '../../../src/store/postgres/connection/client.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const COLUMNS = `job, at, attempt, worker, stage, owner, code, fault, message, waiting, detail, context, causes, rule,
  fingerprint, from_status, to_status, decision, permanent`

async function open(schema: string) {
  const store = await openPostgres({ url: server.url, schema })
  const sql = openPool({ url: server.url, schema, connectionsMax: 2 })
  onTestFinished(async () => {
    await sql.end()
    await store.stop()
  })
  await store.register({ types: [{ name: 'plain', queue: 'default', policy: policy() }] })
  const fail = (id: string) =>
    store.submit({
      jobs: [
        {
          ...{
            id,
            type: 'plain',
            payload: '{}',
            owner: null,
            priority: 0,
            delayMs: 0,
            dedupe: null,
            retriedFrom: null,
          },
          ...{ batch: null, limitKey: null, rejected: someFailure() },
        },
      ],
    })
  const counted = async (): Promise<number | undefined> => {
    await store.foldFailures({ limit: 100 })
    const [group] = await store.failureGroups({ filter: {}, sort: 'last-seen', after: null, limit: 1 })
    return group?.count
  }
  const gaps = async () => (await sql`SELECT 1 FROM uncounted_failures`).length
  /** A transaction that has a failure and stays open. */
  const openFailure = async () => {
    const other = await sql.reserve()
    await other`BEGIN`
    await other.unsafe(`INSERT INTO failures (${COLUMNS}) SELECT ${COLUMNS} FROM failures ORDER BY seq LIMIT 1`)
    return async (end: 'COMMIT' | 'ROLLBACK') => {
      await other.unsafe(end)
      other.release()
    }
  }
  return { fail, counted, gaps, openFailure }
}

test('a failure that is committed after failures with higher numbers is counted, and once', async () => {
  const { fail, counted, gaps, openFailure } = await open('late')
  await fail('first')
  expect(await counted()).toBe(1)
  const end = await openFailure()
  await fail('second')
  expect(await counted()).toBe(2)
  expect(await gaps()).toBe(1)
  await end('COMMIT')
  expect(await counted()).toBe(3)
  expect(await counted()).toBe(3)
  expect(await gaps()).toBe(0)
})

test('a number whose transaction was rolled back is looked for no longer', async () => {
  const { fail, counted, gaps, openFailure } = await open('undone')
  await fail('first')
  const end = await openFailure()
  await fail('second')
  expect(await counted()).toBe(2)
  expect(await gaps()).toBe(1)
  expect(await counted()).toBe(2)
  expect(await gaps(), 'it may still come').toBe(1)
  await end('ROLLBACK')
  // It is given up when every transaction of the server that was open at that time has ended, also those of other databases.
  await until('the number is given up', async () => {
    expect(await counted()).toBe(2)
    return (await gaps()) === 0
  })
})
