import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { turns } from '../../../../../test/support/until.ts'
import { failureCodes, type JobDefinition, type PolicyInput, redress } from '../../../src/index.ts'
import { testKit } from '../../../src/testing/index.ts'
import { refusal, WHO } from '../bench.ts'

const codes = failureCodes({
  BROKEN: { fault: 'dependency', retry: 'never', message: 'It is broken.' },
  SOURCE_GONE: { fault: 'caller', retry: 'never', message: 'The source file is gone. Upload it again.' },
})
const input = z.object({ file: z.string() })
type Hook = NonNullable<
  JobDefinition<{ file: string }, { file: string }, keyof typeof codes & string, unknown>['admitRetry']
>

/** A job that failed, of a type with the given hook. */
async function failedJob(policy: PolicyInput, admitRetry: Hook) {
  const kit = testKit()
  kit.app.job('convert', { input, codes, policy, admitRetry, run: (_, attempt) => attempt.fail('BROKEN') })
  const { id } = await kit.app.submit('convert', { file: 'a.pdf' }, { owner: 'bob' })
  await kit.drain()
  const retryAction = async () => (await kit.app.jobs.find(id))?.actions.find(({ name }) => name === 'retry')
  return { kit, app: kit.app, id, retryAction }
}

const IN_PLACE: PolicyInput = { manualRetry: 'in-place' }
const NEW_JOB: PolicyInput = { deadLetter: 'queue' }
const gone: Hook = (_, retry) => retry.fail('SOURCE_GONE')

describe('a job type that refuses a retry', () => {
  test.each([
    ['in place', IN_PLACE],
    ['as a new job', NEW_JOB],
  ])('a job type can refuse a retry %s with its code and message, and nothing changes [D22 E20]', async (_, policy) => {
    const { app, id } = await failedJob(policy, gone)
    const before = [await app.jobs.find(id), (await app.jobs.events(id)).events, (await app.jobs.list()).jobs.length]
    for (const dryRun of [true, false]) {
      const refused = await refusal(app.perform('jobs.retry', { id, ...WHO, dryRun }))
      expect(refused).toMatchObject({ code: 'RETRY_REFUSED', httpStatus: 409, jobId: id })
      expect(refused.message).toBe(
        `Job ${id} cannot be retried. SOURCE_GONE: The source file is gone. Upload it again.`,
      )
    }
    expect([await app.jobs.find(id), (await app.jobs.events(id)).events, (await app.jobs.list()).jobs.length]).toEqual(
      before,
    )
  })

  test('a job type can refuse the replay of its dead letter, which stays unchanged [D22]', async () => {
    const { app } = await failedJob(NEW_JOB, gone)
    const [letter] = (await app.deadLetters.list()).deadLetters
    const refused = await refusal(app.deadLetters.replay(letter?.offset ?? 0, WHO))
    expect(refused).toMatchObject({ code: 'RETRY_REFUSED' })
    expect((await app.deadLetters.list()).deadLetters).toEqual([letter])
    expect(await app.replays.plan({ all: true, ...WHO })).toMatchObject({
      ...{ isDone: false, replay: null, willRun: 0 },
      skipped: [{ code: 'refused', letters: 1, example: { why: expect.stringContaining('SOURCE_GONE') } }],
    })
  })

  test('a job type can refuse the same input and accept an edited one [D22]', async () => {
    const asked: unknown[] = []
    const finalForInput: Hook = (_, retry) => {
      asked.push(retry.failure?.code ?? null)
      if (retry.failure?.code === 'BROKEN') retry.fail('BROKEN', { note: 'The same file would fail again.' })
    }
    const { app, id, retryAction } = await failedJob(NEW_JOB, finalForInput)
    expect(await retryAction()).toMatchObject({ allowed: false, why: expect.stringContaining('fail again') })
    expect(await refusal(app.perform('jobs.retry', { id, ...WHO }))).toMatchObject({ code: 'RETRY_REFUSED' })
    const [letter] = (await app.deadLetters.list()).deadLetters
    const offset = letter?.offset ?? 0
    expect(await refusal(app.deadLetters.replay(offset, WHO))).toMatchObject({ code: 'RETRY_REFUSED' })
    expect(await app.perform('jobs.retry', { id, ...WHO, input: { file: 'b.pdf' } })).toMatchObject({ isDone: true })
    expect(new Set(asked)).toEqual(new Set(['BROKEN', null]))
  })

  test('an unclassified error in the retry hook refuses the retry [D22]', async () => {
    const { app, id } = await failedJob(IN_PLACE, () => {
      throw new Error('the catalogue cannot be reached at /srv/secret')
    })
    const refused = await refusal(app.jobs.retry(id, WHO))
    expect(refused.message).toContain('UNKNOWN: Something went wrong that we did not foresee.')
    expect(refused.message).not.toContain('/srv/secret')
  })

  test('a job shows in advance that a retry is not allowed, with the reason [E20]', async () => {
    const { app, id, retryAction } = await failedJob(IN_PLACE, gone)
    const refused = { name: 'retry', allowed: false, why: 'SOURCE_GONE: The source file is gone. Upload it again.' }
    expect(await retryAction()).toEqual(refused)
    expect((await app.perform('jobs.show', { id })).actions).toContainEqual(refused)
    expect((await app.perform('jobs.explain', { id })).actions).toContainEqual(refused)
  })

  test('a list does not call the retry hook', async () => {
    let asked = 0
    const { app } = await failedJob(IN_PLACE, (_, retry) => {
      asked++
      return retry.fail('SOURCE_GONE')
    })
    const [job] = (await app.jobs.list()).jobs
    expect([asked, job?.actions.find(({ name }) => name === 'retry')?.allowed]).toEqual([0, true])
  })
})

