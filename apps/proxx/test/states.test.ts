import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeAll, describe, expect, test } from 'vitest'
import { edgesOf } from '../../../packages/redress/src/core/policy/policy.ts'
import { App, policy } from '../../../packages/redress/src/index.ts'
import type { Client } from '../../../test/support/apps/client.ts'
import { until } from '../../../test/support/until.ts'
import { retryJob } from '../src/operations.ts'
import { alarmOf, TYPE, transcodePolicy } from '../src/policy.ts'
import { readSettings } from '../src/settings.ts'
import type { ProxxJob } from '../src/view.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from './clips.ts'
import { Rig } from './rig.ts'

needsFfmpeg()
const rig = Rig.open()
const settings = readSettings({}, '/srv/proxx')
let clip: string
let failed: ProxxJob
let complete: ProxxJob
let operator: Client
let ann: Client
let bob: Client

beforeAll(async () => {
  ;({ operator, ann, bob } = await rig.serve())
  clip = await makeClip(rig.path('a.mov'))
  complete = await rig.done(rig.spec([clip]))
  failed = await rig.submit(rig.spec([rig.path('gone.mov')]))
})

test('the proxx policy is locked: one attempt, four states, no backward edge and no aggregates [P38 P42 P51 P52 P60 P68]', () => {
  const made = policy(transcodePolicy(alarmOf(settings)))
  expect(made).toMatchObject({
    locked: true,
    forwardOnly: true,
    cancel: false,
    retry: { max: 1, unknown: 'never', backoff: null },
    manualRetry: { mode: 'new-job' },
    orphan: { action: 'report' },
    shutdown: 'fail',
    reject: 'record',
    audit: 'write-ahead',
    aggregates: false,
    rollup: 'all-or-nothing',
    deny: 'forbid',
    deadLetter: 'none',
    breaker: null,
    retention: { failedMs: null, completeMs: null },
    notify: { windowMs: 0 },
  })
  const edges = edgesOf(made).map(({ from, to }) => `${from} ${to}`)
  expect(new Set(edges)).toEqual(
    new Set(['queued processing', 'queued failed', 'processing complete', 'processing failed']),
  )
  const env = { PROXX_LEASE_SEC: '5', PROXX_CLIP_MINUTES: '1', PROXX_FREE_MB: '1', PROXX_MEMORY_MB: '512' }
  const { lease: _, ...set } = policy(transcodePolicy(alarmOf(readSettings(env, '/srv'))))
  const { lease: __, ...unset } = made
  expect(set).toEqual(unset)
})

test('the store refuses a program that declares a weaker proxx policy [P68]', async () => {
  for (const weaker of [
    { forwardOnly: false },
    { audit: 'transactional' },
    { locked: false },
    { aggregates: true },
    { cancel: true },
    { reject: 'refuse' },
    // What goes forward only could not even be declared with these.
    { forwardOnly: false, retry: { max: 2 } },
    { forwardOnly: false, orphan: 'requeue' },
    { forwardOnly: false, manualRetry: 'in-place' },
  ] as object[]) {
    const other = new App({ store: `sqlite:${join(rig.home, 'redress.db')}` })
    other.job(TYPE, {
      policy: { ...transcodePolicy(alarmOf(settings)), ...weaker },
      run: () => 'ok',
    })
    await expect(other.store(), JSON.stringify(weaker)).rejects.toMatchObject({ code: 'POLICY_LOCKED' })
    await other.stop()
  }
})

