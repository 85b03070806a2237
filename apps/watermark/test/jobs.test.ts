import { existsSync, utimesSync, writeFileSync } from 'node:fs'
import { appendFile, mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { RedressError } from '../../../packages/redress/src/index.ts'
import { until } from '../../../test/support/until.ts'
import { Rig } from './rig.ts'
import { corrupt, IMAGE, outOfMemory } from './stand-in.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})
beforeEach(() => {
  rig.media.onMark = () => undefined
})

const failOnce = (error: Error) => {
  rig.media.onMark = () => {
    rig.media.onMark = () => undefined
    throw error
  }
}

test('a copy that keeps failing is retried after 1, 5 and 15 minutes and its 4th failure is final: 3/3 [W4 W14 W15 W49]', async () => {
  rig.media.onMark = () => {
    throw outOfMemory()
  }
  const campaign = await rig.published(['Rita'])
  const [{ id }] = campaign.tokens
  await rig.idle()
  for (const [minutes, count] of [
    [1, 1],
    [5, 2],
    [15, 3],
  ]) {
    const job = await rig.app.jobs.find(id)
    expect(job).toMatchObject({ status: 'queued', retryCount: count, errorCode: 'OUT_OF_MEMORY', progress: 0 })
    expect(Date.parse(job?.retryAfter ?? '') - rig.kit.clock.nowMs()).toBe(Number(minutes) * 60_000)
    const [token] = (await rig.campaign(campaign.id)).tokens
    const nextRetryAt = job?.retryAfter
    expect(token).toMatchObject({ state: 'PENDING', retryCount: count, maxRetries: 3, nextRetryAt, error: null })
    await rig.kit.advance(Number(minutes) * 60_000 - 1)
    expect(await rig.app.jobs.find(id)).toMatchObject({ status: 'queued', attemptCount: count })
    await rig.advance('1ms')
  }
  expect(await rig.history(id)).toEqual([
    'queued',
    ...Array.from({ length: 3 }, () => ['processing', 'retry']).flat(),
    'processing',
    'failed',
  ])
  const shown = await rig.campaign(campaign.id)
  expect(shown).toMatchObject({
    state: 'FAILED',
    counts: { total: 1, completed: 0, failed: 1, pending: 0, running: 0 },
  })
  expect(shown.tokens[0]).toMatchObject({
    state: 'FAILED',
    retryCount: 3,
    maxRetries: 3,
    error: { code: 'OUT_OF_MEMORY', message: expect.stringContaining('each time') },
  })
  expect((await rig.app.jobs.find(id))?.retryAfter).toBeNull()
})

test('a new copy has retryCount 0 and no nextRetryAt, which is an ISO 8601 UTC time once a retry waits [W11 W12 W13]', async () => {
  const campaign = await rig.published(['Rita'])
  const token = async () => (await rig.campaign(campaign.id)).tokens[0]
  expect(await token()).toMatchObject({ state: 'PENDING', retryCount: 0, maxRetries: 3, nextRetryAt: null })
  failOnce(outOfMemory())
  await rig.idle()
  const nextRetryAt = new Date(rig.kit.clock.nowMs() + 60_000).toISOString()
  expect(await token()).toMatchObject({ state: 'PENDING', retryCount: 1, maxRetries: 3, nextRetryAt })
  await rig.advance('1m')
  expect(await token()).toMatchObject({ state: 'ACTIVE', retryCount: 1, nextRetryAt: null })
})

test('a failed attempt goes back to PENDING with its error, progress 0 and no start; FAILED has an end and no nextRetryAt [W16 W18]', async () => {
  rig.media.onMark = ({ onProgress }) => {
    onProgress(70)
    throw outOfMemory()
  }
  const [{ id }] = (await rig.published(['Rita'])).tokens
  const job = async () => (await rig.app.jobs.find(id)) ?? expect.fail('the job is gone')
  for (const [retry, delay] of ['1m', '5m', '15m'].entries()) {
    await rig.idle()
    expect(await job()).toMatchObject({
      ...{ status: 'queued', retryCount: retry + 1, retryAfter: expect.any(String), progress: 0, startedAt: null },
      ...{ errorCode: 'OUT_OF_MEMORY', errorMessage: expect.stringContaining('We’ll retry'), finishedAt: null },
    })
    await rig.advance(delay)
  }
  expect(await job()).toMatchObject({
    ...{ status: 'failed', retryCount: 3, retryAfter: null, finishedAt: new Date(rig.kit.clock.nowMs()).toISOString() },
    ...{ errorCode: 'OUT_OF_MEMORY', errorMessage: expect.stringContaining('each time') },
  })
  // Each failure records whether the job was retried.
  expect((await rig.app.jobs.failures(id)).failures.map(({ to }) => to)).toEqual([
    'queued',
    'queued',
    'queued',
    'failed',
  ])
})

test('a copy that succeeds at its last retry has no error [W16]', async () => {
  let left = 3
  rig.media.onMark = () => {
    if (left-- > 0) throw outOfMemory()
  }
  const [{ id }] = (await rig.published(['Rita'])).tokens
  await rig.idle()
  for (const delay of ['1m', '5m', '15m']) await rig.advance(delay)
  expect(await rig.app.jobs.find(id)).toMatchObject({ status: 'complete', errorCode: null, errorMessage: null })
})

test('a worker claims the PENDING copies that are due, oldest first, one at a time [W17]', async () => {
  const { tokens } = await rig.published(['Waits'])
  failOnce(outOfMemory())
  await rig.idle()
  const order: string[] = []
  let atOnce = 0
  rig.media.onMark = async ({ visibleText }) => {
    order.push(`${visibleText} ${++atOnce}`)
    await new Promise((resolve) => setImmediate(resolve))
    atOnce--
  }
  const ids: string[] = []
  for (const name of ['First', 'Second', 'Third']) {
    ids.push((await rig.published([name])).tokens[0].id)
    await rig.kit.clock.advance(1)
  }
  await rig.app.jobs.cancel((await rig.published(['Cancelled'])).tokens[0].id, { actor: 'olga', reason: 'not PENDING' })
  const one = await rig.app.makeWorker({ concurrency: 1, prefetchMax: 0, pollMs: 2 ** 30 })
  await until('the three are made', async () => {
    await one.tick()
    const { jobs } = await rig.app.jobs.list({ status: 'complete', limit: 1_000 })
    return ids.every((id) => jobs.some((job) => job.id === id))
  })
  expect(order).toEqual(['First 1', 'Second 1', 'Third 1'])
  expect(await rig.app.jobs.find(tokens[0].id)).toMatchObject({ status: 'queued', attemptCount: 1 })
  await rig.advance('1m')
  expect(order).toEqual(['First 1', 'Second 1', 'Third 1', 'Waits 1'])
  one.crash()
})

test('a corrupt source and an unknown job type fail at once [W20 W22 W49]', async () => {
  rig.media.onMark = () => {
    throw corrupt()
  }
  const { id, tokens } = await rig.published(['Rita'])
  await rig.idle()
  expect(await rig.history(tokens[0].id)).toEqual(['queued', 'processing', 'failed'])
  expect((await rig.campaign(id)).tokens[0]).toMatchObject({
    state: 'FAILED',
    retryCount: 0,
    error: { code: 'SOURCE_CORRUPT' },
  })

  const other = await rig.draft(['Sam'], {}, IMAGE)
  const job = other.tokens[0].id
  await rig.app.submit('watermark.video', {}, { id: job })
  await rig.idle()
  expect(await rig.app.jobs.find(job)).toMatchObject({
    status: 'failed',
    errorCode: 'UNKNOWN_JOB_TYPE',
    attemptCount: 1,
  })
})

test('a missing source fails permanently and cannot be retried until it is back [W22]', async () => {
  const campaign = await rig.published(['Rita'])
  const asset = join(rig.folder, 'watermark/assets/sources', campaign.assetId)
  await rename(asset, `${asset}-away`)
  await rig.idle()
  const [{ id }] = campaign.tokens
  expect(await rig.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'SOURCE_MISSING', attemptCount: 1 })
  const refused = await rig.as('ann').post(`/campaigns/${campaign.id}/tokens/${id}/retry`)
  expect(refused).toMatchObject({ status: 409, json: { error: { code: 'RETRY_REFUSED' } } })
  expect(refused.json.error.message).toMatch(/^The uploaded file is not there any more\. Upload it again/)
  await rename(`${asset}-away`, asset)
  expect((await rig.as('ann').post(`/campaigns/${campaign.id}/tokens/${id}/retry`)).status).toBe(200)
  await rig.idle()
  expect(await rig.campaign(campaign.id)).toMatchObject({ state: 'READY' })
})

