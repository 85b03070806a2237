import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { markFailed, retryJob, submitSpec } from '../../../apps/proxx/desk.ts'
import { openDesk } from '../../../apps/proxx/index.ts'
import { App } from '../../../src/app/app.ts'
import { ownDatabase } from '../../support/databases.ts'
import { startPostgres, type TestPostgres } from '../../support/postgres.ts'
import { keepingLog } from '../../support/scene.ts'
import { temporaryFolder } from '../../support/sqlite.ts'
import { until } from '../../support/until.ts'
import { makeClip, needsFfmpeg } from './clips.ts'
import { filesIn } from './rig.ts'

needsFfmpeg()
let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

test('P39 P44 P52 P65 on PostgreSQL it is the same: made, failed, retried, logged, and never backward', async () => {
  const folder = temporaryFolder()
  const url = await ownDatabase(server.url)
  const log = keepingLog()
  const app = new App({ store: url, failureLog: join(folder, 'failures.jsonl'), log })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  const desk = openDesk(app, { home: join(folder, 'proxx'), env: { PROXX_FREE_MB: '0' }, log })
  const directory = join(folder, 'out')
  mkdirSync(directory)
  const clip = await makeClip(join(folder, 'a.mov'))
  const spec = {
    version: 1,
    sources: [clip],
    profile: 'proxy_h264_low',
    output: { directory, naming: '{source_name}' },
  }
  const failed = (await submitSpec(desk, { ...spec, sources: ['/gone.mov'] }, { actor: 'ann' })).job
  expect(failed).toMatchObject({ status: 'failed', executionAttempted: false, error: { code: 'INPUT_MISSING' } })
  const unwanted = (await submitSpec(desk, spec, { actor: 'ann' })).job
  expect(await markFailed(desk, unwanted.id, { actor: 'ann', reason: 'not wanted' })).toMatchObject({
    status: 'failed',
  })

  const retried = await retryJob(desk, failed.id, { actor: 'ann', reason: 'the right file', spec })
  const worker = await app.makeWorker({ id: 'node-1', pollMs: 600_000 })
  const done = await until('it has ended', async () => {
    await worker.tick()
    const job = await desk.files.view(retried.id)
    return job?.finishedAt != null && job
  })
  expect(done).toMatchObject({ status: 'complete', retriedFrom: failed.id, error: null })
  expect(filesIn(directory)).toEqual(['a.mov'])

  const database = postgres(url, { onnotice: () => undefined })
  onTestFinished(() => database.end())
  const back = `status = 'queued', finished_at = NULL, failure = NULL, claimed_at = NULL, started_at = NULL, result = NULL`
  for (const change of [back, `status = 'processing'`, `status = 'cancelled'`]) {
    await expect(
      database.unsafe(`UPDATE jobs SET ${change} WHERE status IN ('failed', 'complete')`),
      change,
    ).rejects.toThrow()
  }
  expect(await desk.files.view(failed.id)).toEqual(failed)
})
