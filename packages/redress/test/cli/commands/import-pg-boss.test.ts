import { join } from 'node:path'
import { PgBoss } from 'pg-boss'
import PgBoss10 from 'pg-boss-10'
import PgBoss11 from 'pg-boss-11'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { ownDatabase, rawPostgres } from '../../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import type { ImportReport } from '../../../src/app/import/run.ts'
import { folder, json, redress, redressAlone } from '../command.ts'

const APP = join(import.meta.dirname, 'fixtures/import-app.ts')
const HOUR_S = 3_600

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

/** What the three versions have in common. */
interface Boss {
  on(event: 'error', listener: () => void): unknown
  start(): Promise<unknown>
  stop(options: object): Promise<void>
  createQueue(name: string, options?: object): Promise<void>
  send(name: string, data: object | null, options?: object): Promise<string | null>
  fetch(name: string): Promise<{ id: string }[]>
  fail(name: string, id: string, data?: object): Promise<unknown>
  cancel(name: string, id: string): Promise<unknown>
  complete(name: string, id: string): Promise<unknown>
  schedule(name: string, cron: string, data: object, options: object): Promise<void>
}
type BossClass = new (options: object) => Boss

const QUIET = { schedule: false, supervise: false, monitor: false }

async function started(Boss: BossClass): Promise<{ boss: Boss; url: string }> {
  const url = await ownDatabase(server.url)
  const boss = new Boss({ connectionString: url, ...QUIET })
  // The database ends before the last of its connections does.
  boss.on('error', () => undefined)
  await boss.start()
  onTestFinished(() => boss.stop({ graceful: false, close: true }))
  return { boss, url }
}

const importing = (url: string, data: string, ...more: string[]) =>
  redressAlone(['import', 'pg-boss', '--from', url, '--app', APP, '--data', data, ...more])
const answerOf = async (url: string, data: string, ...more: string[]): Promise<ImportReport> =>
  JSON.parse((await importing(url, data, '--json', ...more)).stdout)

describe.each([
  ['pg-boss 12', PgBoss as unknown as BossClass],
  ['pg-boss 11', PgBoss11 as unknown as BossClass],
  ['pg-boss 10', PgBoss10 as unknown as BossClass],
])('%s', (_, Boss) => {
  test('what waits and what failed is imported once; active jobs are left and told by the exit code', async () => {
    const { boss, url } = await started(Boss)
    await boss.createQueue('mail.send', { policy: 'short' })
    await boss.createQueue('other')
    const failed = (await boss.send('mail.send', { to: 'eve' }, { retryLimit: 0, singletonKey: 'eve' })) as string
    await boss.fetch('mail.send')
    await boss.fail('mail.send', failed, new Error('mailbox full'))
    const retried = (await boss.send('mail.send', { to: 'fay' }, { retryLimit: 3, retryDelay: HOUR_S })) as string
    await boss.fetch('mail.send')
    await boss.fail('mail.send', retried, { reason: 'greylisted' })
    const active = (await boss.send('mail.send', { to: 'gus' })) as string
    await boss.fetch('mail.send')
    await boss.send('mail.send', { to: 'ann' }, { priority: 5, singletonKey: 'ann' })
    await boss.send('mail.send', { to: 'bob' }, { startAfter: HOUR_S, singletonKey: 'bob' })
    const cancelled = (await boss.send('mail.send', { to: 'hal' }, { singletonKey: 'hal' })) as string
    await boss.cancel('mail.send', cancelled)
    await boss.send('other', { to: 'ida' })
    await boss.schedule('other', '0 3 * * *', { n: 1 }, { tz: 'Europe/Berlin' })

    const data = folder()
    const dumped = () => rawPostgres(url).unsafe('SELECT * FROM pgboss.job ORDER BY name, id')
    const before = [...(await dumped())]
    const dry = await importing(url, data, '--dry-run')
    expect({ code: dry.code, stderr: dry.stderr }).toEqual({ code: 1, stderr: '' })
    expect(dry.stdout).toMatch(/^mail\.send +- +failed +mail\.send +1 +1 +0 +0$/m)
    expect(dry.stdout).toContain('1 active of mail.send: a worker runs them')
    expect(dry.stdout).toContain(`add --map 'other=TYPE'`)
    expect(dry.stdout).toMatch(/other: app\.schedule\("other", .*cron: "0 3 \* \* \*", timezone: "Europe\/Berlin"/)
    const first = await answerOf(url, data, '--map', 'other=report')
    expect(first.totals).toEqual({ source: 7, imported: 5, already: 0, skipped: 2 })
    expect(first.isComplete).toBe(false)
    expect([...(await dumped())]).toEqual(before)

    await boss.complete('mail.send', active)
    const again = await answerOf(url, data, '--map', 'other=report')
    expect(again.totals).toEqual({ source: 7, imported: 0, already: 5, skipped: 2 })
    expect(again.isComplete).toBe(true)

    const [letter] = (await json(['dead-letters', 'list', '--data', data])) as {
      jobId: string
      failure: { detail: string; context: object }
    }[]
    expect(letter?.failure.detail).toContain('mailbox full')
    expect(letter?.failure.context).toMatchObject({ importedFrom: 'pg-boss', attemptsMade: 1 })
    const { stdout } = await redress(['explain', letter?.jobId as string, '--data', data])
    expect(stdout).toContain(`Imported from pg-boss, queue mail.send, job ${failed}.`)

    const queued = (await json(['jobs', 'list', '--status', 'queued', '--data', data])) as {
      id: string
      priority: number
      retryAfter: string | null
    }[]
    expect(queued).toHaveLength(4)
    expect(queued.filter(({ priority }) => priority === 5)).toHaveLength(1)
    const hourAhead = queued.filter(
      ({ retryAfter }) => retryAfter !== null && Date.parse(retryAfter) > Date.now() + 3_000_000,
    )
    expect(hourAhead).toHaveLength(2)
  })
})

test('a queue of many jobs is imported completely, into PostgreSQL too', async () => {
  const { boss, url } = await started(PgBoss as unknown as BossClass)
  await boss.createQueue('report')
  const count = 1_050
  await rawPostgres(url).unsafe(
    `INSERT INTO pgboss.job (name, data) SELECT 'report', json_build_object('n', n) FROM generate_series(1, ${count}) n`,
  )
  const store = await ownDatabase(server.url)
  const { stdout, code, stderr } = await redressAlone([
    'import',
    'pg-boss',
    '--from',
    url,
    '--app',
    APP,
    '--store',
    store,
    '--json',
  ])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(JSON.parse(stdout).totals).toEqual({ source: count, imported: count, already: 0, skipped: 0 })
  const [row] = await rawPostgres(store).unsafe('SELECT count(*)::int AS count FROM redress.jobs')
  expect(row?.count).toBe(count)
})

test('a database without tables of pg-boss is refused', async () => {
  const url = await ownDatabase(server.url)
  const { code, stderr } = await importing(url, folder())
  expect(code).toBe(2)
  expect(stderr).toContain('There are no tables of pg-boss in the schema "pgboss"')
})

test.each([
  ['postgres://127.0.0.1:99999/shop', 'the port 99999 is higher than 65535'],
  ['postgres://one:5432,two:99999/shop', 'the port 99999 is higher than 65535'],
  ['postgres://bob:hunter2%@127.0.0.1:1/shop', 'a % in it does not begin an escape such as %25'],
  ['postgres://b%b:hunter2@127.0.0.1:1/shop', 'a % in it does not begin an escape such as %25'],
  ['postgres://bob:hunter2#@127.0.0.1:1/shop', 'it cannot be parsed'],
])('--from %s is refused as an invalid address, without its password', async (url, problem) => {
  const { code, stderr } = await importing(url, folder())
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining(`--from is not a valid address: ${problem}`),
  })
  expect(stderr).toContain('Write it like postgres://user@host:5432/name')
  expect(stderr).not.toContain('hunter2')
})