test('a source that changed since its upload fails before any copy is made [W22]', async () => {
  const { assetId, tokens } = await rig.published(['Rita'])
  await appendFile(join(rig.folder, 'watermark/assets/sources', assetId), 'x')
  await rig.idle()
  const [{ id }] = tokens
  expect(await rig.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'SOURCE_CORRUPT', attemptCount: 1 })
  expect(rig.media.marked).not.toContain(id)
})

test.each([
  ['a full disk', Object.assign(new Error('write'), { code: 'ENOSPC' }), 'DISK_FULL'],
  ['a disk that fails', Object.assign(new Error('write'), { code: 'EIO' }), 'WRITE_FAILED'],
  ['a store without room', new RedressError('STORAGE_FULL', 'full'), 'DISK_FULL'],
  ['a store that fails', new RedressError('STORAGE_FAILED', 'broken'), 'WRITE_FAILED'],
  ['an exit with 137', Object.assign(new Error('killed'), { exitCode: 137, stderr: '' }), 'OUT_OF_MEMORY'],
  ['a time limit', Object.assign(new Error('late'), { name: 'TimeoutError' }), 'TIMEOUT'],
  ['anything else', new Error('Input #0: no such file or directory'), 'UNKNOWN'],
])('a transient failure is retried: %s [W2 W23]', async (_what, error, code) => {
  failOnce(error)
  const { id, tokens } = await rig.published(['Rita'])
  await rig.idle()
  expect(await rig.app.jobs.find(tokens[0].id)).toMatchObject({ status: 'queued', errorCode: code, retryCount: 1 })
  await rig.advance('1m')
  expect(await rig.campaign(id)).toMatchObject({ state: 'READY' })
})

