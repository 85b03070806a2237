import { describe, expect, test } from 'vitest'
import { makeBench, refusal, WHO } from '../bench.ts'

test('a retry is a new job with a new id and the input, owner and priority of the failed one [P10 P41 P44]', async () => {
  const { app, finish } = await makeBench()
  const id = await finish(['GW_4XX'], { owner: 'bob', priority: 5 })
  const { job, did } = await app.jobs.retry(id, WHO)
  expect(job.id).not.toBe(id)
  expect(did).toBe(`Made job ${job.id} with the same input; job ${id} stays failed.`)
  expect(await app.jobs.find(job.id)).toMatchObject({
    status: 'queued',
    retriedFrom: id,
    owner: 'bob',
    priority: 5,
    input: { outcomes: ['GW_4XX'] },
    attemptCount: 0,
    manualRetryCount: 0,
  })
  expect((await app.jobs.events(job.id)).events[0]).toMatchObject({ kind: 'queued', data: WHO })
})

test('a retry as a new job leaves the failed job, its failure and its history unchanged [P10 P39 P44]', async () => {
  const { app, finish } = await makeBench({ forwardOnly: true })
  const id = await finish(['GW_4XX'])
  const before = [await app.jobs.find(id), (await app.jobs.events(id)).events, (await app.jobs.failures(id)).failures]
  const { job } = await app.jobs.retry(id, WHO)
  // It only says what was made from it, and that it is not to be retried twice.
  const named = { retriedAs: job.id, actions: (await app.jobs.find(id))?.actions }
  expect([await app.jobs.find(id), (await app.jobs.events(id)).events, (await app.jobs.failures(id)).failures]).toEqual(
    [{ ...before[0], ...named }, ...before.slice(1)],
  )
})

test('a retry can change the input, which is validated like any submission [P41 P44]', async () => {
  const { app, finish, work } = await makeBench()
  const id = await finish(['GW_4XX'])
  const refused = await refusal(app.jobs.retry(id, { ...WHO, input: { outcomes: 'ok' } }))
  expect(refused).toMatchObject({ code: 'INPUT_INVALID', problems: [expect.stringContaining('outcomes')] })
  const { job, did } = await app.jobs.retry(id, { ...WHO, input: { outcomes: ['ok'] } })
  expect(did).toContain('with the given input')
  await work()
  expect(await app.jobs.find(job.id)).toMatchObject({ status: 'complete', input: { outcomes: ['ok'] } })
})

test('a job that is submitted again is a new job, not a retry [P43]', async () => {
  const { app, finish, submit } = await makeBench()
  await finish(['GW_4XX'])
  expect(await app.jobs.find(await submit(['GW_4XX']))).toMatchObject({ retriedFrom: null })
})

test('a retry with a refused input leaves a failed job when the policy records refusals [P5]', async () => {
  const { app, finish } = await makeBench({ reject: 'record' })
  const id = await finish(['GW_4XX'])
  const { job, did } = await app.jobs.retry(id, { ...WHO, input: { outcomes: [], note: 'refuse' } })
  expect(job).toMatchObject({ status: 'failed', errorCode: 'REFUSED', retriedFrom: id })
  expect(did).toContain('It was refused at once: It was refused.')
})

test('the new job takes over the dedupe key of the failed job', async () => {
  const { app, finish, submit } = await makeBench()
  const id = await finish(['GW_4XX'], { dedupe: 'one' })
  const { job } = await app.jobs.retry(id, WHO)
  expect(await submit(['ok'], { dedupe: 'one' })).toBe(job.id)
})

test('a retry is refused while another job holds the dedupe key, and names that job', async () => {
  const { app, finish, submit } = await makeBench()
  const id = await finish(['GW_4XX'], { dedupe: 'one' })
  const twin = await submit(['ok'], { dedupe: 'one' })
  const refused = await refusal(app.jobs.retry(id, WHO))
  expect(refused).toMatchObject({ code: 'JOB_WRONG_STATE', jobId: id })
  expect(refused.message).toContain(`job ${twin} holds the dedupe key of job ${id} and is queued`)
})

