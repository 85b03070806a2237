import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openRaw, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { newBatch } from '../../src/store/conformance/bench/batch-bench.ts'
import { Bench } from '../../src/store/conformance/bench/bench.ts'
import type { Connection } from '../../src/store/sqlite/connection/connection.ts'
import { openLongReads } from '../../src/store/sqlite/connection/long-reads.ts'
import { Slices } from '../../src/store/sqlite/connection/slices.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

/** More than what each read takes in one step. */
const JOBS = 45_000
const LETTERS = 4_500
const ACTS = 11_000

const counted = (to: number) =>
  `WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${to})`

async function largeStore() {
  const path = join(temporaryFolder(), 'redress.db')
  const bench = await Bench.set(({ nowMs }) => openSqlite({ path, nowMs }), 'large')
  onTestFinished(() => bench.stop())
  await bench.store.openBatch({ batch: newBatch(bench, { id: 'b-1' }), jobs: [bench.newJob()] })
  const raw = openRaw(path)
  raw.exec(`
    PRAGMA synchronous = OFF;
    ${counted(JOBS)} INSERT INTO job_specs (id, type, payload, owner, created_at, batch)
      SELECT 'job-' || n, (SELECT key FROM job_types WHERE name = 'plain'), '{}', 'owner-' || (n % 10), 0,
        (SELECT key FROM batches WHERE id = 'b-1') FROM counted;
    INSERT INTO jobs (key, type, status, priority, queued_at, attempt, forward_only, finished_at, result)
      SELECT key, type, 'complete', 0, 0, 1, 0, 0, '{"pages":2}' FROM job_specs WHERE id GLOB 'job-*';
    ${counted(LETTERS)} INSERT INTO failures (seq, job, at, attempt, stage, owner, code, fault, message, waiting, detail, rule,
        fingerprint, to_status, decision)
      SELECT n, (SELECT key FROM job_specs WHERE id = 'job-' || n), 0, 1, 'execution', 'worker',
        CASE WHEN n % 1500 = 0 THEN 'RARE' ELSE 'OFTEN' END, 'code', '', '', '', '', 'f', 'failed', '{}' FROM counted;
    INSERT INTO dead_letters (job, failure, attempts, at) SELECT job, seq, 1, 0 FROM failures ORDER BY seq;
    ${counted(ACTS)} INSERT INTO audit (at, actor, act, reason, target, ids)
      SELECT n, CASE WHEN n % 5000 = 1 THEN 'rare' ELSE 'often' END, 'jobs.retry', '', 'job', '[]' FROM counted;`)
  return { path, bench, raw, store: bench.store }
}

test('a scan of a whole table of an embedded store runs in steps, with the same result as in one', async () => {
  const { store } = await largeStore()
  expect(await store.counts()).toMatchObject([{ type: 'plain', complete: JOBS, queued: 1 }])
  expect(await store.batchSum({ id: 'b-1', field: 'pages' })).toBe(2 * JOBS)
  expect(await store.batchSum({ id: 'no-such', field: 'pages' })).toBe(0)
  expect(await store.countDeadLetters({})).toEqual({
    letters: LETTERS,
    lastOffset: LETTERS,
    byCause: [
      { type: 'plain', code: 'OFTEN', letters: LETTERS - 3 },
      { type: 'plain', code: 'RARE', letters: 3 },
    ],
  })
  const offsets = async (params: Parameters<typeof store.deadLetters>[0]) =>
    (await store.deadLetters(params)).map(({ offset }) => offset)
  expect(await offsets({ code: 'RARE', afterOffset: 0, limit: 10 })).toEqual([1_500, 3_000, 4_500])
  expect(await offsets({ code: 'RARE', afterOffset: 1_500, limit: 1 })).toEqual([3_000])
  expect(await offsets({ code: 'RARE', afterOffset: 0, limit: 2, isNewestFirst: true })).toEqual([4_500, 3_000])
  expect(await offsets({ code: 'RARE', afterOffset: 3_000, limit: 2, isNewestFirst: true })).toEqual([1_500])
  expect(await offsets({ code: 'NONE', afterOffset: 0, limit: 2 })).toEqual([])
  const acts = await store.auditTrail({ filter: { actor: 'rare' }, beforeSeq: null, limit: 10 })
  expect(acts.map(({ atMs }) => atMs)).toEqual([10_001, 5_001, 1])
  expect(await store.auditTrail({ filter: {}, beforeSeq: 3, limit: 10 })).toHaveLength(2)
})