describe('a database that cannot be read', () => {
  const refused = async (url: string) => {
    const { code, stderr } = await importing(url, folder())
    expect(stderr).not.toContain('hunter2')
    expect(stderr).not.toContain('rows of an app')
    return { code, stderr }
  }

  test('a wrong password is reported with --from and the cause', async () => {
    const locked = await startPostgres({ password: 'right' })
    onTestFinished(() => locked.stop())
    const { code, stderr } = await refused(locked.url.replace(':right@', ':hunter2@'))
    expect(code).toBe(2)
    expect(stderr).toMatch(/PostgreSQL at \S+ refuses the login: password authentication failed for user "\w+"\.\n/)
    expect(stderr).toContain('Check the user and the password in --from.')
  })

  test('a missing database is reported with --from and the cause', async () => {
    const { code, stderr } = await refused(server.url.replace(/[^/]*$/, 'absent'))
    expect(code).toBe(2)
    expect(stderr).toMatch(/PostgreSQL at \S+ has no such database: database "absent" does not exist\.\n/)
    expect(stderr).toContain('Check the name of the database in --from.')
  })

  test('a server that refuses connections is reported with --from and the cause', async () => {
    const { code, stderr } = await refused('postgres://bob:hunter2@127.0.0.1:1/shop')
    expect(code).toBe(5)
    expect(stderr).toContain('cannot be read: connect ECONNREFUSED 127.0.0.1:1.')
    expect(stderr).toContain('Check --from, and that the server runs.')
  }, 20_000)

  test('a user without rights on the tables is told to get them', async () => {
    const { url } = await started(PgBoss as unknown as BossClass)
    await rawPostgres(url).unsafe('CREATE ROLE weak LOGIN')
    onTestFinished(async () => void (await rawPostgres(server.url).unsafe('DROP ROLE weak')))
    const { code, stderr } = await refused(url.replace(/\/\/[^@/]*@?/, '//weak@'))
    expect(code).toBe(2)
    expect(stderr).toContain('does not let this user read the tables of pg-boss: permission denied for schema pgboss.')
    expect(stderr).toContain('or use another user in --from.')
  })
})
