import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { redress } from '../../../src/index.ts'
import type { Caller } from '../../../src/operations/caller.ts'
import type { OutputOf } from '../../../src/operations/table.ts'
import { MIGRATIONS } from '../../../src/store/sqlite/schema/schema.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { makeBench, refusal, WHO } from '../bench.ts'

const owner = (account: string): Caller => ({ name: account, role: 'owner', account, scopes: null, isPerson: true })

test('a list has the time of reading and the number of unfinished jobs, whatever its filter', async () => {
  const { app, clock, submit, finish } = await makeBench()
  await finish(['GW_4XX'], { owner: 'ann' })
  await submit(['ok'], { owner: 'ann' })
  await submit(['ok'], { owner: 'ann', delay: '1h' })
  await submit(['ok'], { owner: 'bob' })
  const timestamp = new Date(clock.nowMs()).toISOString()
  expect(await app.jobs.list({ status: 'failed' })).toMatchObject({ activeCount: 3, timestamp, nextCursor: null })
  expect(await app.jobs.list({ owner: 'ann', limit: 1 })).toMatchObject({
    activeCount: 2,
    nextCursor: expect.any(String),
  })
})

test('an owner finds and counts only their own jobs', async () => {
  const { app, finish, submit } = await makeBench()
  const theirs = await finish(['GW_4XX'], { owner: 'bob', dedupe: 'key' })
  const own = await submit(['ok'], { owner: 'ann' })
  const ann = owner('ann')
  const idsOf = async (input: Record<string, unknown>) => {
    const { jobs } = (await app.performAs(ann, 'jobs.list', input)) as OutputOf<'jobs.list'>
    return jobs.map(({ id }) => id)
  }
  expect(await app.performAs(ann, 'jobs.list', {})).toMatchObject({ activeCount: 1, jobs: [{ id: own }] })
  expect(await idsOf({ owner: 'bob' })).toEqual([own])
  for (const q of [theirs, theirs.slice(0, 30), 'bob', 'key', 'GW_4XX']) expect(await idsOf({ q }), q).toEqual([])
  expect(await idsOf({ q: 'step' })).toEqual([own])
  expect(await idsOf({ code: 'GW_4XX' })).toEqual([])
  expect(await app.performAs(ann, 'jobs.count', { status: 'failed' })).toEqual({ count: 0, isMore: false })
})

test('jobs are found by code, queue and time, and an invalid time is refused', async () => {
  const { app, clock, finish, submit } = await makeBench()
  const failed = await finish(['GW_4XX'])
  await clock.advance(3_600_000)
  const fresh = await submit(['ok'])
  const idsOf = async (filter: Parameters<typeof app.jobs.list>[0]) =>
    (await app.jobs.list(filter)).jobs.map(({ id }) => id)
  expect(await idsOf({ code: 'GW_4XX' })).toEqual([failed])
  expect(await idsOf({ since: '30m' })).toEqual([fresh])
  expect(await idsOf({ since: new Date(clock.nowMs()).toISOString() })).toEqual([fresh])
  expect(await idsOf({ since: '1d', code: 'GW_4XX' })).toEqual([failed])
  expect(await idsOf({ queue: 'default' })).toEqual([fresh, failed])
  expect(await idsOf({ queue: 'elsewhere' })).toEqual([])
  expect(await idsOf({ q: `  ${failed}\n` })).toEqual([failed])
  expect(await idsOf({ until: '30m' })).toEqual([failed])
  expect(await idsOf({ since: '1d', until: '30m' })).toEqual([failed])
  expect(await idsOf({ since: '30m', until: '1d' })).toEqual([])
  expect(await app.perform('jobs.count', { until: '30m' })).toEqual({ count: 1, isMore: false })
  for (const filter of [{ since: 'yesterday' }, { until: 'tomorrow' }]) {
    expect(await refusal(app.jobs.list(filter))).toMatchObject({ code: 'OPTION_INVALID' })
  }
})

test('retries are found by the id of the original job', async () => {
  const { app, finish } = await makeBench({ manualRetry: 'new-job' })
  const id = await finish(['GW_4XX'], { owner: 'ann' })
  const { job } = await app.jobs.retry(id, WHO)
  const idsOf = async (filter: Parameters<typeof app.jobs.list>[0]) =>
    (await app.jobs.list(filter)).jobs.map((one) => one.id)
  expect(await idsOf({ retriedFrom: id })).toEqual([job.id])
  expect(await idsOf({ retriedFrom: job.id })).toEqual([])
  expect(await app.perform('jobs.count', { retriedFrom: id })).toEqual({ count: 1, isMore: false })
  expect(await app.performAs(owner('bob'), 'jobs.list', { retriedFrom: id })).toMatchObject({ jobs: [] })
})

