import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { markFailed } from '../../../apps/proxx/desk.ts'
import { LOCK_NAME, lockDirectory } from '../../../apps/proxx/lock.ts'
import type { ProxxJob } from '../../../apps/proxx/view.ts'
import { keepingLog } from '../../support/scene.ts'
import { smallDisk } from '../../support/small-disk.ts'
import { until } from '../../support/until.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from './clips.ts'
import { filesIn, Rig } from './rig.ts'

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
  expect(existsSync(join(of.desk.settings.jobs, job.id, 'stderr.log'))).toBe(false)
}

describe('P64 the lock of an output directory', () => {
  test('P11 P12 P17 that somebody else holds is a dispatch failure: nothing began, and the lock is left alone', async () => {
    const spec = rig.spec([clip])
    const holder = { job: 'of another store', host: 'another machine', pid: 1, at: '2030-01-01T00:00:00.000Z' }
    holding(spec.output.directory, holder)
    const job = await rig.done(spec)
    expectDispatch(rig, job, 'DISPATCH_LOCKED')
    expect(job.error?.detail).toContain('another machine')
    expect(JSON.parse(readFileSync(lockIn(spec.output.directory), 'utf8'))).toEqual(holder)
    expect(filesIn(spec.output.directory)).toEqual([LOCK_NAME])
  })

  test('P18 is there while a job runs, names it, is logged, and is gone when the job is complete or failed', async () => {
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

  test('P48 two workers of two stores in one directory: one makes its outputs, the other fails, and neither harms the other', async () => {
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

  test('P13 P15 jobs of one store wait for each other instead: they stay pending, and nobody finds the lock taken', async () => {
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

  test('P19 of a dead worker is taken away only when its job has ended', async () => {
    const directory = rig.output()
    const spec = { ...rig.spec([clip]), output: { directory, naming: '{index}' } }
    const dead = await rig.submit({ ...rig.spec([clip]) })
    const holder = { job: dead.id, host: hostname(), pid: 2 ** 22 + 1, at: '2030-01-01T00:00:00.000Z' }
    holding(directory, holder)
    const log = keepingLog()
    const isOver = async (id: string) => (await rig.job(id)).finishedAt !== null
    const lock = () => lockDirectory(directory, rig.app.newId(), { log, nowMs: 0, isOver })
    await expect(lock()).rejects.toMatchObject({ holder })
    await markFailed(rig.desk, dead.id, { actor: 'ann', reason: 'its machine is gone' })
    expect(await rig.done(spec)).toMatchObject({ status: 'complete' })
    expect(rig.log.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', fields: expect.objectContaining({ event: 'lock_abandoned', holder }) }),
    )
    expect(filesIn(directory)).toEqual(['001.mov'])
  })

  test('P19 of a live process is never taken away, not even when its job is over; nor is that of a job nobody here knows', async () => {
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

  test('P48 of a dead process is taken by one of those who want it, and the others find it taken', async () => {
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

  test('is let go of, too, when the job file cannot be written behind it', async () => {
    const spec = rig.spec([clip])
    const { id } = await rig.submit(spec)
    const file = rig.desk.files.pathOf(id)
    rmSync(file)
    mkdirSync(join(file, 'in the way'), { recursive: true })
    expectDispatch(rig, await rig.ended(id), 'DISPATCH_NO_RESOURCES')
    expect(filesIn(spec.output.directory)).toEqual([])
  })

  test('that is not one of ours is nobody’s to remove', async () => {
    const spec = rig.spec([clip])
    writeFileSync(lockIn(spec.output.directory), 'do not touch\n')
    expectDispatch(rig, await rig.done(spec), 'DISPATCH_LOCKED')
    expect(readFileSync(lockIn(spec.output.directory), 'utf8')).toBe('do not touch\n')
  })
})

describe('P11 a worker that has not what the job needs rejects it after the claim', () => {
  test('no output directory any more', async () => {
    const spec = rig.spec([clip])
    const { id } = await rig.submit(spec)
    rmSync(spec.output.directory, { recursive: true })
    expectDispatch(rig, await rig.ended(id), 'DISPATCH_NO_RESOURCES')
  })

  test('no room: not even for the lock', async (context) => {
    const disk = smallDisk(context, '3m')
    const { id } = await rig.submit({ ...rig.spec([clip]), output: { directory: disk.folder, naming: 'x' } })
    disk.fill()
    expectDispatch(rig, await rig.ended(id), 'DISPATCH_NO_RESOURCES')
    expect(filesIn(disk.folder)).toEqual(['ballast'])
  })

  test('less room than is to be kept free', async () => {
    const careful = Rig.forTest()
    const { id } = await careful.submit(careful.spec([clip]))
    careful.desk.settings.freeBytesMin = 2 ** 60
    expectDispatch(careful, await careful.ended(id), 'DISPATCH_NO_RESOURCES')
  })

  test('no ffmpeg', async () => {
    const { id } = await rig.submit(rig.spec([clip]))
    withFfmpeg(rig.folder, '')
    process.env.FFMPEG_PATH = '/nowhere/ffmpeg'
    expectDispatch(rig, await rig.ended(id), 'PROGRAM_MISSING')
  })
})