describe('a retry hook that allows the retry', () => {
  test.each([
    ['in-place', IN_PLACE],
    ['new-job', NEW_JOB],
  ])('is told who wants to retry which job, of whom, %s', async (mode, policy) => {
    const told: unknown[] = []
    const { app, id, retryAction } = await failedJob(policy, (given, { fail: _, ...retry }) =>
      told.push({ given, retry }),
    )
    expect(await retryAction()).toMatchObject({ allowed: true })
    const failure = { code: 'BROKEN', context: expect.any(Object) }
    const retry = { jobId: id, type: 'convert', owner: 'bob', mode, failure }
    expect(told).toEqual([{ given: { file: 'a.pdf' }, retry: { ...retry, actor: null } }])
    await app.jobs.retry(id, WHO)
    expect(told.at(-1)).toEqual({ given: { file: 'a.pdf' }, retry: { ...retry, actor: 'ann' } })
  })

  test('is shown the edited input, and asked in mode replay about a letter', async () => {
    const told: unknown[] = []
    const { app, id } = await failedJob(NEW_JOB, ({ file }, { mode }) => told.push([file, mode]))
    await app.jobs.retry(id, { ...WHO, input: { file: 'b.pdf' } })
    const [letter] = (await app.deadLetters.list()).deadLetters
    await app.deadLetters.replay(letter?.offset ?? 0, { ...WHO, again: true })
    expect(told).toEqual([
      ['b.pdf', 'new-job'],
      ['a.pdf', 'replay'],
    ])
  })

  test('is not asked about an input that its schema refuses', async () => {
    let asked = 0
    const { app, id } = await failedJob(NEW_JOB, () => asked++)
    expect(await refusal(app.jobs.retry(id, { ...WHO, input: {} }))).toMatchObject({ code: 'INPUT_INVALID' })
    expect(asked).toBe(0)
  })
})

test('a slow retry hook delays reading by at most 3 seconds, and acting by at most 30', async () => {
  const { kit, app, id } = await failedJob(IN_PLACE, () => new Promise(() => undefined))
  const looked = app.jobs.find(id)
  await turns()
  await kit.clock.advance(3_000)
  expect((await looked)?.actions.find(({ name }) => name === 'retry')).toMatchObject({ allowed: true })
  const acted = refusal(app.jobs.retry(id, WHO))
  await turns()
  await kit.clock.advance(30_000)
  expect((await acted).message).toContain('TIMEOUT: Its type did not say within 30 s whether it may be.')
  expect((await app.perform('jobs.events', { id })).events.at(-1)?.kind).toBe('failed')
})

test('a program that does not know the type calls no hook', async () => {
  const { kit, id } = await failedJob(IN_PLACE, gone)
  const other = redress({ store: await kit.app.store(), clock: kit.clock })
  expect((await other.jobs.find(id))?.actions.find(({ name }) => name === 'retry')).toMatchObject({ allowed: true })
  expect(await other.jobs.retry(id, WHO)).toMatchObject({ isDone: true, job: { status: 'queued' } })
})
