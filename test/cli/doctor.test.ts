import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { ownDatabase, rawPostgres } from '../support/databases.ts'
import { fillStore } from '../support/full-store.ts'
import { startPostgres, type TestPostgres } from '../support/postgres.ts'
import { temporaryFolder } from '../support/sqlite.ts'
import { redress } from './command.ts'

let server: TestPostgres
beforeAll(async () => {
  // Its roles are changed: it must be ours alone.
  server = await startPostgres({ settings: ['log_connections=off'] })
})
afterAll(() => server.stop())

test('an empty store is well: exit 0, one line for each check', async () => {
  const data = temporaryFolder()
  await openSqlite({ path: join(data, 'redress.db'), nowMs: () => 0 }).stop()
  const { code, stdout, stderr } = await redress(['doctor', '--data', data, '--deep', '--strict'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^ok +integrity +SQLite finds no damage$/m)
  expect(stdout).toMatch(/All is well\.\n$/)
})

test('what is wrong answers 1, each with what to do', async () => {
  const data = temporaryFolder()
  await fillStore(join(data, 'redress.db'))
  const { code, stdout } = await redress(['doctor', '--data', data])
  expect(code).toBe(1)
  expect(stdout).toMatch(/^wrong +workers +6 jobs of guarded are ready, .* -> start a program that declares this type/m)
  expect(stdout).toMatch(/^warning +queues +post was paused by ann .* -> redress queues resume post --reason WHY$/m)
  expect(stdout).toMatch(/^\d wrong, \d to be looked at\.$/m)
})

test('a warning counts only with --strict', async () => {
  const url = await ownDatabase(server.url)
  const lenient = await redress(['doctor', '--store', url])
  expect(lenient.stdout).toMatch(/^warning +tables +there is no schema redress yet -> /m)
  expect(lenient.code).toBe(0)
  expect((await redress(['doctor', '--store', url, '--strict'])).code).toBe(1)
})

test('a server whose commits are not safe: as JSON, and found through DATABASE_URL', async () => {
  const url = await ownDatabase(server.url)
  const sql = rawPostgres(url)
  await sql.unsafe(`ALTER ROLE postgres SET synchronous_commit = off`)
  onTestFinished(async () => void (await sql.unsafe(`ALTER ROLE postgres RESET synchronous_commit`)))
  const { code, stdout } = await redress(['doctor', '--json'], { cwd: temporaryFolder(), env: { DATABASE_URL: url } })
  expect(code).toBe(1)
  expect(JSON.parse(stdout)).toMatchObject({
    isWell: false,
    findings: expect.arrayContaining([
      {
        check: 'durability',
        level: 'wrong',
        says: expect.stringContaining('synchronous_commit is off for postgres'),
        fix: `ALTER ROLE postgres SET synchronous_commit = 'on'`,
      },
    ]),
  })
})

test('no store is no diagnosis', async () => {
  expect(await redress(['doctor', '--data', temporaryFolder()])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/^STORE_NOT_FOUND: /),
  })
})
