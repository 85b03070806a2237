import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { openRows } from '../../../../../apps/watermark/src/rows/rows.ts'
import { TABLES } from '../../../../../apps/watermark/src/rows/tables.ts'
import { ownDatabase, rawPostgres } from '../../../../../test/support/stores/databases.ts'
import { fillStore } from '../../../../../test/support/stores/full-store.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { openRaw, temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../../test/support/until.ts'
import { migrate } from '../../../src/store/postgres/schema/migrate.ts'
import { json, ROOT, redress } from '../command.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

async function prepared() {
  const path = join(temporaryFolder(), 'redress.db')
  await fillStore(path)
  const to = await ownDatabase(server.url)
  return { path, from: `sqlite:${path}`, to }
}

const countIn = async (url: string, table: string): Promise<number> => {
  const [row] = await rawPostgres(url).unsafe(`SELECT count(*) AS count FROM ${table}`)
  return row?.count as number
}

test('a store is copied to PostgreSQL, with the row counts of both sides', async () => {
  const { path, from, to } = await prepared()
  const { code, stdout, stderr } = await redress(['copy', '--from', from, '--to', to])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(/^TABLE +SOURCE +TARGET$/m)
  const events = Number(openRaw(path).prepare('SELECT count(*) AS count FROM events').get()?.count)
  expect(stdout).toMatch(new RegExp(`^events +${events} +${events}$`, 'm'))
  expect(stdout).toMatch(/^Copied \d+ rows to postgres:/m)
  expect(stdout).not.toContain('differs')
  expect(await countIn(to, 'events')).toBe(events)
})

test('the rows of apps are copied too', async () => {
  const { from, to } = await prepared()
  const rowsIn = (location: string) => openRows({ location, tables: TABLES, storeOpened: async () => null })
  const source = rowsIn(from)
  const asset = `'a1', 'ann', 'film.mp4', 'video', 1, 'x', 16, 9, 1000, 'h264', 0`
  await source.run(`INSERT INTO wm_assets VALUES (${asset})`)
  await source.close()
  expect((await redress(['copy', '--from', from, '--to', to, '--dry-run'])).stdout).toMatch(/^wm_assets +1$/m)
  expect((await redress(['copy', '--from', from, '--to', to])).stdout).toMatch(/^wm_assets +1 +1$/m)
  const target = rowsIn(to)
  onTestFinished(() => target.close())
  expect(await target.first('SELECT name, bytes FROM wm_assets')).toEqual({ name: 'film.mp4', bytes: 1 })
})

test('--dry-run says what would be copied and does nothing', async () => {
  const { from, to } = await prepared()
  const { code, stdout } = await redress(['copy', '--from', from, '--to', to, '--dry-run'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^TABLE +SOURCE$/m)
  expect(stdout).toContain('Nothing was done. This copies ')
  const [found] = await rawPostgres(to)`SELECT to_regnamespace('redress') IS NULL AS none`
  expect(found?.none).toBe(true)
})

test('with --json it answers with the counts', async () => {
  const { from, to } = await prepared()
  expect(await json(['copy', '--from', from, '--to', to])).toMatchObject({
    isDone: true,
    isWhole: true,
    tables: expect.arrayContaining([{ table: 'audit', source: expect.any(Number), target: expect.any(Number) }]),
  })
})

describe('invalid usage', () => {
  test('a store with running workers, unless --despite-workers is given', async () => {
    const { path, from, to } = await prepared()
    openRaw(path).exec(`UPDATE workers SET seen_at = ${Date.now()}, stopped_at = NULL`)
    const { code, stderr } = await redress(['copy', '--from', from, '--to', to])
    expect(code).toBe(4)
    expect(stderr).toMatch(/^STORE_IN_USE: Workers are at work on /)
    expect(stderr).toContain('--despite-workers')
    const despite = await redress(['copy', '--from', from, '--to', to, '--despite-workers'])
    expect(despite.code).toBe(0)
    expect(despite.stdout).toContain('Workers were running on the source: worker-1')
  })

  test('a target that is not empty', async () => {
    const { from, to } = await prepared()
    await redress(['copy', '--from', from, '--to', to])
    for (const more of [[], ['--dry-run'], ['--despite-workers']]) {
      const { code, stderr } = await redress(['copy', '--from', from, '--to', to, ...more])
      expect(code).toBe(4)
      expect(stderr).toMatch(/^STORE_NOT_EMPTY: /)
    }
  })

  test.each([
    [['--from', 'sqlite:none.db', '--to', 'sqlite:x.db'], 3, 'There is no store at '],
    [['--from', 'sqlite:none.db'], 2, '--to is missing.'],
    [['--to', 'sqlite:none.db'], 2, '--from is missing.'],
    [['--from', 'sqlite:a.db', '--to', 'sqlite:./a.db'], 2, 'Both are the same store'],
    [['--from', 'sqlite::memory:', '--to', 'sqlite:./a.db'], 2, 'A store in memory'],
    [['--from', 'sqlite:a.db', '--to', 'sqlite:b.db', '--store', 'sqlite:c.db'], 2, 'redress copy needs two stores'],
  ])('wrong usage: %j', async (args, exit, message) => {
    const { code, stderr } = await redress(['copy', ...args], { cwd: temporaryFolder() })
    expect(stderr).toContain(message)
    expect(code).toBe(exit)
  })

  test('no output contains the password', async () => {
    const { from } = await prepared()
    const { stderr, stdout } = await redress(['copy', '--from', from, '--to', 'postgres://me:geheim@127.0.0.1:1/x'])
    expect(stderr).toMatch(/^STORE_UNREACHABLE: /)
    expect(stderr + stdout).not.toContain('geheim')
  })
})

test('a killed copy leaves an empty target, and the next one succeeds', async () => {
  const { path, from, to } = await prepared()
  const sql = rawPostgres(to)
  await migrate(sql, 'redress')
  // It stops in the last table, with all others written, until the test lets it go.
  await sql.unsafe(`
    CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NULL; END $$;
    CREATE TRIGGER waiting BEFORE INSERT ON audit FOR EACH STATEMENT EXECUTE FUNCTION wait_for_test()`)
  const holder = await sql.reserve()
  await holder`SELECT pg_advisory_lock(4711)`
  const copying = spawn(join(ROOT, 'packages/redress/bin/redress'), ['copy', '--from', from, '--to', to], {
    stdio: 'ignore',
  })
  onTestFinished(() => void copying.kill('SIGKILL'))
  const ended = new Promise((resolve) => copying.once('exit', (_code, signal) => resolve(signal)))
  await until('it waits in the last table', async () => {
    const [row] = await sql`SELECT count(*) AS waiting FROM pg_locks JOIN pg_database ON oid = database
      WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted`
    return row?.waiting === 1
  })
  copying.kill('SIGKILL')
  expect(await ended).toBe('SIGKILL')
  expect(await countIn(to, 'jobs')).toBe(0)
  await holder`SELECT pg_advisory_unlock(4711)`
  holder.release()
  const { code, stderr } = await redress(['copy', '--from', from, '--to', to])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const jobs = Number(openRaw(path).prepare('SELECT count(*) AS count FROM jobs').get()?.count)
  expect(await countIn(to, 'jobs')).toBe(jobs)
})
