import { expect, test } from 'vitest'
import { redress } from '../../../src/index.ts'
import { makeBench, refusal } from '../bench.ts'

test('jobs are listed the newest first, page by page, without one missing or doubled', async () => {
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

test('a job is shown with what can be done to it', async () => {
  const { app, finish } = await makeBench()
  const job = await app.jobs.find(await finish(['GW_4XX']))
  expect(job?.actions).toContainEqual({ name: 'retry', allowed: true, why: 'makes a new job; this one stays failed' })
})

test('an input that is wrong is refused with every problem', async () => {
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

test('types are listed with their policies, and an unknown one names those there are', async () => {
  const { app } = await makeBench({ retry: { max: 3 } })
  const { types } = await app.perform('types.list', {})
  expect(types).toMatchObject([{ name: 'step', queue: 'default', policy: { retry: { max: 3 } } }])
  expect(await app.perform('policy.show', { type: 'step' })).toMatchObject({ policy: { retry: { max: 3 } } })
  const refused = await refusal(app.perform('policy.show', { type: 'stop' }))
  expect(refused).toMatchObject({ code: 'TYPE_UNKNOWN', message: expect.stringContaining('declared here: step') })
})

test('workers are working, silent or stopped', async () => {
  const { app, worker, clock } = await makeBench()
  await worker.tick()
  const states = async (all: boolean) => (await app.perform('workers.list', { all })).workers.map(({ state }) => state)
  expect(await states(false)).toEqual(['working'])
  await clock.advance(40_000)
  expect([await states(false), await states(true)]).toEqual([[], ['silent']])
  await worker.stop()
  expect(await states(true)).toEqual(['stopped'])
})

test('queues count each type by status', async () => {
  const { app, finish, submit } = await makeBench()
  await finish(['GW_4XX'])
  await finish(['ok'])
  await submit(['ok'], { delay: '1h' })
  const { queues } = await app.perform('queues.list', {})
  expect(queues).toMatchObject([{ type: 'step', queued: 1, waiting: 1, complete: 1, failed: 1, processing: 0 }])
})

test('dead letters are listed by offset, with their failure and input [F12]', async () => {
  const { app, finish } = await makeBench({ deadLetter: 'queue' })
  const ids = [await finish(['GW_4XX']), await finish(['GW_4XX']), await finish(['GW_4XX'])]
  const first = await app.perform('dead-letters.list', { limit: 2 })
  expect(first.deadLetters.map(({ jobId }) => jobId)).toEqual(ids.slice(0, 2))
  const rest = await app.perform('dead-letters.list', { after: first.nextAfter ?? 0 })
  expect(rest).toMatchObject({
    nextAfter: null,
    deadLetters: [{ jobId: ids[2], attempts: 1, failure: { code: 'GW_4XX' } }],
  })
})

test('a job can be submitted by name from a program that does not know its type, once some program declared it', async () => {
  const { app, store } = await makeBench()
  const other = redress({ store })
  const { job, did } = await other.perform('jobs.submit', { type: 'step', input: { outcomes: [] }, owner: 'ann' })
  expect(did).toBe(`Submitted job ${job?.id}.`)
  expect(await app.jobs.find(job?.id ?? '')).toMatchObject({ owner: 'ann', status: 'queued' })
  expect(await refusal(other.perform('jobs.submit', { type: 'stop' }))).toMatchObject({ code: 'TYPE_UNKNOWN' })
})

test('a submission that was there already is said to be, and a dry run submits nothing', async () => {
  const { app } = await makeBench()
  const input = { type: 'step', input: { outcomes: [] }, dedupe: 'one' }
  expect(await app.perform('jobs.submit', { ...input, dryRun: true })).toMatchObject({ isDone: false, job: null })
  const { job } = await app.perform('jobs.submit', input)
  const again = await app.perform('jobs.submit', input)
  expect(again).toMatchObject({
    isDone: false,
    did: `Nothing was submitted: job ${job?.id} is the same, and is queued.`,
  })
  expect((await app.jobs.list()).jobs).toHaveLength(1)
})
