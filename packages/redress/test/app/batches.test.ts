import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import type { BatchOptions, BatchOutcome, JobType } from '../../src/index.ts'
import { failureCodes, table } from '../../src/index.ts'
import { type TestKit, testKit } from '../../src/testing/index.ts'
import { refusal } from '../operations/bench.ts'

const codes = failureCodes({
  BUSY: { fault: 'dependency', retry: 'transient', message: 'It is busy.' },
  BROKEN: { fault: 'caller', retry: 'never', message: 'It is broken.' },
})

type Outcome = 'ok' | 'BUSY' | 'BROKEN'
interface Input {
  outcomes: Outcome[]
}

let kit: TestKit
let step: JobType<Input>
let told: BatchOutcome[]

beforeEach(() => {
  kit = testKit()
  told = []
  step = kit.app.job('step', {
    input: z.object({ outcomes: z.array(z.enum(['ok', 'BUSY', 'BROKEN'])) }),
    codes,
    policy: { retry: { max: 2, backoff: table(['1m']) }, manualRetry: 'in-place' },
    run: ({ outcomes }, attempt) => {
      const outcome = outcomes[attempt.number - 1] ?? 'ok'
      if (outcome !== 'ok') attempt.fail(outcome)
    },
  })
  kit.app.job('tell', {
    input: z.object({ say: z.string(), batch: z.custom<BatchOutcome>() }),
    run: ({ batch }) => void told.push(batch),
  })
})
afterEach(() => kit.stop())

const steps = (...all: Outcome[][]) => all.map((outcomes) => step.request({ outcomes }))
const shown = async (id: string) => {
  const batch = await kit.app.batches.find(id)
  if (batch === null) throw new Error(`there is no batch ${id}`)
  return batch
}

test('a batch of jobs has one outcome, which its onSettled job gets once', async () => {
  const onSettled = { job: 'tell', input: { say: 'hello' } }
  const jobs = steps(['ok'], ['BUSY', 'ok'], ['BROKEN'])
  const batch = await kit.app.batches.create('spring', { owner: 'ann', data: { campaign: 7 }, onSettled, jobs })
  expect(batch.jobs).toHaveLength(3)
  expect(await shown(batch.id)).toMatchObject({
    name: 'spring',
    owner: 'ann',
    state: 'open',
    sealed: true,
    counts: { total: 3, queued: 3, processing: 0, unfinished: 3 },
    settledAt: null,
  })
  await kit.drain()
  expect(await shown(batch.id)).toMatchObject({
    state: 'partial',
    counts: { total: 3, queued: 0, unfinished: 0, complete: 2, failed: 1, permanent: 1, cancelled: 0 },
    lastError: { jobId: batch.jobs[2]?.id, type: 'step', code: 'BROKEN', deadLetterOffset: null },
    history: [{ kind: 'settled', data: { state: 'partial', settlement: 1 } }],
  })
  expect(told).toMatchObject([
    { id: batch.id, name: 'spring', owner: 'ann', state: 'partial', complete: 2, failed: 1, data: { campaign: 7 } },
  ])
  const { jobs: children } = await kit.app.jobs.list({ batch: batch.id })
  expect(children.map(({ batchId, owner }) => [batchId, owner])).toEqual(Array(3).fill([batch.id, 'ann']))
})

test('its jobs are made with it or not at all, and a refusal says which one it is about', async () => {
  const bad = { type: 'step', input: { outcomes: ['what?'] } }
  const error = await refusal(kit.app.batches.create('spring', { jobs: [...steps(['ok']), bad] }))
  expect([error.code, error.message]).toEqual([
    'INPUT_INVALID',
    expect.stringContaining('Input 1 (counted from 0) of 2'),
  ])
  expect((await kit.app.jobs.list()).jobs).toEqual([])
  expect((await kit.app.batches.list()).batches).toEqual([])
})

test('an open batch is added to and sealed', async () => {
  const batch = await kit.app.batches.create('open', { owner: 'ann' })
  const { id } = await batch.add(step, { outcomes: ['ok'] })
  await batch.add('step', { outcomes: ['ok'] }, { owner: 'bob' })
  await step.submitMany([{ outcomes: ['ok'] }, { outcomes: ['ok'] }], { batch: batch.id })
  expect(await kit.app.jobs.find(id)).toMatchObject({ batchId: batch.id, owner: 'ann' })
  await kit.drain()
  expect(await batch.find()).toMatchObject({ state: 'open', sealed: false, counts: { total: 4, complete: 4 } })
  await batch.seal()
  expect(await batch.find()).toMatchObject({ state: 'complete', sealed: true })
  expect((await refusal(batch.add(step, { outcomes: ['ok'] }))).code).toBe('BATCH_CLOSED')
  expect((await refusal(step.submit({ outcomes: [] }, { batch: 'nowhere' }))).code).toBe('BATCH_NOT_FOUND')
  expect((await refusal(kit.app.batches.seal('nowhere'))).code).toBe('BATCH_NOT_FOUND')
})

test('a batch with jobs may stay open, and one made with no jobs is complete at once', async () => {
  const open = await kit.app.batches.create('open', { jobs: steps(['ok']), open: true })
  await kit.drain()
  expect((await shown(open.id)).state).toBe('open')
  const empty = await kit.app.batches.create('empty', { jobs: [] })
  expect(await shown(empty.id)).toMatchObject({ state: 'complete', counts: { total: 0 } })
})