test('the jobs under way of a large batch are counted, also those whose worker is gone', async () => {
  const { store, bench, raw } = await largeStore()
  raw.exec(`UPDATE batches SET total = ${JOBS + 1}, complete = ${JOBS}, unfinished = 1 WHERE id = 'b-1'`)
  expect(await store.batch({ id: 'b-1' })).toMatchObject({ unfinished: 1, processing: 0 })
  const worker = await bench.worker()
  const lease = await worker.claimOne()
  expect(await store.batch({ id: 'b-1' })).toMatchObject({ unfinished: 1, processing: 1 })
  await bench.expireLeases()
  await bench.reclaim(lease, { to: 'orphaned' })
  expect(await store.batch({ id: 'b-1' })).toMatchObject({ unfinished: 1, processing: 1 })
})

test('a caller that reads without end lets others have their turn', async () => {
  const { store } = await Bench.set(({ nowMs }) => openSqlite({ path: ':memory:', nowMs }), 'reads')
  onTestFinished(() => store.stop())
  let isTurned = false
  setImmediate(() => {
    isTurned = true
  })
  // Bounded, for without turns this loop would keep the test itself from being ended.
  const endMs = performance.now() + 2_000
  while (!isTurned && performance.now() < endMs) await store.job({ id: 'none' })
  expect(isTurned).toBe(true)
})

test('reads that had to wait for their turn are made in their order, and a failed one harms none after it', async () => {
  const slices = new Slices(0)
  const made: string[] = []
  const read = async (name: string) => {
    const task = (): void => {
      made.push(name)
      if (name === 'second') throw new Error('cannot be read')
    }
    if (slices.isSpent) await slices.later(task)
    else task()
  }
  const reads = ['first', 'second', 'third', 'fourth'].map(read)
  expect(made).toEqual(['first'])
  expect((await Promise.allSettled(reads)).map(({ status }) => status)).toEqual([
    ...['fulfilled', 'rejected', 'fulfilled', 'fulfilled'],
  ])
  expect(made).toEqual(['first', 'second', 'third', 'fourth'])
})

test('all steps of a long read see the same moment', async () => {
  const path = join(temporaryFolder(), 'redress.db')
  const raw = openRaw(path)
  raw.exec('PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER)')
  const connection: Connection = { database: raw, prepare: raw.prepare.bind(raw) }
  const add = raw.prepare('INSERT INTO numbers (n) VALUES (1)')
  const read = async <T>(_doing: string, run: () => T): Promise<T> => {
    const answer = run()
    // What others commit between two steps.
    add.run()
    return answer
  }
  const readInSteps = openLongReads(path, connection, read)
  const seen = await readInSteps('counting', function* (on) {
    const counts: unknown[] = []
    for (let step = 0; step < 5; step++) {
      counts.push(on.prepare('SELECT count(*) AS n FROM numbers').get()?.n)
      yield
    }
    return counts
  })
  expect(seen).toEqual([1, 1, 1, 1, 1])
  expect(raw.prepare('SELECT count(*) AS n FROM numbers').get()).toEqual({ n: 7 })
})

test('a failed step fails the whole read, and its connection is closed', async () => {
  const path = join(temporaryFolder(), 'redress.db')
  const raw = openRaw(path)
  raw.exec('PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER)')
  const readInSteps = openLongReads(path, { database: raw, prepare: raw.prepare.bind(raw) }, async (_, run) => run())
  const opened: Connection[] = []
  const failing = readInSteps('counting', function* (on) {
    opened.push(on)
    yield
    on.prepare('SELECT * FROM nothing')
    return 1
  })
  await expect(failing).rejects.toThrow('nothing')
  expect(opened.map(({ database }) => database.isOpen)).toEqual([true, false])
})
