import postgres from 'postgres'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openContext } from '../../../src/store/postgres/store.ts'
import { startPostgres, type TestPostgres } from '../../support/postgres.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres({ password: 'hunter2' })
})
afterAll(() => server.stop())

const at = (change: (url: URL) => void): string => {
  const url = new URL(server.url)
  change(url)
  return url.href
}

const refusalOf = (url: string, schema = 'redress') =>
  openContext({ url, schema }).then(
    async (opened) => {
      await opened.stop()
      return 'opened'
    },
    ({ code, message, action }) => ({ code, message, action }),
  )

async function run(...statements: string[]): Promise<void> {
  const sql = postgres(server.url, { onnotice: () => undefined })
  for (const statement of statements) await sql.unsafe(statement)
  await sql.end()
}

test('a wrong password is refused in one sentence that does not name it', async () => {
  const refusal = await refusalOf(at((url) => (url.password = 'wrong-secret')))
  expect(refusal).toMatchObject({ code: 'STORE_DENIED', message: expect.stringContaining('does not let us in') })
  expect(JSON.stringify(refusal)).not.toMatch(/wrong-secret|hunter2/)
})

test('a server that is not there, and a database that is not there, are told apart', async () => {
  expect(await refusalOf('postgres://nobody@127.0.0.1:9/none')).toMatchObject({ code: 'STORE_UNREACHABLE' })
  expect(await refusalOf(at((url) => (url.pathname = '/missing')))).toMatchObject({ code: 'STORE_NOT_FOUND' })
})

test('a user who may not make tables is told what to grant', async () => {
  await run(`CREATE ROLE guest LOGIN PASSWORD 'guest'`)
  const guest = at((url) => Object.assign(url, { username: 'guest', password: 'guest' }))
  expect(await refusalOf(guest)).toMatchObject({ code: 'STORE_DENIED', action: expect.stringContaining('Grant') })
})

test('a server that acknowledges before it has written is refused', async () => {
  await run(`CREATE ROLE hasty SUPERUSER LOGIN PASSWORD 'hasty'`, `ALTER ROLE hasty SET synchronous_commit = off`)
  const hasty = at((url) => Object.assign(url, { username: 'hasty', password: 'hasty' }))
  expect(await refusalOf(hasty)).toMatchObject({ code: 'STORE_NOT_DURABLE' })
})

test('a store of a newer version is left alone', async () => {
  const opened = await openContext({ url: server.url, schema: 'newer' })
  await opened.sql`UPDATE redress_version SET version = 99, oldest = 98`
  await opened.stop()
  expect(await refusalOf(server.url, 'newer')).toMatchObject({
    code: 'STORE_TOO_NEW',
    message: expect.stringContaining('version 99'),
  })
})

test('processes that open a new store at the same moment all find it ready', async () => {
  const opened = await Promise.all(Array.from({ length: 6 }, () => openContext({ url: server.url, schema: 'fresh' })))
  const counts = await Promise.all(opened.map(({ sql }) => sql`SELECT count(*)::int AS n FROM redress_version`))
  expect(counts.map(([row]) => row?.n)).toEqual(Array(6).fill(1))
  for (const one of opened) await one.stop()
})