test('made again under its own id it is the same batch', async () => {
  const id = '018f0000-0000-7000-8000-000000000001'
  const first = await kit.app.batches.create('one', { id, jobs: steps(['ok'], ['ok']) })
  const again = await kit.app.batches.create('one', { id, jobs: steps(['ok'], ['ok']) })
  expect([first.isNew, again.isNew, again.id, again.jobs]).toEqual([true, false, id, []])
  expect((await kit.app.jobs.list()).jobs).toHaveLength(2)
})

test('a thousand jobs are one transaction', async () => {
  const jobs = Array.from({ length: 1_000 }, () => step.request({ outcomes: ['ok'] }))
  const batch = await kit.app.batches.create('large', { jobs, onSettled: { job: 'tell', input: { say: 'x' } } })
  await kit.drain()
  expect(await shown(batch.id)).toMatchObject({ state: 'complete', counts: { total: 1_000, complete: 1_000 } })
  expect(told).toHaveLength(1)
})

describe('expiry', () => {
  test('is announced in time by a duty, without anyone reading the batch', async () => {
    const batch = await kit.app.batches.create('short', { jobs: steps(['ok']), expires: '2d' })
    await kit.drain()
    const { expiresAt } = await shown(batch.id)
    await kit.advance('3d')
    expect(await shown(batch.id)).toMatchObject({
      state: 'expired',
      history: [{ kind: 'settled' }, { kind: 'expired', at: expiresAt }],
    })
  })

  test('is final: a retry runs, and the batch stays expired', async () => {
    const batch = await kit.app.batches.create('short', { jobs: steps(['BROKEN']), expires: '2d' })
    await kit.drain()
    await kit.advance('2d')
    const [job] = batch.jobs
    await kit.app.jobs.retry(String(job?.id), { actor: 'olga', reason: 'late' })
    await kit.drain()
    expect(await shown(batch.id)).toMatchObject({
      state: 'expired',
      counts: { complete: 1, failed: 0 },
      settlements: 1,
    })
  })
})

describe('what is not a batch is refused', () => {
  const cases: Record<string, [string, BatchOptions]> = {
    'no name': [' ', {}],
    'a strange roll-up': ['x', { rollup: 'most' as never }],
    'a strange expiry': ['x', { expires: 'soon' }],
    'an expiry at once': ['x', { expires: '0s' }],
    'options that are none': ['x', null as never],
    'jobs that are no list': ['x', { jobs: 'a.pdf' as never }],
    'channels that are no list': ['x', { notify: 'ops' as never }],
    'an ending without a job': ['x', { onSettled: {} as never }],
    'a list as data': ['x', { data: [1] }],
    'an empty owner': ['x', { owner: '' }],
    'an id that is none': ['x', { id: '7' }],
    'a channel that is none': ['x', { notify: ['a b'] }],
    'an outcome of its own': ['x', { onSettled: { job: 'tell', input: { batch: {} } } }],
    'a job of another batch': ['x', { jobs: [{ type: 'step', input: { outcomes: [] }, options: { batch: 'y' } }] }],
  }
  test.each(Object.entries(cases))('%s', async (_, [name, options]) => {
    expect((await refusal(kit.app.batches.create(name, options))).code).toBe('OPTION_INVALID')
    expect((await kit.app.batches.list()).batches).toEqual([])
  })

  test('data that JSON cannot hold, or that is too much', async () => {
    const circle: { self?: object } = {}
    circle.self = circle
    expect((await refusal(kit.app.batches.create('x', { data: circle }))).code).toBe('PAYLOAD_NOT_JSON')
    const much = { text: 'x'.repeat(70_000) }
    expect((await refusal(kit.app.batches.create('x', { data: much }))).code).toBe('PAYLOAD_TOO_LARGE')
  })
})

describe('a job that could not follow is refused before the batch is made', () => {
  test('because its input does not fit', async () => {
    const create = kit.app.batches.create('x', { jobs: steps(['ok']), onSettled: { job: 'tell', input: { say: 7 } } })
    expect((await refusal(create)).code).toBe('INPUT_INVALID')
    kit.app.job('recording', {
      input: z.object({ say: z.string() }),
      policy: { reject: 'record' },
      run: () => undefined,
    })
    const recorded = kit.app.batches.create('x', { onSettled: { job: 'recording' } })
    expect((await refusal(recorded)).code).toBe('OPTION_INVALID')
    expect((await kit.app.jobs.list()).jobs).toEqual([])
  })

  test('because its type is not declared', async () => {
    const create = kit.app.batches.create('x', { onSettled: { job: 'nobody.declared.this' } })
    expect((await refusal(create)).code).toBe('TYPE_UNKNOWN')
  })
})

test('with a failure log, the jobs of a batch have their lines too, and no such job can follow one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redress-batches-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const failureLog = join(folder, 'failures.jsonl')
  await using logged = testKit({ failureLog })
  const careful = logged.app.job('careful', { policy: { audit: 'write-ahead' }, run: () => undefined })
  const batch = await logged.app.batches.create('x', { jobs: [careful.request({})] })
  expect(readFileSync(failureLog, 'utf8')).toContain(String(batch.jobs[0]?.id))
  const create = logged.app.batches.create('x', { onSettled: { job: careful } })
  expect((await refusal(create)).message).toContain('write-ahead')
})
