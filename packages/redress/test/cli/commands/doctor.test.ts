import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ownDatabase, rawPostgres } from '../../../../../test/support/stores/databases.ts'
import { fillStore } from '../../../../../test/support/stores/full-store.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../../test/support/until.ts'
import { App } from '../../../src/app/app.ts'
import { startServer } from '../../../src/http/server.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { redress } from '../command.ts'

let server: TestPostgres
beforeAll(async () => {
  // Its roles are changed: it must be ours alone.
  server = await startPostgres({ settings: ['log_connections=off'] })
})
afterAll(() => server.stop())

test('an empty store exits with 0 and prints one line per check', async () => {
  const data = temporaryFolder()
  await openSqlite({ path: join(data, 'redress.db'), nowMs: () => 0 }).stop()
  const { code, stdout, stderr } = await redress(['doctor', '--data', data, '--deep', '--strict'])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^ok +integrity +SQLite finds no damage$/m)
  expect(stdout).toMatch(/No problems found\.\n$/)
})

test('problems exit with 1, each with a fix', async () => {
  const data = temporaryFolder()
  await fillStore(join(data, 'redress.db'))
  const { code, stdout } = await redress(['doctor', '--data', data])
  expect(code).toBe(1)
  expect(stdout).toMatch(/^wrong +workers +6 jobs of guarded are ready, .* -> start a program that declares this type/m)
  expect(stdout).toMatch(/^warning +queues +post was paused by ann .* -> redress queues resume post --reason WHY$/m)
  expect(stdout).toMatch(/^\d wrong, \d warnings?\.$/m)
})

test('warnings exit with 1 only with --strict', async () => {
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

test('a missing store is an error', async () => {
  expect(await redress(['doctor', '--data', temporaryFolder()])).toMatchObject({
    code: 3,
    stderr: expect.stringMatching(/^STORE_NOT_FOUND: /),
  })
})

describe('doctor --orphans', () => {
  const places: [string, () => Promise<string>][] = [
    ['a file', async () => `sqlite:${join(temporaryFolder(), 'redress.db')}`],
    ['PostgreSQL', () => ownDatabase(server.url)],
  ]

  /** A worker claims a job and is never heard of again; then no process is left. */
  async function leaveSilentJob(location: string, leaseMs: number): Promise<{ id: string; renew(): Promise<void> }> {
    const app = new App({ store: location })
    app.job('work', { run: () => undefined })
    const { id } = await app.submit('work', {})
    const store = await app.store()
    const worker = await store.enlist({ id: 'node-9', host: 'gone', pid: 1, types: ['work'] })
    const { leases } = await store.claim({ worker, max: 1, lanes: [{ type: 'work', ttlMs: leaseMs }] })
    await app.stop()
    const renew = async () => {
      const again = new App({ store: location })
      const { key, attempt } = leases[0] as { key: number; attempt: number }
      await (await again.store()).renew({ worker, leases: [{ key, attempt, ttlMs: 600_000 }] })
      await again.stop()
    }
    return { id, renew }
  }

  test.each(places)(
    'doctor --orphans on %s exits with 1 only while a job has lost its worker [P54]',
    async (_kind, place) => {
      const location = await place()
      const orphansOf = async () => {
        const { code, stdout } = await redress(['doctor', '--orphans', '--json', '--store', location])
        return { code, ...(JSON.parse(stdout) as { count: number; orphans: unknown[] }) }
      }
      const held = await leaveSilentJob(location, 600_000)
      expect(await orphansOf()).toMatchObject({ code: 0, count: 0, orphans: [] })
      const { id, renew } = await leaveSilentJob(location, 1)
      const found = await until('the lease is over', async () => {
        const answer = await orphansOf()
        return answer.count > 0 && answer
      })
      const orphan = { id, type: 'work', worker: 'node-9', silentSince: expect.stringMatching(/^\d{4}-.*Z$/) }
      expect(found).toMatchObject({ code: 1, count: 1, orphans: [orphan] })

      const { code, stdout } = await redress(['doctor', '--orphans', '--store', location])
      expect([code, stdout.split('\n').length]).toEqual([1, 3])
      expect(stdout).toContain(id)
      expect(stdout).not.toContain(held.id)
      // The same list everywhere, and nothing was recorded by looking.
      const listed = await redress(['orphans', 'list', '--json', '--store', location])
      expect(JSON.parse(listed.stdout)).toMatchObject([{ id, status: 'processing', worker: 'node-9' }])
      expect(JSON.parse(listed.stdout)[0].orphanedAt).toBe(JSON.parse(listed.stdout)[0].leaseUntil)
      const events = await redress(['jobs', 'events', id, '--json', '--store', location])
      expect(JSON.stringify(JSON.parse(events.stdout))).not.toContain('orphaned')

      await renew()
      expect(await orphansOf()).toMatchObject({ code: 0, count: 0, orphans: [] })
    },
  )

  test('doctor --orphans works through a server for a viewer [P54]', async () => {
    const location = `sqlite:${join(temporaryFolder(), 'redress.db')}`
    const app = new App({ store: location })
    const http = await startServer({ app, port: 0 })
    onTestFinished(async () => {
      await http.stop()
      await app.stop()
    })
    const { token } = await app.perform('tokens.create', { name: 'monitor', role: 'viewer', actor: 'ann' })
    const ask = () =>
      redress(['doctor', '--orphans', '--json', '--server', http.url], { env: { REDRESS_TOKEN: String(token) } })
    expect((await ask()).code).toBe(0)
    const { id } = await leaveSilentJob(location, 1)
    const { stdout } = await until('it is listed', async () => {
      const answer = await ask()
      return answer.code === 1 && answer
    })
    expect(JSON.parse(stdout)).toMatchObject({ count: 1, orphans: [{ id, type: 'work', worker: 'node-9' }] })
  })

  test('doctor --orphans never exits with 0 after a failed check and refuses contradicting options [P54]', async () => {
    expect((await redress(['doctor', '--orphans', '--data', temporaryFolder()])).code).toBe(3)
    expect((await redress(['doctor', '--orphans', '--server', 'http://127.0.0.1:9'])).code).toBe(5)
    expect((await redress(['doctor', '--server', 'http://127.0.0.1:9'])).code).toBe(2)
    expect((await redress(['doctor', '--orphans', '--strict'])).code).toBe(2)
  })
})
