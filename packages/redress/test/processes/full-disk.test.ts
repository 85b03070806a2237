import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Actor, look, program, scratchFile } from '../../../../test/support/processes/processes.ts'
import { did, size } from '../../../../test/support/size.ts'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import { artifactStore } from '../../src/artifacts/open.ts'
import { rule } from '../../src/core/failure/classify.ts'
import { failureCodes } from '../../src/core/failure/taxonomy.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { FullDiskSetup } from './fixtures/full-disk.ts'

const WORKER = { concurrency: 4, pollMs: 20, maintenanceMs: 200 }
const TYPES: Record<string, PolicyInput> = { any: { orphan: 'requeue' } }

const start = (setup: FullDiskSetup): Actor => program('full-disk', [JSON.stringify(setup)], setup.file)

const acknowledged = ({ said }: Actor): string[] =>
  said.flatMap((line) => (line.said === 'acknowledged' ? (line.jobId ?? []) : []))
const refusals = ({ said }: Actor) => said.filter((line) => line.said === 'refused')
const logged = ({ said }: Actor) => said.filter((line) => line.said === 'logged')

/** Answers nobody until it is told to: a handler that asks it goes on for so long. */
async function gate(): Promise<{ port: number; open(): void }> {
  const waiting: (() => void)[] = []
  let isOpen = false
  const server: Server = createServer((_request, response) => {
    if (isOpen) response.end()
    else waiting.push(() => response.end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const open = () => {
    isOpen = true
    for (const answer of waiting) answer()
  }
  return { port: (server.address() as AddressInfo).port, open }
}

function checkFile(file: string): void {
  const database = new DatabaseSync(file)
  expect(database.prepare('PRAGMA integrity_check').all()).toEqual([{ integrity_check: 'ok' }])
  database.close()
}

test('where only root may mount, all of this is tried in a namespace in which we are root', async ({ skip }) => {
  if (process.getuid?.() === 0) skip('root mounts here, and the tests below do')
  const run = promisify(execFile)
  try {
    await run('unshare', ['--user', '--map-root-user', '--mount', 'true'])
  } catch (error) {
    const why = `this machine gives nobody a namespace: ${String(error).split('\n')[0]}`
    console.warn(`Not tried on a full disk: ${why}`)
    skip(why)
  }
  const vitest = join(import.meta.dirname, '../../../../node_modules/vitest/vitest.mjs')
  const inside = [process.execPath, vitest, 'run', import.meta.filename]
  const { stdout } = await run('unshare', ['--user', '--map-root-user', '--mount', ...inside])
  expect(stdout).toMatch(/Tests .*8 passed/)
}, 180_000)

describe('the disk of the store is full', () => {
  test('submissions are refused and say so; what was acknowledged is there; with room again, all of it is done', async (context) => {
    const disk = smallDisk(context, '30m')
    disk.fill({ butBytes: size(2_000_000, 3_000_000) })
    const file = join(disk.folder, 'redress.db')
    const submitter = start({ file, types: TYPES, flood: { type: 'any', bytes: 20_000 } })
    await until('it is refused', () => refusals(submitter).length >= 5)
    expect(new Set(refusals(submitter).map(({ code }) => code))).toEqual(new Set(['STORE_FULL']))
    const before = acknowledged(submitter)
    did({ acknowledged: before.length, refused: refusals(submitter).length })
    expect(before.length).toBeGreaterThan(20)
    // It cannot work either, and says why; it neither dies nor runs wild.
    const worker = start({ file, types: TYPES, worker: WORKER })
    await until('the worker has met the full disk', () => refusals(worker).length + logged(worker).length > 3)
    submitter.kill('SIGKILL')
    await submitter.ended
    disk.empty()
    await until('all of them are done', () => before.every((id) => isTold(worker, id)))
    const store = look(file)
    for (const id of acknowledged(submitter)) expect((await store.ended(id)).status).toBe('complete')
    worker.kill('SIGTERM')
    expect(await worker.ended).toEqual({ code: 0, signal: null })
    checkFile(file)
  }, 60_000)

  test('an outcome that cannot be recorded is kept, and recorded when there is room', async (context) => {
    const disk = smallDisk(context)
    const file = join(disk.folder, 'redress.db')
    const { port, open } = await gate()
    const worker = start({ file, types: TYPES, worker: WORKER })
    await worker.says({ said: 'ready' })
    const ids = await submitAll(file, 4, { untilAnswered: port })
    await until('all of them run', () =>
      ids.every((jobId) => worker.said.some((l) => l.said === 'begun' && l.jobId === jobId)),
    )
    disk.fill()
    await fillStore(file)
    open()
    await until('it says that outcomes are kept', () =>
      logged(worker).some(({ message }) => message === 'outcomes could not be recorded; will try again'),
    )
    expect(logged(worker).find(({ message }) => message?.startsWith('outcomes'))?.code).toBe('STORE_FULL')
    const store = look(file)
    for (const id of ids) expect((await store.row(id)).status).toBe('processing')
    disk.empty()
    for (const id of ids) expect(await store.ended(id)).toMatchObject({ status: 'complete', attempt: 1 })
    // Once: nothing was run again, and nothing was recorded twice.
    expect(worker.said.filter(({ said }) => said === 'begun')).toHaveLength(4)
    worker.kill('SIGTERM')
    expect(await worker.ended).toEqual({ code: 0, signal: null })
    checkFile(file)
  }, 60_000)

  test('an outcome is kept for longer than its lease: with room again, it counts and the work is not done twice', async (context) => {
    const disk = smallDisk(context)
    const file = join(disk.folder, 'redress.db')
    const types = { any: { orphan: 'requeue', lease: { ttl: '1s' } } } as const
    const { port, open } = await gate()
    const worker = start({ file, types, worker: WORKER })
    await worker.says({ said: 'ready' })
    const [id = ''] = await submitAll(file, 1, { untilAnswered: port }, types)
    await worker.says({ said: 'begun', jobId: id })
    const store = look(file)
    disk.fill()
    await fillStore(file)
    open()
    await until('it says that the outcome is kept', () =>
      logged(worker).some(({ message }) => message === 'outcomes could not be recorded; will try again'),
    )
    const leaseUntilMs = (await store.row(id)).lease?.untilMs ?? 0
    await until('its lease is over', async () => (await store.nowMs()) > leaseUntilMs + 2_000)
    disk.empty()
    expect(await store.ended(id)).toMatchObject({ status: 'complete', attempt: 1 })
    expect(worker.said.filter(({ said }) => said === 'begun')).toHaveLength(1)
  }, 60_000)

  test('a worker that is killed while it is full leaves a file that opens, and its jobs are done by the next', async (context) => {
    const disk = smallDisk(context)
    const file = join(disk.folder, 'redress.db')
    const types = { any: { orphan: 'requeue', lease: { ttl: '1s' } } } as const
    const { port, open } = await gate()
    const worker = start({ file, types, worker: WORKER })
    await worker.says({ said: 'ready' })
    const ids = await submitAll(file, 3, { untilAnswered: port }, types)
    await until('all of them run', () =>
      ids.every((jobId) => worker.said.some((l) => l.said === 'begun' && l.jobId === jobId)),
    )
    disk.fill()
    await fillStore(file)
    worker.kill('SIGKILL')
    await worker.ended
    open()
    // Nobody has the file open now: the next one has to repair it on a full disk, or says that it cannot.
    const next = start({ file, types, worker: WORKER })
    await until('the next one has met the full disk', () => refusals(next).length + logged(next).length > 0)
    for (const { code } of refusals(next)) expect(code).toBe('STORE_FULL')
    disk.empty()
    const store = look(file)
    for (const id of ids) expect((await store.ended(id)).status).toBe('complete')
    next.kill('SIGTERM')
    expect(await next.ended).toEqual({ code: 0, signal: null })
    checkFile(file)
  }, 60_000)

  test('a store cannot be made on it: the refusal says so, and it is made when there is room', async (context) => {
    const disk = smallDisk(context)
    disk.fill()
    const file = join(disk.folder, 'redress.db')
    const worker = start({ file, types: TYPES, worker: WORKER })
    await until('it is refused', () => refusals(worker).length > 2)
    expect(new Set(refusals(worker).map(({ code }) => code))).toEqual(new Set(['STORE_FULL']))
    disk.empty()
    await worker.says({ said: 'ready' })
    const [id = ''] = await submitAll(file, 1, {})
    expect((await look(file).ended(id)).status).toBe('complete')
  }, 60_000)

  test('nothing runs wild meanwhile: less and less is tried and told', async (context) => {
    const disk = smallDisk(context)
    const file = join(disk.folder, 'redress.db')
    const worker = start({ file, types: TYPES, worker: WORKER })
    await worker.says({ said: 'ready' })
    const ids = await submitAll(file, 50, {}).catch(() => [])
    await until('they are done', () => ids.every((id) => isTold(worker, id)))
    const [waiting = ''] = await submitAll(file, 1, {}, TYPES, 1_500)
    disk.fill()
    await fillStore(file)
    await until('a claim was refused', () =>
      logged(worker).some(({ message }) => message?.startsWith('claiming failed')),
    )
    const [toldBefore, cpuBefore, beganMs] = [logged(worker).length, cpuMs(worker), performance.now()]
    await until('some seconds have gone by', () => performance.now() - beganMs > 4_000)
    expect(logged(worker).length - toldBefore).toBeLessThan(40)
    expect(cpuMs(worker) - cpuBefore).toBeLessThan(2_000)
    disk.empty()
    expect((await look(file).ended(waiting)).status).toBe('complete')
  }, 60_000)
})

describe('the disk of the failure log is full', () => {
  const types: Record<string, PolicyInput> = {
    proxx: { audit: 'write-ahead', lease: { ttl: '1s', startTimeout: '1s' } },
    any: { orphan: 'requeue' },
  }

  test('what needs it is refused and not claimed, what does not goes on, and with room again it goes on too', async (context) => {
    // Large enough that the flood alone does not fill it: with room again, there must be room.
    const disk = smallDisk(context, '64m')
    const file = scratchFile()
    const failureLog = join(disk.folder, 'failures.jsonl')
    const worker = start({ file, failureLog, types, worker: WORKER })
    await worker.says({ said: 'ready' })
    const submitter = start({ file, failureLog, types, flood: { type: 'proxx', bytes: 10 } })
    await until('some are done', () => acknowledged(submitter).filter((id) => isTold(worker, id)).length > 20)
    disk.fill()
    await until('it is refused', () => refusals(submitter).length >= 3)
    expect(new Set(refusals(submitter).map(({ code }) => code))).toEqual(new Set(['FAILURE_LOG_FAILED']))
    const [other = ''] = await submitAll(file, 1, {}, { any: types.any as PolicyInput })
    const store = look(file)
    expect((await store.ended(other)).status).toBe('complete')
    disk.empty()
    const before = acknowledged(submitter).length
    await until('it is taken again', () => acknowledged(submitter).length > before + 20)
    submitter.kill('SIGKILL')
    await submitter.ended
    for (const id of acknowledged(submitter)) await store.ended(id)
    worker.kill('SIGTERM')
    await worker.ended
    const lines = readFileSync(failureLog, 'utf8').split('\n').filter(Boolean)
    const read = lines.flatMap((line) => jsonOf(line))
    // What was cut off is on a line of its own: it swallowed nothing that came after it.
    expect(lines.length - read.length).toBeLessThanOrEqual(5)
    const completed = new Set(read.flatMap((line) => (line.to === 'complete' ? [line.job_id] : [])))
    for (const id of acknowledged(submitter)) {
      if ((await store.row(id)).status === 'complete') expect(completed).toContain(id)
    }
    checkFile(file)
  }, 60_000)
})

describe('the disk of the artifacts is full', () => {
  test('the attempt that stores one fails with a code of its own, and one with room stores it', async (context) => {
    const disk = smallDisk(context)
    const artifacts = await artifactStore({ url: `file:${join(disk.folder, 'artifacts')}`, limits: {} })
    await artifacts.put('before', 'kept')
    const app = new App({ store: `sqlite:${scratchFile()}` })
    onTestFinished(() => app.stop())
    app.job('store', {
      codes: failureCodes({
        DISK_FULL: { fault: 'system', retry: 'transient', message: 'There is no room for the result.' },
      }),
      classify: [rule.errno('STORAGE_FULL', 'DISK_FULL')],
      policy: { retry: { max: 1000, backoff: { table: [20] } }, errors: 'latest' },
      run: async (_: unknown, attempt) => {
        await artifacts.put(`of-${attempt.jobId}`, Buffer.alloc(500_000, 7))
        return 'stored'
      },
    })
    disk.fill()
    const { id } = await app.submit('store', {})
    await app.work({ pollMs: 10 })
    await until('it has failed a few times', async () => (await app.jobs.failures(id)).failures.length > 3)
    expect(await app.jobs.find(id)).toMatchObject({ status: 'queued', errorCode: 'DISK_FULL' })
    disk.empty()
    await until('it is done', async () => (await app.jobs.find(id))?.status === 'complete')
    const keys = (await artifacts.list({ prefix: '' })).artifacts.map(({ key }) => key)
    expect(keys.toSorted()).toEqual(['before', `of-${id}`])
  }, 60_000)
})

const isTold = ({ said }: Actor, id: string): boolean =>
  said.some((line) => line.said === 'told' && line.jobId === id && line.to === 'complete')

async function submitAll(file: string, count: number, input: object, types = TYPES, delay = 0): Promise<string[]> {
  const app = new App({ store: `sqlite:${file}` })
  for (const [name, policy] of Object.entries(types)) app.job(name, { policy, run: () => undefined })
  const submitted = await app.submitMany(Object.keys(types)[0] as string, Array(count).fill(input), { delay })
  await app.stop()
  return submitted.map(({ id }) => id)
}

/** Uses up what a full disk still has in blocks that are in use already. */
async function fillStore(file: string): Promise<void> {
  const store = openSqlite({ path: file, nowMs: systemClock.nowMs })
  let refused: unknown = null
  for (let i = 0; refused === null && i < 10_000; i++) {
    await store.enlist({ id: `filler-${i}`, host: 'x'.repeat(1_000), pid: 1, types: [] }).catch((error: unknown) => {
      refused = error
    })
  }
  expect(refused).toMatchObject({ code: 'STORE_FULL' })
  await store.stop()
}

/** What the process has used of the processor, in user and system time. */
function cpuMs({ child }: Actor): number {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  const ticks = Number(fields[11]) + Number(fields[12])
  return ticks * 10
}

function jsonOf(line: string): { to?: string; job_id?: string }[] {
  try {
    return [JSON.parse(line)]
  } catch {
    return []
  }
}
