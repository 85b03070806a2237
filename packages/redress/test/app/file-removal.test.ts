import { expect, onTestFinished, test } from 'vitest'
import { redress } from '../../src/index.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'

const WHO = { actor: 'ann', reason: 'personal data' }
const MINUTE_MS = 60_000

type Removal = (signal: AbortSignal) => unknown

/** An app whose jobs own a file, and a file store that answers as told, one removal after the other. */
async function makeScene(removals: Removal[] = []) {
  const clock = new VirtualClock()
  const store = redress({ store: 'sqlite::memory:', clock })
  const app = redress({ store: await store.store(), clock })
  onTestFinished(() => app.stop())
  const files = new Set<string>()
  const asked: unknown[] = []
  app.job('convert', {
    run: (input: { name: string }, attempt) => {
      files.add(attempt.jobId)
      return { file: `${input.name}.xml` }
    },
    removeFiles: async (job, attempt) => {
      asked.push(job)
      await removals.shift()?.(attempt.signal)
      files.delete(job.id)
    },
  })
  const worker = await app.makeWorker()
  const { id } = await app.submit('convert', { name: 'a' }, { owner: 'ann' })
  const work = async (minutes: number, stepMs = 5_000) => {
    for (let leftMs = minutes * MINUTE_MS; leftMs > 0; leftMs -= stepMs) {
      await worker.tick()
      await clock.advance(stepMs)
    }
  }
  await work(1)
  expect(files).toEqual(new Set([id]))
  return { app, id, files, asked, work }
}

test('a job that owns files names the job that removes them, and that one gets what it needs', async () => {
  const { app, id, files, asked, work } = await makeScene()
  const { filesRemovedBy, did } = await app.jobs.delete(id, WHO)
  expect(did).toBe(`Job ${id} is deleted. Job ${filesRemovedBy} removes its files.`)
  expect(await app.jobs.find(id)).toBeNull()
  await work(2)
  expect(files).toEqual(new Set())
  const result = { file: 'a.xml' }
  expect(asked).toEqual([{ id, type: 'convert', owner: 'ann', status: 'complete', input: { name: 'a' }, result }])
  expect(await app.jobs.show(filesRemovedBy ?? '')).toMatchObject({ type: 'redress.files.convert', status: 'complete' })
})

test.each<[string, Removal]>([
  ['refuses', () => Promise.reject(new Error('EACCES'))],
  ['never answers', () => new Promise(() => undefined)],
  ['answers too late', (signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(null)))],
])('the files are removed in the end, though the file store %s at first', async (_, removal) => {
  const { app, id, files, asked, work } = await makeScene([removal])
  const { filesRemovedBy } = await app.jobs.delete(id, WHO)
  await work(12)
  expect([files.size, asked.length]).toEqual([0, 2])
  expect(await app.jobs.show(filesRemovedBy ?? '')).toMatchObject({ status: 'complete' })
})

test('a removal whose outcome is unknown is done again', async () => {
  const lost = () => Promise.reject(new Error('socket hang up'))
  const { app, id, files, asked, work } = await makeScene([lost])
  files.delete(id)
  await app.jobs.delete(id, WHO)
  await work(5)
  expect([files.size, asked.length]).toEqual([0, 2])
})

test('a removal that never succeeds is a failed job, which names the deleted job', async () => {
  const { app, id, work } = await makeScene(Array.from({ length: 99 }, () => () => Promise.reject(new Error('EACCES'))))
  const { filesRemovedBy } = await app.jobs.delete(id, WHO)
  await work(40 * 60, MINUTE_MS)
  expect(await app.jobs.show(filesRemovedBy ?? '')).toMatchObject({ status: 'failed', input: { id } })
})

test('a program that does not declare the type leaves the removal to one that does', async () => {
  const { app, id, files, work } = await makeScene()
  const other = redress({ store: await app.store() })
  const { filesRemovedBy } = await other.jobs.delete(id, WHO)
  expect([filesRemovedBy === null, files.size]).toEqual([false, 1])
  await work(2)
  expect(files.size).toBe(0)
})