test('a job with a permanent dedupe key can be retried', async () => {
  const { app, finish } = await makeBench()
  const id = await finish(['GW_4XX'], { dedupe: { key: 'one', scope: 'always' } })
  const { job } = await app.jobs.retry(id, WHO)
  expect(await app.jobs.find(job.id)).toMatchObject({ status: 'queued', retriedFrom: id })
})

test('a retry with an edited input does not take over the dedupe key', async () => {
  const { app, finish, submit } = await makeBench()
  const id = await finish(['GW_4XX'], { dedupe: 'one' })
  await submit(['ok'], { dedupe: 'one' })
  const { isDone } = await app.jobs.retry(id, { ...WHO, input: { outcomes: ['ok'], note: 'edited' } })
  expect(isDone).toBe(true)
})

test('a dry run checks the input and makes no job', async () => {
  const { app, finish } = await makeBench()
  const id = await finish(['GW_4XX'])
  const dry = { id, ...WHO, dryRun: true }
  expect(await app.perform('jobs.retry', dry)).toMatchObject({ isDone: false, job: { id } })
  expect(await refusal(app.perform('jobs.retry', { ...dry, input: {} }))).toMatchObject({ code: 'INPUT_INVALID' })
  expect((await app.jobs.list()).jobs).toHaveLength(1)
})

test('two retries with the same newId make one job, even at the same time', async () => {
  const { app, finish, work } = await makeBench({ reject: 'record' })
  const [id, other] = [await finish(['GW_4XX']), await finish(['GW_4XX'])]
  const by = { ...WHO, newId: app.newId() }
  const made = await Promise.all([app.jobs.retry(id, by), app.jobs.retry(id, by)])
  expect(made.map(({ isDone }) => isDone).toSorted()).toEqual([false, true])
  expect(made.map(({ job }) => job.id)).toEqual([by.newId, by.newId])
  await work()
  // By now its input would be refused; it is not looked at again.
  const again = await app.jobs.retry(id, { ...by, input: { outcomes: [], note: 'refuse' } })
  expect(again).toMatchObject({ isDone: false, job: { id: by.newId, retriedFrom: id, errorCode: 'GW_4XX' } })
  expect((await app.jobs.list({ retriedFrom: id })).jobs).toHaveLength(1)
  for (const taken of [by.newId, id]) {
    expect(await refusal(app.jobs.retry(other, { ...WHO, newId: taken }))).toMatchObject({ code: 'OPTION_INVALID' })
  }
  expect((await app.jobs.list({ retriedFrom: other })).jobs).toHaveLength(0)
})

test('a retry in place refuses newId', async () => {
  const { app, finish } = await makeBench({ manualRetry: 'in-place' })
  const id = await finish(['GW_4XX'])
  const refused = await refusal(app.jobs.retry(id, { ...WHO, newId: app.newId() }))
  expect(refused).toMatchObject({ code: 'NOT_ALLOWED_BY_POLICY', jobId: id })
})

