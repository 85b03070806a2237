import { describe, expect, test } from 'vitest'
import { failureCodes } from '../../src/index.ts'
import { makeBench, refusal, WHO } from './bench.ts'

test('queues count each type by status', async () => {
  const { app, finish, submit } = await makeBench()
  await finish(['GW_4XX'])
  await finish(['ok'])
  await submit(['ok'], { delay: '1h' })
  const { queues } = await app.perform('queues.list', {})
  expect(queues).toMatchObject([{ type: 'step', queued: 1, waiting: 1, complete: 1, failed: 1, processing: 0 }])
})

describe('a queue', () => {
  test('a queue is paused and resumed with a name and a reason [D34]', async () => {
    const { app, worker, submit } = await makeBench()
    const paused = await app.perform('queues.pause', { name: 'default', ...WHO })
    expect(paused).toMatchObject({
      isDone: true,
      queue: 'default',
      paused: { by: 'ann', reason: WHO.reason, until: null },
    })
    expect(paused.did).toBe(
      'Queue default is paused: queued jobs do not start until it is resumed; running jobs continue.',
    )
    const id = await submit(['ok'])
    await worker.tick()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'queued', attemptCount: 0 })
    const { queues } = await app.perform('queues.list', {})
    expect(queues).toMatchObject([{ type: 'step', queued: 1, paused: { by: 'ann', reason: WHO.reason, until: null } }])

    const resumed = await app.perform('queues.resume', { name: 'default', ...WHO })
    expect(resumed).toMatchObject({ isDone: true, did: 'Queue default is resumed.', paused: null })
    await worker.tick()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'complete' })
    const { entries } = await app.perform('audit.list', { target: 'queue' })
    expect(entries.map(({ act, actor }) => [act, actor])).toEqual([
      ['queues.resume', 'ann'],
      ['queues.pause', 'ann'],
    ])
  })

  test('a queue can be paused for a time and shows until when [D34]', async () => {
    const { app, clock } = await makeBench()
    const until = new Date(clock.nowMs() + 1_800_000).toISOString()
    const { did, paused } = await app.perform('queues.pause', { name: 'default', ...WHO, for: '30m' })
    expect(did).toContain('do not start for 30 m')
    expect(paused).toMatchObject({ until })
    await clock.advance(1_800_000)
    expect((await app.perform('queues.list', {})).queues).toMatchObject([{ paused: null }])
    expect(await app.perform('queues.resume', { name: 'default', ...WHO })).toMatchObject({
      isDone: false,
      did: 'Nothing was done: queue default is not paused.',
    })
  })

  test('a dry run does not change a queue', async () => {
    const { app } = await makeBench()
    const dry = await app.perform('queues.pause', { name: 'default', ...WHO, dryRun: true })
    expect(dry).toMatchObject({ isDone: false, paused: null })
    expect(dry.did).toMatch(/^Nothing was done\. This pauses queue default/)
    await app.perform('queues.pause', { name: 'default', ...WHO })
    const resume = await app.perform('queues.resume', { name: 'default', ...WHO, dryRun: true })
    expect(resume).toMatchObject({ isDone: false, paused: { by: 'ann' } })
  })

  test('pausing needs an actor, a reason, a known queue and a positive duration', async () => {
    const { app } = await makeBench()
    const pause = (input: object) => refusal(app.perform('queues.pause', { name: 'default', ...WHO, ...input }))
    expect(await pause({ reason: ' ' })).toMatchObject({ code: 'REASON_REQUIRED' })
    expect(await pause({ actor: '' })).toMatchObject({ code: 'REASON_REQUIRED' })
    expect(await pause({ for: '0s' })).toMatchObject({ code: 'OPTION_INVALID' })
    expect(await pause({ for: 'soon' })).toMatchObject({ code: 'OPTION_INVALID' })
    const unknown = await pause({ name: 'defalt' })
    expect(unknown).toMatchObject({ code: 'QUEUE_UNKNOWN', httpStatus: 404 })
    expect(unknown.message).toContain('known queues: default')
  })

  test('every declared type is listed, with the wait of its oldest ready job', async () => {
    const { app, clock, submit } = await makeBench()
    app.job('other', { queue: 'side', run: () => undefined })
    await submit(['ok'])
    await clock.advance(90_000)
    await submit(['ok'], { priority: 5 })
    const { queues } = await app.perform('queues.list', {})
    expect(queues).toMatchObject([
      { queue: 'default', type: 'step', queued: 2, oldestReadyMs: 90_000 },
      { queue: 'side', type: 'other', queued: 0, oldestReadyMs: null },
    ])
  })
})

