import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { until } from '../../../../test/support/until.ts'
import { markFailed } from '../../src/operations.ts'
import { LOCK_NAME, lockDirectory } from '../../src/transcode/lock.ts'
import type { ProxxJob } from '../../src/view.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()
let clip: string

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
})

const lockIn = (directory: string): string => join(directory, LOCK_NAME)
const holding = (directory: string, holder: object) => writeFileSync(lockIn(directory), `${JSON.stringify(holder)}\n`)

function expectDispatch(of: Rig, job: ProxxJob, code: string): void {
  expect(job).toMatchObject({
    status: 'failed',
    executionAttempted: false,
    startedAt: null,
    error: { type: 'dispatch_failed', class: 'dispatch', owner: 'coordination', code, worker: 'node-1', clip: null },
  })
  expect(of.failureLine(job.id)).toMatchObject({
    class: 'dispatch',
    owner: 'coordination',
    code,
    worker_id: 'node-1',
    from: 'processing',
  })
  expect(existsSync(join(of.proxx.settings.jobs, job.id, 'stderr.log'))).toBe(false)
}

describe('the lock of an output directory', () => {
  test('an output directory locked by another holder is a dispatch failure and the lock stays [P11 P12 P17 P64]', async () => {
    const spec = rig.spec([clip])
    const holder = { job: 'of another store', host: 'another machine', pid: 1, at: '2030-01-01T00:00:00.000Z' }
    holding(spec.output.directory, holder)
    const job = await rig.done(spec)
    expectDispatch(rig, job, 'DISPATCH_LOCKED')
    expect(job.error?.detail).toContain('another machine')
    expect(JSON.parse(readFileSync(lockIn(spec.output.directory), 'utf8'))).toEqual(holder)
    expect(filesIn(spec.output.directory)).toEqual([LOCK_NAME])
  })

  test('the lock names its job, is logged, and is released when the job completes or fails [P18 P64]', async () => {
    const seen = rig.path('seen')
    withFfmpeg(rig.folder, `cp "$(dirname "$OUT")/${LOCK_NAME}" '${seen}' 2>/dev/null`)
    const good = await rig.done(rig.spec([clip]))
    expect(JSON.parse(readFileSync(seen, 'utf8'))).toMatchObject({ job: good.id, host: hostname(), pid: process.pid })
    withFfmpeg(rig.folder, 'if [ $STAGE = encode ]; then exit 1; fi')
    const bad = await rig.done(rig.spec([clip]))
    for (const job of [good, bad]) {
      const { directory } = (job.spec as { output: { directory: string } }).output
      expect(existsSync(lockIn(directory))).toBe(false)
      const events = rig.log.lines.flatMap(({ fields }) =>
        fields.job_id === job.id && fields.event ? [fields.event] : [],
      )
      expect(events.filter((event) => String(event).startsWith('lock'))).toEqual(['lock_acquired', 'lock_released'])
    }
    expect(rig.lines(good.id)).toContainEqual(
      expect.objectContaining({ from: 'pending', to: 'processing', worker_id: 'node-1' }),
    )
  })

  test('of two stores that use one output directory, one job completes and the other fails without harm [P48 P64]', async () => {
    const other = Rig.forTest()
    const directory = rig.output()
    const spec = (naming: string) => ({ ...rig.spec([clip]), output: { directory, naming } })
    const go = rig.path('go')
    withFfmpeg(rig.folder, `while [ ! -e '${go}' ]; do sleep 0.02; done`)
    const first = await rig.submit(spec('one'))
    const worker = await rig.worker()
    await until('the first one has the lock', async () => {
      await worker.tick()
      return existsSync(lockIn(directory))
    })
    const second = await other.done(spec('two'))
    expectDispatch(other, second, 'DISPATCH_LOCKED')
    writeFileSync(go, '')
    expect(await rig.ended(first.id)).toMatchObject({ status: 'complete' })
    expect(filesIn(directory)).toEqual(['one.mov'])
  })

  test('jobs of one store that share an output directory wait as pending and do not fail [P13 P15 P64]', async () => {
    const directory = rig.output()
    const go = rig.path('go-on')
    withFfmpeg(rig.folder, `while [ ! -e '${go}' ]; do sleep 0.02; done`)
    const ids: string[] = []
    for (const naming of ['one', 'two', 'three']) {
      ids.push((await rig.submit({ ...rig.spec([clip]), output: { directory, naming } })).id)
    }
    const worker = await rig.worker()
    await until('the first one runs', async () => {
      await worker.tick()
      return existsSync(lockIn(directory))
    })
    await worker.tick()
    const states = await Promise.all(ids.map(async (id) => (await rig.job(id)).status))
    expect(states).toEqual(['processing', 'pending', 'pending'])
    writeFileSync(go, '')
    for (const id of ids) expect(await rig.ended(id)).toMatchObject({ status: 'complete' })
    expect(filesIn(directory)).toEqual(['one.mov', 'three.mov', 'two.mov'])
  })

  test('the lock of a dead worker is removed only after its job has ended [P19 P64]', async () => {
    const directory = rig.output()
    const spec = { ...rig.spec([clip]), output: { directory, naming: '{index}' } }
    const dead = await rig.submit({ ...rig.spec([clip]) })
    const holder = { job: dead.id, host: hostname(), pid: 2 ** 22 + 1, at: '2030-01-01T00:00:00.000Z' }
    holding(directory, holder)
    const log = keepingLog()
    const isOver = async (id: string) => (await rig.job(id)).finishedAt !== null
    const lock = () => lockDirectory(directory, rig.app.newId(), { log, nowMs: 0, isOver })
    await expect(lock()).rejects.toMatchObject({ holder })
    await markFailed(rig.proxx, dead.id, { actor: 'ann', reason: 'its machine is gone' })
    expect(await rig.done(spec)).toMatchObject({ status: 'complete' })
    expect(rig.log.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', fields: expect.objectContaining({ event: 'lock_abandoned', holder }) }),
    )
    expect(filesIn(directory)).toEqual(['001.mov'])
  })

  test('the lock of a live process or of an unknown job is never removed [P19 P64]', async () => {
    const directory = rig.output()
    const { id } = await rig.submit(rig.spec(['/nowhere.mov']))
    const isOver = async (job: string) => job === id
    const lock = () =>
      lockDirectory(directory, rig.app.newId(), { log: keepingLog(), nowMs: 0, isOver, patienceMs: 300 })
    const dead = { job: id, host: hostname(), pid: 2 ** 22 + 1, at: '2030-01-01T00:00:00.000Z' }
    const others = [
      { ...dead, pid: process.ppid },
      { ...dead, job: 'of another store' },
      { ...dead, job: 'of another store', host: 'another machine' },
    ]
    for (const holder of others) {
      holding(directory, holder)
      await expect(lock()).rejects.toMatchObject({ name: 'DirectoryLocked', holder })
      expect(JSON.parse(readFileSync(lockIn(directory), 'utf8'))).toEqual(holder)
    }
    holding(directory, dead)
    await (await lock())()
    expect(filesIn(directory)).toEqual([])
  })

  test('of several claimants exactly one takes over the lock of a dead process [P48 P64]', async () => {
    const directory = rig.output()
    const ended = rig.app.newId()
    const isOver = async (job: string) => job === ended
    for (let round = 0; round < 20; round++) {
      holding(directory, { job: ended, host: hostname(), pid: 2 ** 22 + 1, at: '2030-01-01T00:00:00.000Z' })
      const lock = () =>
        lockDirectory(directory, rig.app.newId(), { log: keepingLog(), nowMs: 0, isOver, patienceMs: 0 })
      const ends = await Promise.allSettled([lock(), lock(), lock()])
      const got = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
      const refused = ends.flatMap((end) => (end.status === 'rejected' ? [(end.reason as Error).name] : []))
      expect([got.length, refused]).toEqual([1, ['DirectoryLocked', 'DirectoryLocked']])
      await got[0]?.()
      expect(filesIn(directory)).toEqual([])
    }
  })

  test('the lock is released when the job file cannot be written [P64]', async () => {
    const spec = rig.spec([clip])
    const { id } = await rig.submit(spec)
    const file = rig.proxx.files.pathOf(id)
    rmSync(file)
    mkdirSync(join(file, 'in the way'), { recursive: true })
    expectDispatch(rig, await rig.ended(id), 'DISPATCH_NO_RESOURCES')
    expect(filesIn(spec.output.directory)).toEqual([])
  })

  test('a lock file that proxx did not write is never removed [P64]', async () => {
    const spec = rig.spec([clip])
    writeFileSync(lockIn(spec.output.directory), 'do not touch\n')
    expectDispatch(rig, await rig.done(spec), 'DISPATCH_LOCKED')
    expect(readFileSync(lockIn(spec.output.directory), 'utf8')).toBe('do not touch\n')
  })
})