describe('a failed job that was already retried', () => {
  test('is not retried a second time, and the refusal names the new job and its state', async () => {
    const { app, finish, work } = await makeBench()
    const id = await finish(['GW_4XX'])
    const { job } = await app.jobs.retry(id, WHO)
    const refused = await refusal(app.jobs.retry(id, WHO))
    expect(refused).toMatchObject({ code: 'ALREADY_RETRIED', httpStatus: 409, exitCode: 4, jobId: id })
    expect(refused.message).toBe(`Job ${id} cannot be retried: it was retried as job ${job.id}, which is queued.`)
    expect(refused.action).toBe(`Look at job ${job.id} first. To make one more job from ${id}, add \`again\`.`)
    await work()
    const later = await refusal(app.jobs.retry(id, { ...WHO, input: { outcomes: ['ok'] } }))
    expect(later.message).toContain(`job ${job.id}, which is failed.`)
    expect(later.action).toContain(`Retry job ${job.id} instead.`)
    expect(await refusal(app.perform('jobs.retry', { id, ...WHO, dryRun: true }))).toMatchObject({
      code: 'ALREADY_RETRIED',
    })
    const next = await app.jobs.retry(job.id, { ...WHO, input: { outcomes: ['ok'] } })
    expect(next.job).toMatchObject({ retriedFrom: job.id, status: 'queued' })
    expect((await app.jobs.list({ retriedFrom: id })).jobs).toHaveLength(1)
  })

  test('is retried again with `again`, but only once by two concurrent requests', async () => {
    const { app, finish } = await makeBench()
    const id = await finish(['GW_4XX'])
    const { job: first } = await app.jobs.retry(id, { ...WHO, again: true })
    const dry = await app.perform('jobs.retry', { id, ...WHO, again: true, dryRun: true })
    expect(dry.did).toContain('This makes a new job')
    const answers = await Promise.allSettled([1, 2].map(() => app.jobs.retry(id, { ...WHO, again: true })))
    const [made] = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value.job.id] : []))
    expect(answers.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    expect(await app.jobs.find(id)).toMatchObject({ retriedAs: made })
    expect((await app.jobs.list({ retriedFrom: id })).jobs.map((job) => job.id).toSorted()).toEqual(
      [first.id, made].toSorted(),
    )
  })

  test('makes only one new job when many callers retry it at once', async () => {
    const { app, finish } = await makeBench()
    const id = await finish(['GW_4XX'])
    const answers = await Promise.allSettled(Array.from({ length: 20 }, () => app.jobs.retry(id, WHO)))
    const refused = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason.code] : []))
    expect(refused).toEqual(Array(19).fill('ALREADY_RETRIED'))
    expect((await app.jobs.list({ retriedFrom: id })).jobs).toHaveLength(1)
  })

  test('says so in its explanation, its actions and its text', async () => {
    const { app, finish, work } = await makeBench()
    const id = await finish(['GW_4XX'])
    const { job } = await app.jobs.retry(id, { ...WHO, input: { outcomes: ['ok'] } })
    await work()
    const why = `it was retried as job ${job.id}, which is complete`
    const explained = await app.perform('jobs.explain', { id })
    expect(explained).toMatchObject({ retriedAs: job.id })
    expect(explained.verdict).toContain(`It was retried as job ${job.id}, which is complete.`)
    expect(explained.verdict).not.toContain('Nothing will happen by itself.')
    for (const { actions } of [
      explained,
      await app.jobs.find(id),
      (await app.jobs.list({ status: 'failed' })).jobs[0],
    ].map((shown) => shown ?? { actions: [] })) {
      expect(actions).toContainEqual({ name: 'retry', allowed: false, why })
    }
    expect(await app.explain(id)).toContain(`retried as ${job.id}`)
  })

  test('a replay of its dead letter counts as a retry', async () => {
    const { app, finish } = await makeBench({ deadLetter: 'queue' })
    const id = await finish(['GW_4XX'])
    const [letter] = (await app.deadLetters.list()).deadLetters
    const { job } = await app.deadLetters.replay(letter?.offset ?? 0, WHO)
    const refused = await refusal(app.jobs.retry(id, WHO))
    expect(refused).toMatchObject({ code: 'ALREADY_RETRIED' })
    expect(refused.message).toContain(`it was retried as job ${job?.id}`)
    expect(await app.jobs.retry(id, { ...WHO, again: true })).toMatchObject({ isDone: true })
  })

  test('is not replayed from its dead letter either, one by one or with many', async () => {
    const { app, finish } = await makeBench({ deadLetter: 'queue' })
    const id = await finish(['GW_4XX'])
    const { job } = await app.jobs.retry(id, WHO)
    const [letter] = (await app.deadLetters.list()).deadLetters
    expect(letter).toMatchObject({ replays: 1, replayedAs: job.id, replay: { allowed: false } })
    const refused = await refusal(app.deadLetters.replay(letter?.offset ?? 0, WHO))
    expect(refused).toMatchObject({ code: 'LETTER_NOT_REPLAYED' })
    expect(refused.message).toContain(`as job ${job.id}`)
    const planned = await app.perform('replays.plan', { ...WHO, type: 'step' })
    expect(planned).toMatchObject({ willRun: 0, skipped: [{ code: 'already-replayed', letters: 1 }] })
  })
})
