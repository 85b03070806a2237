import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { keepingLog } from '../../../../../test/support/scene.ts'
import { App } from '../../../src/app/app.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { VirtualClock } from '../../../src/runtime/clock.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { withWriteAhead } from '../../../src/store/decorators/write-ahead.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'

/** The audit side of Proxx: each change is a line on disk before it is a change in the store. */
const strict: PolicyInput = {
  audit: 'write-ahead',
  forwardOnly: true,
  reject: 'record',
  cancel: false,
  locked: true,
}

let folder: string
let clock: VirtualClock
let app: App
let logPath: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redress-'))
  clock = new VirtualClock()
  logPath = join(folder, 'failures.jsonl')
  app = new App({ store: `sqlite:${join(folder, 'redress.db')}`, clock, chance: () => 0 })
})

afterEach(async () => {
  await app.stop({ graceMs: 0 })
  rmSync(folder, { recursive: true })
})

const linesOf = (path: string): Record<string, unknown>[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))

test('a failure line has the time, job, class, reason, worker and states [P65]', async () => {
  const encode = app.job('encode', {
    policy: strict,
    run() {
      throw new Error('ffmpeg ended with 1')
    },
  })
  const { id } = await encode.submit({})
  const worker = await app.makeWorker()
  await worker.tick()

  const line = linesOf(logPath).at(-1)
  expect(line).toMatchObject({
    ts: '2026-01-01T00:00:00.000Z',
    job_id: id,
    class: 'execution',
    worker_id: worker.id,
    from: 'processing',
    to: 'failed',
  })
  expect(line?.reason).toContain('UNKNOWN')
  expect(line?.detail).toContain('ffmpeg ended with 1')
})

test("the worker's name is on disk before it gets the job [P18]", async () => {
  let linesWhenRun: Record<string, unknown>[] = []
  const encode = app.job('encode', {
    policy: strict,
    run: () => {
      linesWhenRun = linesOf(logPath)
    },
  })
  const { id } = await encode.submit({})
  const worker = await app.makeWorker()
  await worker.tick()
  expect(linesWhenRun).toContainEqual(
    expect.objectContaining({ job_id: id, from: 'queued', to: 'processing', worker_id: worker.id }),
  )
  expect(linesWhenRun).toContainEqual(expect.objectContaining({ job_id: id, event: 'started' }))
})

test('a refused submission leaves a log line with its job [P8]', async () => {
  const encode = app.job('encode', {
    policy: strict,
    admit: (_input, submission) => submission.fail('INPUT_INVALID', { detail: 'the clip is not there' }),
    run: () => undefined,
  })
  const { id, status } = await encode.submit({})
  expect(status).toBe('failed')
  expect(linesOf(logPath)).toContainEqual(
    expect.objectContaining({ job_id: id, class: 'pre_dispatch', from: null, to: 'failed', worker_id: null }),
  )
})

test('an orphan is logged when it is found, and its job is not changed [P55]', async () => {
  const encode = app.job('encode', { policy: strict, run: () => new Promise(() => undefined) })
  const { id } = await encode.submit({})
  const dying = await app.makeWorker()
  await dying.tick()
  dying.crash()
  await clock.advance(31_000)
  const other = await app.makeWorker()
  await other.tick()
  expect(await other.maintain()).toMatchObject({ reported: 1, requeued: 0, failed: 0 })
  expect(linesOf(logPath).at(-1)).toMatchObject({
    job_id: id,
    event: 'orphaned',
    worker_id: dying.id,
    to: 'processing',
  })
  const store = await app.store()
  expect((await store.job({ id }))?.status).toBe('processing')
})