test('the next attempt removes the leftovers of a killed one, and a copy is visible whole or not at all', async () => {
  const { tokens } = await rig.published(['Rita'])
  const [{ id }] = tokens
  const left = join(rig.folder, 'watermark/work', `${id}.0`)
  await mkdir(left)
  writeFileSync(join(left, 'copy'), 'half a co')
  let seen: string[] = []
  rig.media.onMark = ({ target }) => {
    writeFileSync(target, 'half a co')
    seen = [...rig.copies(), ...rig.workLeft()]
  }
  await rig.idle()
  expect(seen).not.toContain(id)
  expect(seen).not.toContain(`${id}.0`)
  expect(rig.copies()).toContain(id)
  expect(rig.workLeft()).toEqual([])
})

test('a campaign with completed and failed copies is PARTIAL, settled once even when two workers end together [W6 W21 W25]', async () => {
  const waiting: (() => void)[] = []
  rig.media.onMark = async ({ visibleText }) => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    if (visibleText === 'Sam') throw corrupt()
  }
  const { id } = await rig.published(['Rita', 'Sam'])
  const second = await rig.app.makeWorker({ id: 'second', concurrency: 1, pollMs: 2 ** 30 })
  await second.tick()
  await until('both work on one', async () => {
    await rig.kit.tick()
    return waiting.length === 2
  })
  expect(await rig.campaign(id)).toMatchObject({ state: 'PROCESSING', counts: { pending: 0, running: 2 } })
  const { jobs } = await rig.app.jobs.list({ batch: id })
  expect(new Set(jobs.map(({ worker }) => worker)).size).toBe(2)
  for (const go of waiting) go()
  await until('both are done', async () => {
    await Promise.all([second.tick(), rig.kit.tick()])
    return (await rig.campaign(id)).state !== 'PROCESSING'
  })
  expect(await rig.campaign(id)).toMatchObject({ state: 'PARTIAL', counts: { total: 2, completed: 1, failed: 1 } })
  expect((await rig.app.batches.find(id))?.history.map(({ kind }) => kind)).toEqual(['settled'])
  second.crash()
})

test('progress is shown in percent while a copy is made, and only then', async () => {
  let go: () => void = () => undefined
  rig.media.onMark = async ({ onProgress }) => {
    onProgress(42)
    await new Promise<void>((resolve) => {
      go = resolve
    })
  }
  const { id } = await rig.published(['Rita'])
  await until('it is told', async () => {
    await rig.kit.advance('20s')
    return (await rig.campaign(id)).tokens[0].progress === 42
  })
  expect((await rig.campaign(id)).tokens[0]).toMatchObject({ state: 'PROCESSING' })
  go()
  await rig.idle()
  expect((await rig.campaign(id)).tokens[0]).toMatchObject({ state: 'ACTIVE', progress: null })
})

test('a detect job is never retried, neither automatically nor by a person [W10 W53]', async () => {
  const { id } = await rig.published(['Rita'])
  await rig.idle()
  const sent = await rig.as('ann').upload(`/campaigns/${id}/detect`, Buffer.from('nothing to see'), 'leak.mp4')
  expect(sent.status).toBe(202)
  const detect = rig.media.detect
  rig.media.detect = () => Promise.reject(outOfMemory())
  await rig.idle()
  rig.media.detect = detect
  const job = await rig.app.jobs.find(sent.json.id)
  expect(job).toMatchObject({ status: 'failed', attemptCount: 1, maxAttempts: 1, manualRetry: 'off' })
  expect((await rig.as('operator').post(`/api/jobs/${sent.json.id}/retry`, { reason: 'again' })).status).toBe(409)
})

test('retention keeps the suspect of a search that still waits, however old it is, and removes that of one that is over', async () => {
  const folder = join(rig.folder, 'watermark/assets/suspects')
  await mkdir(folder, { recursive: true })
  const [waiting, over] = [rig.app.newId(), rig.app.newId()]
  await rig.app.submit(
    'watermark.detect',
    { campaignId: rig.app.newId(), fileName: 'a.png' },
    { id: waiting, delay: '30d' },
  )
  await rig.app.submit(
    'watermark.detect',
    { campaignId: rig.app.newId(), fileName: 'b.png' },
    { id: over, delay: '30d' },
  )
  await rig.app.jobs.cancel(over, { actor: 'olga', reason: 'a test' })
  for (const id of [waiting, over]) {
    writeFileSync(join(folder, id), 'a suspect')
    utimesSync(join(folder, id), new Date(0), new Date(0))
  }
  await rig.app.submit('watermark.retention', {})
  await rig.idle()
  expect([waiting, over].map((id) => existsSync(join(folder, id)))).toEqual([true, false])
  await rig.app.jobs.cancel(waiting, { actor: 'olga', reason: 'a test' })
})