describe('a worker that lacks a resource rejects the job after the claim', () => {
  test('a worker rejects a claimed job when the output directory is missing [P11 P14]', async () => {
    const spec = rig.spec([clip])
    const { id } = await rig.submit(spec)
    rmSync(spec.output.directory, { recursive: true })
    expectDispatch(rig, await rig.ended(id), 'DISPATCH_NO_RESOURCES')
  })

  test('a worker rejects a claimed job when the disk has no room for the lock [P11]', async (context) => {
    const disk = smallDisk(context, '3m')
    const { id } = await rig.submit({ ...rig.spec([clip]), output: { directory: disk.folder, naming: 'x' } })
    disk.fill()
    expectDispatch(rig, await rig.ended(id), 'DISPATCH_NO_RESOURCES')
    expect(filesIn(disk.folder)).toEqual(['ballast'])
  })

  test('a worker rejects a claimed job when less disk space is free than the reserve [P11]', async () => {
    const careful = Rig.forTest()
    const { id } = await careful.submit(careful.spec([clip]))
    careful.proxx.settings.freeBytesMin = 2 ** 60
    expectDispatch(careful, await careful.ended(id), 'DISPATCH_NO_RESOURCES')
  })

  test('a worker rejects a claimed job when ffmpeg is missing [P11]', async () => {
    const { id } = await rig.submit(rig.spec([clip]))
    withFfmpeg(rig.folder, '')
    process.env.FFMPEG_PATH = '/nowhere/ffmpeg'
    expectDispatch(rig, await rig.ended(id), 'PROGRAM_MISSING')
  })
})

