import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { Shown } from '../../../test/support/apps/client.ts'
import { turns, until } from '../../../test/support/until.ts'
import { Rig } from './rig.ts'
import { outOfMemory } from './stand-in.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})
beforeEach(() => {
  rig.media.onMark = () => undefined
})

/** A worker begins the copy and dies, and its lease runs out. */
async function loseWorkerOf(id: string): Promise<void> {
  const { onMark } = rig.media
  const made = rig.media.marked.length
  rig.media.onMark = () => new Promise(() => undefined)
  const dying = await rig.app.makeWorker({ pollMs: 2 ** 30 })
  await until('the copy is being made', async () => {
    await dying.tick()
    return rig.media.marked.slice(made).includes(id)
  })
  await rig.kit.clock.advance(100, () => turns(10))
  await dying.tick()
  dying.crash()
  await rig.kit.clock.advance(60_000)
  rig.media.onMark = onMark
}

test('a copy whose worker died is made by another worker and costs no retry [W5 W39 W40 W50]', async () => {
  await rig.kit.crashingWorker({ at: 'verify' })
  const { id, tokens } = await rig.published(['Rita'])
  const [token] = tokens
  await until('the worker is dead', async () => {
    await rig.kit.tick()
    return rig.media.marked.includes(token.id) && (await rig.app.jobs.find(token.id))?.status === 'processing'
  })
  await rig.advance('31m')
  expect(await rig.app.jobs.find(token.id)).toMatchObject({ status: 'complete', retryCount: 0 })
  expect((await rig.campaign(id)).tokens[0]).toMatchObject({ state: 'ACTIVE', retryCount: 0 })
  expect(rig.media.marked.filter((one) => one === token.id)).toHaveLength(2)
})

test('a copy of a dead worker goes back to PENDING without start, progress and delay, and keeps its retry count [W5 W40]', async () => {
  rig.media.onMark = () => {
    throw outOfMemory()
  }
  const [{ id }] = (await rig.published(['Rita'])).tokens
  await rig.idle()
  rig.media.onMark = () => undefined
  await rig.kit.clock.advance(60_000)
  await loseWorkerOf(id)
  const other = await rig.app.makeWorker({ pollMs: 2 ** 30 })
  await other.enlist()
  expect(await other.maintain()).toEqual({ requeued: 1, failed: 0, cancelled: 0, reported: 0 })
  expect(await rig.app.jobs.find(id)).toMatchObject({
    ...{ status: 'queued', retryCount: 1, startedAt: null, progress: 0, retryAfter: null, worker: null },
  })
  other.crash()
  await rig.idle()
  expect(await rig.app.jobs.find(id)).toMatchObject({ status: 'complete', retryCount: 1 })
})

test('a copy that loses six workers in a row is quarantined, and none of them costs a retry [W40]', async () => {
  const [{ id }] = (await rig.published(['Rita'])).tokens
  const other = await rig.app.makeWorker({ pollMs: 2 ** 30 })
  await other.enlist()
  for (let lost = 1; lost <= 6; lost++) {
    await loseWorkerOf(id)
    await other.maintain()
    expect(await rig.app.jobs.find(id)).toMatchObject({ status: lost < 6 ? 'queued' : 'failed', retryCount: 0 })
  }
  expect(await rig.app.jobs.find(id)).toMatchObject({ errorCode: 'QUARANTINED' })
  other.crash()
})

test('a copy that hangs in a live worker is reset after 30 minutes and costs no retry [W39 W40 W50]', async () => {
  const { id, tokens } = await rig.published(['Rita'])
  let isHung = true
  rig.media.onMark = () => (isHung ? new Promise(() => undefined) : undefined)
  await until('it is being made', async () => {
    await rig.kit.tick()
    return (await rig.app.jobs.find(tokens[0].id))?.status === 'processing'
  })
  await rig.kit.advance('29m')
  expect(await rig.app.jobs.find(tokens[0].id)).toMatchObject({ status: 'processing', attemptCount: 1 })
  isHung = false
  await rig.advance('2m')
  expect(await rig.app.jobs.find(tokens[0].id)).toMatchObject({ status: 'complete', retryCount: 0 })
  expect((await rig.campaign(id)).tokens[0]).toMatchObject({ state: 'ACTIVE', retryCount: 0 })
})

test('maintenance resets stuck copies, warns with their count, and logs an error when it fails [W41]', async () => {
  const { id, tokens } = await rig.published(['Rita', 'Sam'])
  const ids: string[] = tokens.map((token: Shown) => token.id)
  rig.media.onMark = () => new Promise(() => undefined)
  const dying = await rig.app.makeWorker({ pollMs: 2 ** 30 })
  await until('both are being made', async () => {
    await dying.tick()
    return ids.every((token) => rig.media.marked.includes(token))
  })
  dying.crash()
  const { clock } = rig.kit
  await clock.advance(31 * 60_000)
  const logged = rig.log.lines.length
  const lines = (level: string) => rig.log.lines.slice(logged).filter((line) => line.level === level)
  const counted = () => lines('warn').filter(({ fields }) => fields.count !== undefined)
  const store = await rig.app.store()
  const { stalled } = store
  store.stalled = () => Promise.reject(new Error('the disk is away'))
  const cleaning = await rig.app.makeWorker({ maintenanceMs: 30_000, pollMs: 2 ** 30, log: rig.log })
  await cleaning.start()
  await clock.advance(30_000, () => turns(20))
  expect(lines('error')).toHaveLength(1)
  expect(lines('warn')).toEqual([])
  store.stalled = stalled
  rig.media.onMark = () => undefined
  await clock.advance(30_000, () => turns(20))
  await until('both are made', async () => {
    await clock.advance(10, () => turns(5))
    return (await rig.campaign(id)).state === 'READY'
  })
  expect(counted()).toMatchObject([{ fields: { count: 2, requeued: 2 } }])
  expect(
    lines('warn')
      .flatMap(({ fields }) => fields.job_id ?? [])
      .toSorted(),
  ).toEqual(ids.toSorted())
  await clock.advance(60_000, () => turns(20))
  expect(counted()).toHaveLength(1)
  cleaning.crash()
})