test('the log line of an outcome is written before the state and before the next job of that slot [P66]', async () => {
  const seen: string[] = []
  const store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
  const log = {
    async append(entries: readonly object[]) {
      for (const entry of entries as { job_id: string; to: string }[]) {
        const job = await store.job({ id: entry.job_id })
        seen.push(`line ${entry.to}, state ${job?.status}`)
      }
    },
    close: async () => undefined,
  }
  const strictApp = new App({
    store: withWriteAhead(store, log),
    failureLog: join(folder, 'unused.jsonl'),
    clock,
    chance: () => 0,
  })
  const encode = strictApp.job('encode', {
    policy: strict,
    run: (input: { n: number }) => {
      seen.push(`run ${input.n}`)
      throw new Error('no')
    },
  })
  await encode.submit({ n: 1 })
  await encode.submit({ n: 2 })
  seen.length = 0
  const worker = await strictApp.makeWorker({ concurrency: 1 })
  await worker.tick()
  await worker.tick()
  expect(seen).toEqual([
    'line processing, state processing',
    'line processing, state processing',
    'run 1',
    'line failed, state processing',
    'line processing, state processing',
    'line processing, state processing',
    'run 2',
    'line failed, state processing',
  ])
  await strictApp.stop({ graceMs: 0 })
})

test('a job whose outcome cannot be logged fails and says so [P67]', async () => {
  const lines: object[] = []
  const store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
  const log = {
    async append(entries: readonly object[]) {
      // The disk fills up while the job runs.
      if (entries.some((entry) => (entry as { to: string }).to === 'complete')) throw new Error('ENOSPC: no space left')
      lines.push(...entries)
    },
    close: async () => undefined,
  }
  const strictApp = new App({
    store: withWriteAhead(store, log),
    failureLog: join(folder, 'unused.jsonl'),
    clock,
    chance: () => 0,
  })
  const encode = strictApp.job('encode', { policy: strict, run: () => 'done' })
  const { id } = await encode.submit({})
  const worker = await strictApp.makeWorker()
  await worker.tick()
  const job = await store.job({ id })
  expect(job).toMatchObject({ status: 'failed', result: null })
  expect(job?.latestFailure).toMatchObject({ code: 'LOG_FAILED', detail: expect.stringContaining('ENOSPC') })
  await strictApp.stop({ graceMs: 0 })
})

test('a submission is refused while the log cannot be written [P67]', async () => {
  // The kernel's own full disk: every write answers ENOSPC.
  const fullApp = new App({ store: `sqlite:${join(folder, 'full.db')}`, failureLog: '/dev/full', clock })
  const encode = fullApp.job('encode', { policy: strict, run: () => undefined })
  await expect(encode.submit({})).rejects.toMatchObject({ code: 'FAILURE_LOG_FAILED' })
  const store: Store = await fullApp.store()
  expect(await store.jobs({ limit: 10 })).toEqual([])
  await fullApp.stop({ graceMs: 0 })
})

test('a store without a folder refuses write-ahead types until the app names a failure log', async () => {
  const memoryApp = new App({ store: 'sqlite::memory:', clock })
  const encode = memoryApp.job('encode', { policy: strict, run: () => undefined })
  await expect(encode.submit({})).rejects.toMatchObject({ code: 'OPTION_INVALID' })
})

test('a failure log that breaks is reported once, and the jobs that need it wait until it can be written', async () => {
  const encode = app.job('encode', { policy: strict, run: () => 'done' })
  const { id } = await encode.submit({})
  const second = await encode.submit({})
  // A folder where the file was: the real file system refuses every line.
  const inTheWay = new App({
    store: `sqlite:${join(folder, 'redress.db')}`,
    failureLog: join(folder, 'blocked', 'failures.jsonl'),
    clock,
    chance: () => 0,
  })
  inTheWay.job('encode', { policy: strict, run: () => 'done' })
  writeFileSync(join(folder, 'blocked'), 'not a folder')
  const log = keepingLog()
  const worker = await inTheWay.makeWorker({ log, concurrency: 1 })
  for (let n = 0; n < 3; n++) await worker.tick()
  const told = log.lines.filter(({ message }) => message.startsWith('the failure log cannot be written'))
  expect(told).toHaveLength(1)
  const store = await inTheWay.store()
  // The first was claimed before anybody knew; the second was left alone.
  expect((await store.job({ id }))?.status).toBe('processing')
  expect((await store.job({ id: second.id }))?.status).toBe('queued')

  rmSync(join(folder, 'blocked'))
  await worker.tick()
  expect((await store.job({ id: second.id }))?.status).toBe('complete')
  await inTheWay.stop({ graceMs: 0 })
})