describe('the claim of a job', () => {
  test('of several workers that race for one job, one gets it and the others leave no trace [P11 P15]', async () => {
    const own = Rig.forTest()
    withFfmpeg(own.folder, '')
    const workers = await Promise.all(
      ['node-1', 'node-2', 'node-3'].map((id) => own.app.makeWorker({ id, log: own.log, pollMs: 600_000 })),
    )
    const { id } = await own.submit(own.spec([clip]))
    const job = await until('the job has ended', async () => {
      await Promise.all(workers.map((worker) => worker.tick()))
      const view = await own.job(id)
      return view.finishedAt !== null && view
    })
    expect(job).toMatchObject({ status: 'complete', error: null })
    const kinds = (await own.app.jobs.events(id)).events.map(({ kind }) => kind).filter((kind) => kind !== 'started')
    expect(kinds).toEqual(['queued', 'processing', 'complete'])
    expect(own.lines(id).filter(({ from, to }) => from === 'pending' && to === 'processing')).toHaveLength(1)
  })

  test('a claim that fails on the network leaves the job pending, and a lost answer is a dispatch failure [P11 P13 P14]', async () => {
    const own = Rig.forTest({ env: { PROXX_LEASE_SEC: '1' } })
    const { id } = await own.submit(own.spec([clip]))
    const store = await own.app.store()
    const { claim } = store
    store.claim = () => Promise.reject(new Error('the network is unreachable'))
    const deaf = await own.app.makeWorker({ id: 'node-1', log: own.log, pollMs: 600_000 })
    await deaf.tick()
    expect(await own.job(id)).toMatchObject({ status: 'pending', error: null })
    store.claim = async (params) => {
      await claim(params)
      throw new Error('the connection was reset')
    }
    await deaf.tick()
    expect(await own.job(id)).toMatchObject({ status: 'processing' })
    deaf.crash()
    store.claim = claim
    const other = await own.app.makeWorker({ id: 'node-2', log: own.log, pollMs: 600_000 })
    await other.enlist()
    await until('the lease has run out', async () => (await other.maintain()).failed === 1)
    expectDispatch(own, await own.job(id), 'NEVER_STARTED')
  })

  test('a worker that is told to stop right after its claim fails the dispatch [P11 P14]', async () => {
    const own = Rig.forTest()
    const { id } = await own.submit(own.spec([clip]))
    const store = await own.app.store()
    const [{ claim }, answer] = [store, Promise.withResolvers<void>()]
    store.claim = async (params) => {
      const claimed = await claim(params)
      await answer.promise
      return claimed
    }
    const stopping = await own.app.makeWorker({ id: 'node-1', log: own.log, pollMs: 600_000 })
    const ticking = stopping.tick()
    await until('it is claimed', async () => (await own.job(id)).status === 'processing')
    const stopped = stopping.stop({ graceMs: 10_000 })
    answer.resolve()
    await Promise.all([ticking, stopped])
    expectDispatch(own, await own.job(id), 'SHUTDOWN')
  })
})
