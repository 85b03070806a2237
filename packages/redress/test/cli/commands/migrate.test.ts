import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ownDatabase } from '../../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { MIGRATIONS as POSTGRES } from '../../../src/store/postgres/schema/schema.ts'
import { MIGRATIONS as SQLITE } from '../../../src/store/sqlite/schema/schema.ts'
import { folder, json, redress } from '../command.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

test('migrate creates a missing store, once', async () => {
  const data = join(folder(), 'data')
  const at = ['--data', data]
  const file = join(data, 'redress.db')
  const dry = await redress(['migrate', '--dry-run', ...at])
  expect(dry).toMatchObject({ code: 0, stderr: '' })
  expect(dry.stdout).toBe(`Nothing was done. This brings ${file} to the tables of version ${SQLITE.length}.\n`)
  expect(existsSync(data)).toBe(false)
  expect(await json(['migrate', ...at])).toEqual({ isDone: true, store: file, from: 0, to: SQLITE.length })
  expect(await redress(['migrate', ...at])).toMatchObject({
    code: 0,
    stdout: `Nothing to do: ${file} already has version ${SQLITE.length}.\n`,
  })
})

test('an older store is migrated, and both versions are printed', async () => {
  const data = folder()
  const file = join(data, 'redress.db')
  await redress(['migrate', '--data', data])
  const fresh = new DatabaseSync(file)
  const applicationId = Number(fresh.prepare('PRAGMA application_id').get()?.application_id)
  fresh.close()
  const old = join(folder(), 'old.db')
  const database = new DatabaseSync(old)
  database.exec(
    `PRAGMA application_id = ${applicationId}; PRAGMA journal_mode = WAL; ${SQLITE[0]}; PRAGMA user_version = 1`,
  )
  database.close()
  const at = ['--store', `sqlite:${old}`]
  expect((await redress(['migrate', '--dry-run', ...at])).stdout).toContain(`version 1 -> ${SQLITE.length}`)
  expect((await redress(['migrate', ...at])).stdout).toBe(`${old}: version 1 -> ${SQLITE.length}.\n`)
  expect(await json(['jobs', ...at])).toEqual([])
})

test('a database of another program is not changed', async () => {
  const path = join(folder(), 'other.db')
  const database = new DatabaseSync(path)
  database.exec('CREATE TABLE cakes (name TEXT)')
  database.close()
  for (const more of [[], ['--dry-run']]) {
    const { code, stderr } = await redress(['migrate', '--store', `sqlite:${path}`, ...more])
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^STORE_NOT_REDRESS: /) })
  }
})

test('migrate works on PostgreSQL', async () => {
  const url = await ownDatabase(server.url)
  const at = ['--store', url]
  expect((await redress(['migrate', '--dry-run', ...at])).stdout).toContain(`the tables of version ${POSTGRES.length}`)
  expect(await json(['migrate', ...at])).toMatchObject({ isDone: true, from: 0, to: POSTGRES.length })
  expect(await json(['migrate', ...at])).toMatchObject({ isDone: false, from: POSTGRES.length, to: POSTGRES.length })
})