test('a claim that cannot be logged runs nothing and ends as a dispatch failure; other types that came with it run [P48 P67]', async () => {
  const store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
  let isBroken = false
  const log = {
    append: async () => {
      if (isBroken) throw new Error('no space left on the disk of the log')
    },
    close: async () => undefined,
  }
  const guarded = new App({ store: withWriteAhead(store, log), failureLog: logPath, clock, chance: () => 0 })
  let runs = 0
  guarded.job('encode', { policy: strict, run: () => runs++ })
  guarded.job('other', { run: () => 'ok' })
  const encodes = await guarded.submitMany('encode', [{}, {}, {}])
  const other = await guarded.submit('other', {})
  isBroken = true
  const worker = await guarded.makeWorker()
  await worker.tick()
  expect(await guarded.jobs.find(other.id)).toMatchObject({ status: 'complete' })
  worker.crash()
  isBroken = false
  await clock.advance(10 * 60_000)
  const next = await guarded.makeWorker()
  await next.enlist()
  await next.maintain()
  expect(runs).toBe(0)
  for (const { id } of encodes) {
    expect((await store.failures({ id })).at(-1)).toMatchObject({ code: 'NEVER_STARTED', phase: 'dispatch' })
  }
  next.crash()
  await guarded.stop({ graceMs: 0 })
  await store.stop()
})

test('a submission that the backlog has no room for was announced, and is then said to be turned away', async () => {
  const encode = app.job('encode', { policy: { ...strict, backlog: { max: 1 } }, run: () => undefined })
  await encode.submit({})
  await expect(encode.submit({})).rejects.toMatchObject({ code: 'BACKLOG_FULL' })
  const [, announced, refused] = linesOf(logPath)
  expect(announced).toMatchObject({ from: null, to: 'queued' })
  expect(refused).toMatchObject({ job_id: announced?.job_id, event: 'refused', reason: 'BACKLOG_FULL' })
})

test.each([
  ['a batch that the backlog has no room for', 'BACKLOG_FULL', { backlog: { max: 1 } }],
  ['a job for a batch that is sealed', 'BATCH_CLOSED', {}],
  ['a dead letter that another replay was quicker with', 'already-replayed', { deadLetter: 'queue' as const }],
])('%s was announced, and is then said to be turned away', async (_what, reason, parts) => {
  const run = () => {
    throw new Error('it fails')
  }
  const encode = app.job('encode', { policy: { ...strict, ...parts }, run })
  await encode.submit({})
  const by = { actor: 'ann', reason: 'again' }
  if (reason === 'BACKLOG_FULL') {
    await expect(app.batches.create('full', { jobs: [encode.request({})] })).rejects.toMatchObject({ code: reason })
  } else if (reason === 'BATCH_CLOSED') {
    const sealed = await app.batches.create('sealed', { jobs: [] })
    await expect(sealed.add(encode, {})).rejects.toMatchObject({ code: reason })
  } else {
    await (await app.makeWorker()).tick()
    const replays = [app.deadLetters.replay(1, by), app.deadLetters.replay(1, by)]
    const ended = await Promise.allSettled(replays)
    expect(ended.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  }
  const refused = linesOf(logPath).at(-1)
  expect(refused).toMatchObject({ event: 'refused', reason })
  const announced = linesOf(logPath).filter(({ job_id }) => job_id === refused?.job_id)
  expect(announced[0]).toMatchObject({ from: null, to: 'queued' })
})