describe('nothing moves a job backward', () => {
  const back = `status = 'queued', ready = 1, finished_at = NULL, failure = NULL, claimed_at = NULL, started_at = NULL, result = NULL`

  const REFUSED = /terminal states are final|only goes forward|the_columns_fit/

  test('no SQL statement can move a proxx job backward [P39 P52]', async () => {
    const database = new DatabaseSync(join(rig.home, 'redress.db'))
    const count = (status: string) => database.prepare('SELECT count(*) AS n FROM jobs WHERE status = ?').get(status)?.n
    expect([count('failed'), count('complete')]).toEqual([1, 1])
    for (const change of [
      back,
      `${back}, spent = '{"manualRetries":1}'`,
      `status = 'processing'`,
      `status = 'complete', failure = NULL`,
      `status = 'cancelled'`,
    ]) {
      expect(() => database.exec(`UPDATE jobs SET ${change} WHERE status = 'failed'`), change).toThrow(REFUSED)
    }
    for (const change of [back, `status = 'failed'`, `status = 'cancelled'`]) {
      expect(() => database.exec(`UPDATE jobs SET ${change} WHERE status = 'complete'`), change).toThrow(REFUSED)
    }
    database.close()
    expect(await rig.job(failed.id)).toEqual(failed)
    expect(await rig.job(complete.id)).toEqual(complete)
  })

  test('the database refuses a partial claim [P16]', async () => {
    const { id } = await rig.submit(rig.spec([clip]))
    const database = new DatabaseSync(join(rig.home, 'redress.db'))
    for (const half of [
      `status = 'processing'`,
      `status = 'processing', ready = NULL, worker = 1`,
      'worker = 1, lease_until = 1',
    ]) {
      expect(() => database.exec(`UPDATE jobs SET ${half} WHERE status = 'queued'`), half).toThrow(
        /the_columns_fit_the_status/,
      )
    }
    // Nor does one that began go back to where it was.
    const go = rig.path('go')
    withFfmpeg(rig.folder, `while [ ! -e '${go}' ]; do sleep 0.02; done`)
    const worker = await rig.worker()
    await until('it is under way', async () => {
      await worker.tick()
      return (await rig.job(id)).startedAt !== null
    })
    const released = `${back}, lease_until = NULL, worker = NULL`
    for (const change of [released, `${released}, attempt = 0`]) {
      expect(() => database.exec(`UPDATE jobs SET ${change} WHERE status = 'processing'`), change).toThrow(REFUSED)
    }
    database.close()
    writeFileSync(go, '')
    expect(await rig.ended(id)).toMatchObject({ status: 'complete' })
  })

  test('no API request can cancel, replay or mark a failed job, or retry a complete one [P39 P51 P52]', async () => {
    const why = { reason: 'because' }
    const ask = async (id: string, act: string, at = '/api/jobs') =>
      (await operator.post(`${at}/${id}/${act}`, why)).status
    expect(await ask(failed.id, 'mark-failed')).toBe(409)
    expect(await ask(failed.id, 'mark-failed', '/proxx/jobs')).toBe(409)
    expect(await ask(failed.id, 'cancel')).toBe(409)
    expect(await ask(complete.id, 'retry')).toBe(409)
    expect(await ask(complete.id, 'retry', '/proxx/jobs')).toBe(409)
    expect(await ask(complete.id, 'mark-failed')).toBe(409)
    expect(await ask(complete.id, 'cancel')).toBe(409)
    expect((await operator.post('/api/dead-letters/replay', { type: TYPE, ...why })).json?.job ?? null).toBeNull()
    const pending = await rig.submit(rig.spec([clip]))
    expect(await ask(pending.id, 'cancel')).toBe(409)
    expect(await rig.ended(pending.id)).toMatchObject({ status: 'complete' })
    expect(await rig.job(failed.id)).toEqual(failed)
    expect(await rig.job(complete.id)).toEqual(complete)
  })
})

