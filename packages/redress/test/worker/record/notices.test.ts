import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { act, look, scratchFile, submit } from '../../../../../test/support/processes/processes.ts'
import { Scene } from '../../../../../test/support/scene.ts'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { App } from '../../../src/app/app.ts'
import { withWriteAhead } from '../../../src/store/decorators/write-ahead.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'

const notify = { failed: ['ops'], orphaned: ['ops'] }

test('a job whose outcome could not be written to the failure log causes a notice like any failure', async () => {
  const isLast = (entry: object) => 'to' in entry && ['complete', 'failed'].includes(String(entry.to))
  const append = async (entries: readonly object[]) => {
    if (entries.some(isLast)) throw new Error('ENOSPC: no space left')
  }
  const inner = openSqlite({ path: ':memory:', nowMs: () => 1_000 })
  const store = withWriteAhead(inner, { append, close: async () => undefined })
  const app = new App({ store, failureLog: join(temporaryFolder(), 'failures.jsonl') })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  app.job('work', {
    policy: { audit: 'write-ahead', notify },
    run: ({ isGood }: { isGood: boolean }) => {
      if (!isGood) throw new Error('broken')
    },
  })
  const good = await app.submit('work', { isGood: true })
  const bad = await app.submit('work', { isGood: false })
  await (await app.makeWorker()).tick()
  const told = (await store.notices({ limit: 10 })).map(({ subject, content }) =>
    content.kind === 'failed' ? [subject, content.failure.code] : [subject],
  )
  expect(told.toSorted()).toEqual(
    [
      [`job:${good.id}`, 'LOG_FAILED'],
      [`job:${bad.id}`, 'UNKNOWN'],
    ].toSorted(),
  )
})

test('a job whose process exits causes a notice during the exit', async () => {
  const file = scratchFile()
  const types = { act: { orphan: 'fail', notify } } as const
  const [id] = await submit({ file, types }, { do: 'exit', code: 3 })
  const actor = act({ file, types, worker: { pollMs: 20 } })
  expect(await actor.ended).toMatchObject({ code: 3 })
  const told = await look(file).notices({ limit: 10 })
  expect(told).toMatchObject([{ subject: `job:${id}`, content: { failure: { code: 'WORKER_LOST' } } }])
})

test('a close whose lease is gone causes no notice: the job may succeed in another worker', async () => {
  const scene = new Scene()
  onTestFinished(() => scene.end())
  let fail = (_: Error): void => undefined
  scene.app.job('work', {
    policy: { notify, orphan: 'requeue', lease: { ttl: '1s' } },
    run: (_: object, { number }) => {
      if (number > 1) return 'done'
      return new Promise((_resolve, reject) => {
        fail = reject
      })
    },
  })
  const { id } = await scene.app.submit('work', {})
  const slow = await scene.worker({ id: 'slow' })
  await slow.tick()
  // It stands still past its lease, and another one takes the job.
  scene.clock.block(5_000)
  const quick = await scene.app.makeWorker({ id: 'quick' })
  await quick.maintain()
  await quick.tick()
  fail(new Error('too late'))
  await slow.tick()
  expect(await scene.status(id)).toBe('complete')
  expect(await scene.store.notices({ limit: 10 })).toEqual([])
})