test('a full backlog refuses a submission as a whole, and says what to do', async () => {
  const { app, submit, finish } = await makeBench({ backlog: { max: 3 }, retry: { max: 1 } })
  const failed = await finish(['GW_4XX'])
  await submit(['ok'])
  const many = await refusal(app.submitMany('step', Array(3).fill({ outcomes: ['ok'] })))
  expect(many).toMatchObject({ code: 'BACKLOG_FULL', httpStatus: 503, exitCode: 5 })
  expect(many.message).toBe(
    'With 3 more, over 3 jobs of type step would wait, and its backlog.max is 3. Nothing was submitted.',
  )
  expect(many.action).toContain('worked off')
  await app.submitMany('step', Array(2).fill({ outcomes: ['ok'] }))
  expect(await refusal(submit(['ok']))).toMatchObject({ code: 'BACKLOG_FULL' })
  expect(await app.jobs.retry(failed, WHO)).toMatchObject({ isDone: true })
})

test('a retry as a new job keeps the limit key of the failed one', async () => {
  const { app, finish, store } = await makeBench({ concurrency: { perKey: 1 } })
  const failed = await finish(['GW_4XX'], { limitKey: 'tenant-7' })
  const { job } = await app.jobs.retry(failed, WHO)
  expect(job.id).not.toBe(failed)
  expect(await store.job({ id: job.id })).toMatchObject({ limitKey: 'tenant-7' })
})

test.each(['running', { key: 'eu', of: 'running' }, { key: ['eu', 7], of: 'both' }] as const)(
  'a job with the singleton %j can get another input, be retried and be replayed, and keeps its singleton',
  async (singleton) => {
    const { app, submit, work, store } = await makeBench({ deadLetter: 'queue' })
    const limitKeyOf = async (id: string) => (await store.job({ id }))?.limitKey
    const id = await submit(['ok'], { singleton, delay: '1m' })
    const limitKey = await limitKeyOf(id)
    await app.jobs.replaceInput(id, { ...WHO, input: { outcomes: ['GW_4XX'] } })
    expect(await limitKeyOf(id)).toBe(limitKey)
    await work()
    const retried = await app.jobs.retry(id, WHO)
    expect(await limitKeyOf(retried.job.id)).toBe(limitKey)
    const [letter] = (await app.perform('dead-letters.list', {})).deadLetters
    const replayed = await app.perform('dead-letters.replay', { ...WHO, offset: letter?.offset ?? 0, again: true })
    expect(await limitKeyOf(replayed.job?.id ?? '')).toBe(limitKey)
  },
)

test('a limit key must be printable text', async () => {
  const { app } = await makeBench()
  for (const limitKey of ['', 'x'.repeat(201), 7 as unknown as string]) {
    expect(await refusal(app.submit('step', { outcomes: [] }, { limitKey }))).toMatchObject({ code: 'OPTION_INVALID' })
  }
  const { id } = await app.submit('step', { outcomes: [] }, { limitKey: 'x'.repeat(200) })
  expect(id).not.toBe('')
})

test('a policy with contradicting limits is refused', async () => {
  const { app } = await makeBench()
  const codes = failureCodes({})
  const declare = (name: string, policy: object) => () => app.job(name, { codes, policy, run: () => undefined })
  expect(declare('a', { retry: { budget: {} } })).toThrow('retry.budget contradicts retry.max')
  expect(declare('b', { concurrency: { max: 2, perKey: 3 } })).toThrow('concurrency.perKey contradicts concurrency.max')
  expect(declare('c', { rate: { max: 0 } })).toThrow('rate.max')
})