test('a migrated store finds failed jobs by code', async () => {
  const path = join(temporaryFolder(), 'redress.db')
  const old = new DatabaseSync(path)
  for (const migration of MIGRATIONS.slice(0, 2)) old.exec(migration)
  old.exec(`
    PRAGMA application_id = ${0x72647273}; PRAGMA user_version = 2;
    INSERT INTO job_types VALUES (1, 'old', 'default', '{}', 0, 0);
    INSERT INTO job_specs (key, id, type, payload, created_at) VALUES (1, 'one', 1, '{}', 0);
    INSERT INTO failures (seq, job, at, attempt, stage, owner, code, fault, message, waiting, detail, rule, fingerprint,
      to_status, decision) VALUES (7, 1, 0, 1, 'execution', 'worker', 'OLD_CODE', 'code', '', '', '', '', '', 'failed', '{}');
    INSERT INTO jobs (key, type, status, priority, queued_at, attempt, finished_at, forward_only, failure)
      VALUES (1, 1, 'failed', 0, 0, 1, 0, 0, 7)`)
  old.close()
  const store = openSqlite({ path, nowMs: Date.now })
  expect(await store.jobs({ code: 'OLD_CODE', limit: 5 })).toMatchObject([{ id: 'one', failure: 7 }])
  await store.stop()
})

test('pages list every job once, newest first', async () => {
  const { app, submit } = await makeBench()
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.unshift(await submit(['ok']))
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const page = await app.jobs.list({ limit: 2, ...(cursor === null ? {} : { cursor }) })
    seen.push(...page.jobs.map(({ id }) => id))
    cursor = page.nextCursor
  } while (cursor !== null)
  expect(seen).toEqual(ids)
})

test('jobs are found by status, type and owner', async () => {
  const { app, finish, submit } = await makeBench()
  const failed = await finish(['GW_4XX'], { owner: 'ann' })
  await submit(['ok'], { owner: 'bob' })
  const idsOf = async (filter: Parameters<typeof app.jobs.list>[0]) =>
    (await app.jobs.list(filter)).jobs.map(({ id }) => id)
  expect(await idsOf({ status: 'failed' })).toEqual([failed])
  expect(await idsOf({ owner: 'ann' })).toEqual([failed])
  expect(await idsOf({ type: 'step' })).toHaveLength(2)
  expect(await idsOf({ type: 'other' })).toEqual([])
})

test('a job is shown with its allowed actions', async () => {
  const { app, finish } = await makeBench()
  const job = await app.jobs.find(await finish(['GW_4XX']))
  expect(job?.actions).toContainEqual({ name: 'retry', allowed: true, why: 'makes a new job; this one stays failed' })
})

test('an invalid input is refused with every problem', async () => {
  const { app } = await makeBench()
  const refused = await refusal(app.jobs.list({ limit: 0, status: 'done' as 'failed' }))
  expect(refused).toMatchObject({ code: 'OPTION_INVALID', exitCode: 2 })
  expect(refused.problems.map((problem) => problem.split(':')[0])).toEqual(['status', 'limit'])
})

test.each(['jobs.show', 'jobs.events', 'jobs.failures', 'jobs.explain'] as const)(
  '%s of a job that does not exist is not an empty answer',
  async (name) => {
    const { app } = await makeBench()
    expect(await refusal(app.perform(name, { id: 'nobody' }))).toMatchObject({ code: 'JOB_NOT_FOUND' })
  },
)

test('a program can submit a job of a type that another program declared', async () => {
  const { app, store } = await makeBench()
  const other = redress({ store })
  const { job, did } = await other.perform('jobs.submit', { type: 'step', input: { outcomes: [] }, owner: 'ann' })
  expect(did).toBe(`Submitted job ${job?.id}.`)
  expect(await app.jobs.find(job?.id ?? '')).toMatchObject({ owner: 'ann', status: 'queued' })
  expect(await refusal(other.perform('jobs.submit', { type: 'stop' }))).toMatchObject({ code: 'TYPE_UNKNOWN' })
})

test('a duplicate submission returns the existing job, and a dry run submits nothing', async () => {
  const { app } = await makeBench()
  const input = { type: 'step', input: { outcomes: [] }, dedupe: 'one' }
  expect(await app.perform('jobs.submit', { ...input, dryRun: true })).toMatchObject({ isDone: false, job: null })
  const { job } = await app.perform('jobs.submit', input)
  const again = await app.perform('jobs.submit', input)
  expect(again).toMatchObject({
    isDone: false,
    did: `Nothing was submitted: job ${job?.id} already exists and is queued.`,
  })
  expect((await app.jobs.list()).jobs).toHaveLength(1)
})
