import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openRaw, temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { turns, until } from '../../../../../test/support/until.ts'
import { type App, redress } from '../../../src/index.ts'

interface Input {
  name: string
}

/** An app on a file, with a job type whose handlers wait until they are told to end. */
function world(): { app: App; file: string; seen: string[]; end: (name: string) => void } {
  const file = join(temporaryFolder(), 'redress.db')
  const app = redress({ store: `sqlite:${file}`, log: false })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  const seen: string[] = []
  const ends = new Map<string, () => void>()
  app.job('held', {
    policy: { orphan: 'requeue' },
    run: ({ name }: Input) => {
      seen.push(`begin ${name}`)
      return new Promise<void>((resolve) => ends.set(name, resolve))
    },
  })
  return { app, file, seen, end: (name) => ends.get(name)?.() }
}

/** The worker has asked the store and found nothing. */
async function isIdle(app: App): Promise<void> {
  await until('the worker is listed', async () => (await app.perform('workers.list', {})).workers.length === 1)
  await turns(10)
}

test('an idle worker begins a job of its own process before the submission is answered', async () => {
  const { app, seen, end } = world()
  await app.work()
  await isIdle(app)
  const { id } = await app.submit('held', { name: 'a' })
  seen.push('answered')
  await until('the job runs', () => seen.includes('begin a'))
  expect(seen).toEqual(['begin a', 'answered'])
  end('a')
  await until('it is complete', async () => (await app.jobs.find(id))?.status === 'complete')
  const { events } = await app.jobs.events(id)
  expect(events.map(({ kind }) => kind).filter((kind) => kind !== 'started')).toEqual([
    'queued',
    'processing',
    'complete',
  ])
})

test('with handOff: false, a job begins after its submission is answered', async () => {
  const { app, seen } = world()
  await app.work({ handOff: false })
  await isIdle(app)
  await app.submit('held', { name: 'a' })
  seen.push('answered')
  await until('the job runs', () => seen.includes('begin a'))
  expect(seen).toEqual(['answered', 'begin a'])
})

test('a worker that runs jobs takes no further one beyond its slots', async () => {
  const { app, seen, end } = world()
  await app.work({ concurrency: 1, prefetchMax: 0 })
  await isIdle(app)
  const submitted = await Promise.all(['a', 'b', 'c'].map((name) => app.submit('held', { name })))
  await until('one runs', () => seen.length === 1)
  const statuses = async () => Promise.all(submitted.map(async ({ id }) => (await app.jobs.find(id))?.status))
  expect((await statuses()).toSorted()).toEqual(['processing', 'queued', 'queued'])
  for (const name of ['a', 'b', 'c']) {
    await until(`${name} runs`, () => seen.includes(`begin ${name}`))
    end(name)
  }
  await until('all are complete', async () => (await statuses()).every((status) => status === 'complete'))
  expect(seen).toEqual(['begin a', 'begin b', 'begin c'])
})

test('a claim that fails does not harm the submission, and the worker takes the job later', async () => {
  const { app, file, seen } = world()
  await app.work({ pollMs: 5 })
  await isIdle(app)
  const raw = openRaw(file)
  raw.exec(`CREATE TRIGGER broken BEFORE UPDATE ON jobs WHEN NEW.status = 'processing'
    BEGIN SELECT raise(ABORT, 'no claims now'); END`)
  const { id, isNew } = await app.submit('held', { name: 'a' })
  expect({ isNew, status: (await app.jobs.find(id))?.status }).toEqual({ isNew: true, status: 'queued' })
  expect(seen).toEqual([])
  raw.exec('DROP TRIGGER broken')
  await until('the job runs', () => seen.includes('begin a'))
})

test('a refused submission leaves the worker as it was', async () => {
  const { app, seen } = world()
  app.job('small', { policy: { backlog: { max: 1 } }, run: () => null })
  await app.work({ types: ['held'] })
  await isIdle(app)
  await app.submit('small', {})
  await expect(app.submit('small', {})).rejects.toMatchObject({ code: 'BACKLOG_FULL' })
  await app.submit('held', { name: 'a' })
  await until('the job runs', () => seen.includes('begin a'))
})
