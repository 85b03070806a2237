import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { App } from '../../../packages/redress/src/app/app.ts'
import { redress } from '../../../packages/redress/test/cli/command.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { ownDatabase } from '../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { openProxx } from '../src/install.ts'
import { markFailed, retryJob, submitSpec } from '../src/operations.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from './clips.ts'
import { filesIn } from './rig.ts'

needsFfmpeg()
let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

test('on PostgreSQL jobs complete, fail, retry and log as on SQLite, and never move backward [P39 P44 P52 P65]', async () => {
  const folder = temporaryFolder()
  const url = await ownDatabase(server.url)
  const log = keepingLog()
  const app = new App({ store: url, failureLog: join(folder, 'failures.jsonl'), log })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  const proxx = openProxx(app, { home: join(folder, 'proxx'), env: { PROXX_FREE_MB: '0' }, log })
  const directory = join(folder, 'out')
  mkdirSync(directory)
  const clip = await makeClip(join(folder, 'a.mov'))
  const spec = {
    version: 1,
    sources: [clip],
    profile: 'proxy_h264_low',
    output: { directory, naming: '{source_name}' },
  }
  const failed = (await submitSpec(proxx, { ...spec, sources: ['/gone.mov'] }, { actor: 'ann' })).job
  expect(failed).toMatchObject({ status: 'failed', executionAttempted: false, error: { code: 'INPUT_MISSING' } })
  const unwanted = (await submitSpec(proxx, spec, { actor: 'ann' })).job
  expect(await markFailed(proxx, unwanted.id, { actor: 'ann', reason: 'not wanted' })).toMatchObject({
    status: 'failed',
  })

  const retried = await retryJob(proxx, failed.id, { actor: 'ann', reason: 'the right file', spec })
  const worker = await app.makeWorker({ id: 'node-1', pollMs: 600_000 })
  const done = await until('it has ended', async () => {
    await worker.tick()
    const job = await proxx.files.view(retried.id)
    return job?.finishedAt != null && job
  })
  expect(done).toMatchObject({ status: 'complete', retriedFrom: failed.id, error: null })
  expect(filesIn(directory)).toEqual(['a.mov'])

  const database = postgres(url, { onnotice: () => undefined })
  onTestFinished(() => database.end())
  const back = `status = 'queued', ready = 1, finished_at = NULL, failure = NULL, claimed_at = NULL, started_at = NULL, result = NULL`
  const tried = (change: string, status: string) =>
    expect(
      database.unsafe(`UPDATE redress.jobs SET ${change} WHERE status = '${status}'`),
      `${change} of ${status}`,
    ).rejects.toThrow(/terminal states are final|the_columns_fit/)
  for (const change of [back, `${back}, attempt = 0`, `status = 'processing'`, `status = 'cancelled'`]) {
    for (const status of ['failed', 'complete']) await tried(change, status)
  }
  // All that a retry adds to a failed job is the name of its successor.
  const shown = await proxx.files.view(failed.id)
  expect({ ...shown, retriedAs: null, actions: [] }).toEqual({ ...failed, actions: [] })

  const go = join(folder, 'go')
  withFfmpeg(folder, `while [ ! -e '${go}' ]; do sleep 0.02; done`)
  const running = (await submitSpec(proxx, { ...spec, output: { directory, naming: 'b' } }, { actor: 'ann' })).job
  const now = () => proxx.files.view(running.id)
  await until('it is under way', async () => {
    await worker.tick()
    return (await now())?.startedAt != null
  })
  const released = `${back}, lease_until = NULL, worker = NULL`
  for (const change of [released, `${released}, attempt = 0`]) await tried(change, 'processing')
  writeFileSync(go, '')
  await until('it is complete', async () => {
    await worker.tick()
    return (await now())?.status === 'complete'
  })
})

test('on PostgreSQL the proxx commands work and write the local failure log [P40]', async () => {
  const home = temporaryFolder()
  const store = await ownDatabase(server.url)
  const app = new App({ store, failureLog: join(home, 'server.jsonl'), log: keepingLog() })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  await app.store()
  const options = { cwd: home, env: { PROXX_FREE_MB: '0' } }
  const proxx = (...args: string[]) => redress(['proxx', ...args, '--store', store], options)
  const clip = await makeClip(join(home, 'a.mov'))
  const output = { directory: home, naming: '{source_name}_proxy' }
  const spec = (source: string) => {
    const path = join(home, 'spec.json')
    writeFileSync(path, JSON.stringify({ version: 1, sources: [source], profile: 'proxy_h264_low', output }))
    return path
  }
  const refused = await proxx('submit', spec('/gone.mov'), '--json')
  expect(refused.code).toBe(7)
  const { id } = JSON.parse(refused.stdout)
  const retried = await proxx('retry', id, '--spec', spec(clip), '--reason', 'the right clip', '--json')
  expect(retried.code).toBe(0)
  const next = JSON.parse(retried.stdout)
  expect(next).toMatchObject({ status: 'pending', retriedFrom: id })
  expect(await proxx('mark-failed', next.id, '--reason', 'not wanted')).toMatchObject({ code: 0 })
  expect(await proxx('orphans', '--json')).toMatchObject({ code: 0, stdout: '[]\n' })
  const lines = readFileSync(join(home, '.redress/failures.jsonl'), 'utf8').trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { job_id: id, to: 'failed', code: 'INPUT_MISSING' },
    { job_id: next.id, to: 'pending' },
    { job_id: next.id, to: 'failed', code: 'MARKED_FAILED' },
  ])
})
