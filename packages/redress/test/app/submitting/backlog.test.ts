import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { redress } from '../../../src/index.ts'

async function bounded(max: number) {
  const path = `${temporaryFolder()}/jobs.db`
  const app = redress({ store: `sqlite:${path}` })
  onTestFinished(() => app.stop())
  const type = app.job('bounded', { policy: { backlog: { max } }, run: () => undefined })
  await app.store()
  const database = new DatabaseSync(path)
  onTestFinished(() => database.close())
  return { app, type, database }
}

test('a submission in a transaction of the caller is refused when the backlog is full, and the rest of it stays', async () => {
  const { app, type, database } = await bounded(2)
  await type.submit({})
  const pending = [await type.prepare({}), await type.prepare({})]
  database.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY) STRICT; BEGIN IMMEDIATE; INSERT INTO orders VALUES (7)')
  expect(() => app.submitIn(database, pending)).toThrow('over 2 jobs of type bounded would wait')
  expect(app.submitIn(database, pending.slice(0, 1))).toMatchObject([{ isNew: true }])
  expect(() => app.submitIn(database, pending.slice(1))).toThrow('over 2 jobs')
  database.exec('COMMIT')
  expect((await app.jobs.list()).jobs).toHaveLength(2)
  expect(database.prepare('SELECT id FROM orders').all()).toEqual([{ id: 7 }])
})

test('a batch that does not fit is not made', async () => {
  const { app, type } = await bounded(2)
  await type.submit({})
  const jobs = [type.request({}), type.request({})]
  await expect(app.batches.create('too-many', { jobs })).rejects.toMatchObject({ code: 'BACKLOG_FULL' })
  expect((await app.perform('batches.list', {})).batches).toEqual([])
  expect((await app.jobs.list()).jobs).toHaveLength(1)
})