describe('a retry', () => {
  test('a retry over HTTP names the failed job, needs a reason and can change the spec [P40 P41 P44]', async () => {
    const path = `/proxx/jobs/${failed.id}/retry`
    expect((await operator.post(path, {})).status).toBe(400)
    const spec = rig.spec([clip])
    const { status, json, headers } = await operator.post(path, { reason: 'named the wrong file', spec })
    expect([status, headers.get('location')]).toEqual([201, `/proxx/jobs/${json.id}`])
    expect(json).toMatchObject({ status: 'pending', retriedFrom: failed.id, spec, error: null })
    expect(await rig.ended(json.id)).toMatchObject({ status: 'complete' })
    const second = await operator.post(path, { reason: 'as it was' })
    expect([second.status, second.json.error.code]).toEqual([409, 'ALREADY_RETRIED'])
    expect(second.json.error.message).toContain(`it was retried as job ${json.id}, which is complete`)
    expect(await rig.job(failed.id)).toMatchObject({ status: 'failed', retriedAs: json.id })
    const same = await operator.post(path, { reason: 'as it was', again: true })
    expect([same.status, same.json.error.code]).toEqual([422, 'INPUT_MISSING'])
    expect(same.json.job).toMatchObject({ spec: failed.spec, retriedFrom: failed.id })
  })

  test('an owner retries their own job without a body; other owners are refused [P40 E20]', async () => {
    const { json: own } = await ann.post('/proxx/jobs', rig.spec([rig.path('gone.mov')]))
    const path = `/proxx/jobs/${own.job.id}/retry`
    const broken = { method: 'POST', body: '{"reason":', headers: { 'content-type': 'application/json' } }
    for (const init of [{ method: 'POST' }, broken]) {
      expect((await bob.ask(path, init)).status).toBe(403)
      expect((await bob.ask(`/proxx/jobs/${own.job.id}/mark-failed`, init)).status).toBe(403)
      expect((await ann.ask(`/proxx/jobs/${rig.app.newId()}/retry`, init)).status).toBe(404)
    }
    expect((await ann.ask(path, broken)).status).toBe(400)
    const { json } = await ann.ask(path, { method: 'POST' })
    expect(json.job).toMatchObject({ retriedFrom: own.job.id, owner: 'ann' })
    const [queued] = (await rig.app.jobs.events(json.job.id)).events
    expect(queued?.data).toMatchObject({ actor: 'ann', reason: 'asked by its owner' })
  })

  test('a retry through the generic API makes a new job with the same spec and profile version [P40 P44]', async () => {
    const { json } = await operator.post(`/api/jobs/${failed.id}/retry`, { reason: 'by the other door', again: true })
    expect(json.job).toMatchObject({ status: 'failed', retriedFrom: failed.id, type: TYPE })
    expect((await rig.job(json.job.id)).profile).toEqual(failed.profile)
  })

  test('a scheduler that submits the same spec makes a new job, not a retry [P43]', async () => {
    const again = await rig.submit(failed.spec)
    expect(again).toMatchObject({ retriedFrom: null, status: 'failed' })
    expect(rig.lines(again.id)).toEqual([expect.objectContaining({ from: 'pending', to: 'failed' })])
  })

  test('a retry of an unknown job is refused [P41]', async () => {
    await expect(retryJob(rig.proxx, rig.app.newId(), { actor: 'ann', reason: 'x' })).rejects.toMatchObject({
      code: 'JOB_NOT_FOUND',
    })
  })
})

test('a failed job does not affect the jobs before and after it [P48]', async () => {
  withFfmpeg(rig.folder, 'case "$OUT" in */bad.*) exit 1 ;; esac')
  const specs = ['good', 'bad', 'fine'].map((naming) => ({
    ...rig.spec([clip]),
    output: { directory: rig.output(), naming },
  }))
  const jobs: ProxxJob[] = []
  for (const spec of specs) jobs.push(await rig.submit(spec))
  for (const { id } of jobs) await rig.ended(id)
  expect(await Promise.all(jobs.map(async ({ id }) => (await rig.job(id)).status))).toEqual([
    'complete',
    'failed',
    'complete',
  ])
})

test('a failure appears at once in the status, error field, log, history and metrics [P49 P50 P59 P61]', async () => {
  withFfmpeg(rig.folder, 'exit 1')
  const job = await rig.done(rig.spec([clip]))
  expect(job).toMatchObject({ status: 'failed', error: { code: 'FFMPEG_FAILED' } })
  expect(rig.failureLine(job.id)).toMatchObject({ code: 'FFMPEG_FAILED' })
  expect((await rig.app.jobs.events(job.id)).events.map(({ kind }) => kind)).toEqual([
    'queued',
    'processing',
    'started',
    'failed',
  ])
  const metrics = await rig.app.metrics.text()
  expect(metrics).toMatch(/jobs_failed_total\{[^}]*FFMPEG_FAILED[^}]*\} [1-9]/)
  const words = JSON.stringify([job, rig.lines(job.id)]).toLowerCase()
  for (const word of ['warning', 'partial success', 'degraded', 'will retry']) expect(words).not.toContain(word)
})

test('proxx shows no failure rate, share or percentage [P60]', async () => {
  const { json } = await operator.get('/proxx/jobs')
  expect(Object.keys(json).toSorted()).toEqual(['jobs', 'nextCursor'])
})
