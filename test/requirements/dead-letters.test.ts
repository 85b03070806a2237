import { describe, expect, test } from 'vitest'
import { exponential, failures, type PolicyInput, rule, table } from '../../src/index.ts'
import { testKit } from '../../src/testing/index.ts'
import { refusal, WHO } from '../operations/bench.ts'

/** What the four systems ask of dead letters and of retries by a person, on the side of the engine. */

const codes = failures({
  DOWNLOAD_TIMEOUT: { fault: 'dependency', retry: 'transient', message: 'The download took too long.' },
  DOWNLOAD_HTTP_5XX: { fault: 'dependency', retry: 'transient', message: 'The source kept failing.' },
  UPLOAD_S3_ERROR: { fault: 'dependency', retry: 'transient', message: 'The upload kept failing.' },
  HANDLER_FAILED: { fault: 'code', retry: 'dead-letter', message: 'The handler failed.' },
  AUTH_EXPIRED: { fault: 'caller', retry: 'never', message: 'The credentials are not valid any more.' },
  SOURCE_GONE: { fault: 'caller', retry: 'never', message: 'The source is gone. Upload it again.' },
})

const fetchbox: PolicyInput = {
  retry: { max: 3, backoff: exponential('500ms'), unknown: 'dead-letter' },
  orphan: { action: 'requeue', budget: 'consume' },
  deadLetter: 'queue',
  errors: 'latest',
}

interface Task {
  url: string
  code?: keyof typeof codes
}

/** A source of resources that is down until the test says otherwise. */
function fetchboxKit(policy = fetchbox) {
  const kit = testKit()
  const source = { status: 503 }
  kit.app.job('fetch', {
    codes,
    policy,
    classify: [rule.http({ status: '5xx' }, 'DOWNLOAD_HTTP_5XX')],
    run: (task: Task, attempt) => {
      if (task.code !== undefined) attempt.fail(task.code, { context: { proxy: 'pool#1', attempt: attempt.number } })
      if (source.status !== 200) throw Object.assign(new Error('upstream'), { status: source.status })
      return 'stored'
    },
  })
  const fail = async (task: Task) => {
    const { id } = await kit.app.submit('fetch', task)
    await kit.drain()
    const { deadLetters } = await kit.app.deadLetters.list()
    return { id, job: await kit.app.find(id), letter: deadLetters.find(({ jobId }) => jobId === id) }
  }
  return { kit, app: kit.app, source, fail }
}

describe('FetchBox', () => {
  test.each(['DOWNLOAD_TIMEOUT', 'UPLOAD_S3_ERROR'] as const)(
    'F12 %s that used up its attempts is a dead letter',
    async (code) => {
      const { fail } = fetchboxKit()
      const { job, letter } = await fail({ url: 'https://a.example/1', code })
      expect(job).toMatchObject({ status: 'failed', attemptCount: 3, deadLettered: true })
      expect(letter).toMatchObject({ attempts: 3, failure: { code } })
    },
  )

  test('F13 a failure of the handler, and one that nobody foresaw, are dead letters at once', async () => {
    const { app, kit, fail } = fetchboxKit()
    expect((await fail({ url: 'u', code: 'HANDLER_FAILED' })).letter).toMatchObject({ attempts: 1 })
    app.job('panics', {
      policy: fetchbox,
      run: () => {
        throw new TypeError('undefined is not a function')
      },
    })
    await app.submit('panics', {})
    await kit.drain()
    const { deadLetters } = await app.deadLetters.list({ type: 'panics' })
    expect(deadLetters).toMatchObject([{ attempts: 1, failure: { code: 'UNKNOWN' } }])
  })

  test('F14 what validation or authorisation refuses in the worker is fatal and a dead letter', async () => {
    const { app, kit, fail } = fetchboxKit()
    expect((await fail({ url: 'u', code: 'AUTH_EXPIRED' })).letter).toMatchObject({ attempts: 1 })
    const store = await app.store()
    // Handed in by a program that knows less of the type than its worker.
    const strict = testKit({ store: () => store })
    strict.app.job('strict', {
      input: {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: () => ({ issues: [{ message: 'no url', path: ['url'] }] }),
        },
      },
      policy: fetchbox,
      run: () => 'never',
    })
    await strict.app.store()
    await app.submit('strict', {})
    await strict.clock.advance(kit.clock.nowMs() - strict.clock.nowMs())
    await strict.drain()
    const { deadLetters } = await app.deadLetters.list({ type: 'strict' })
    expect(deadLetters).toMatchObject([{ attempts: 1, failure: { code: 'INPUT_INVALID', stage: 'dispatch' } }])
  })

  test('F15 F16 a dead letter is the task with failure code, message, attempts, time, and the context as a map', async () => {
    const { kit, fail } = fetchboxKit()
    const { letter } = await fail({ url: 'https://a.example/1', code: 'HANDLER_FAILED' })
    expect(letter).toMatchObject({
      input: { url: 'https://a.example/1' },
      failure: {
        code: 'HANDLER_FAILED',
        message: 'The handler failed.',
        context: { proxy: 'pool#1', attempt: 1 },
      },
      attempts: 1,
    })
    expect(Date.parse(letter?.at ?? '')).toBe(kit.clock.nowMs())
  })

  test('F17 letters are published in a line of growing offsets, from which a reader can go on where it was', async () => {
    const { app, fail } = fetchboxKit()
    const read: number[] = []
    let after = 0
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 2; i++) await fail({ url: `${round}/${i}`, code: 'HANDLER_FAILED' })
      const { deadLetters } = await app.deadLetters.list({ after })
      read.push(...deadLetters.map(({ offset }) => offset))
      after = read.at(-1) ?? 0
      // What is purged leaves a hole, and its offset is never used again.
      await app.deadLetters.purge({ offset: after, ...WHO })
    }
    expect(read).toHaveLength(6)
    expect(read).toEqual([...new Set(read)].sort((a, b) => a - b))
  })

  test('F21 F1 a download that fails again and again is a dead letter, and is replayed when the source is back', async () => {
    const { app, kit, source, fail } = fetchboxKit()
    const { id, letter } = await fail({ url: 'https://a.example/1' })
    expect(letter).toMatchObject({ attempts: 3, failure: { code: 'DOWNLOAD_HTTP_5XX', context: { httpStatus: 503 } } })
    expect(await app.explain(id)).toContain('DOWNLOAD_HTTP_5XX')
    source.status = 200
    const { job } = await app.deadLetters.replay(letter?.offset ?? 0, WHO)
    await kit.drain()
    expect(await app.find(job?.id ?? '')).toMatchObject({ status: 'complete', result: 'stored', retriedFrom: id })
    expect(await app.deadLetters.show(letter?.offset ?? 0)).toMatchObject({ replayedAs: job?.id })
  })

  test('F1 all that failed for one reason are chosen, tried with a few, and replayed', async () => {
    const { app, kit, source, fail } = fetchboxKit()
    for (let n = 0; n < 8; n++) await fail({ url: `https://a.example/${n}` })
    const other = await fail({ url: 'x', code: 'AUTH_EXPIRED' })
    const plan = await app.replays.plan({ code: 'DOWNLOAD_HTTP_5XX', canary: 2, ...WHO })
    expect(plan).toMatchObject({ willRun: 8, skipped: [] })
    const id = plan.replay?.id ?? ''
    await app.replays.start(id, WHO)
    await kit.until('it has stopped', async () => (await app.replays.show(id)).state === 'stopped')
    source.status = 200
    await app.replays.resume(id, { ...WHO, reason: 'now it is really back' })
    await kit.drain()
    expect(await app.replays.show(id)).toMatchObject({ state: 'done', jobs: { complete: 6, failed: 2 } })
    expect(await app.deadLetters.show(other.letter?.offset ?? 0)).toMatchObject({ replays: 0 })
  })
})

test('a letter is kept as long as its policy says, and its job with it', async () => {
  const { kit, app, fail } = fetchboxKit({ deadLetter: 'queue', retention: { failed: '1h', deadLetters: '2d' } })
  const { id, letter } = await fail({ url: 'u', code: 'AUTH_EXPIRED' })
  await kit.advance('47h')
  expect(await app.deadLetters.show(letter?.offset ?? 0)).toMatchObject({ jobId: id })
  await kit.advance('2h')
  expect(await refusal(app.deadLetters.show(letter?.offset ?? 0))).toMatchObject({ code: 'LETTER_NOT_FOUND' })
  expect(await app.find(id)).toBeNull()
})

describe('Proxx', () => {
  test('P10 P41 P44 a replay is a new job with a new id, with the same spec or an edited one; the original is unchanged', async () => {
    const { app, kit, fail } = fetchboxKit({ forwardOnly: true, deadLetter: 'queue' })
    const { id, letter } = await fail({ url: 'u', code: 'AUTH_EXPIRED' })
    const before = [await app.find(id), await app.events(id), await app.failures(id)]
    const same = await app.deadLetters.replay(letter?.offset ?? 0, WHO)
    const edited = await app.deadLetters.replay(letter?.offset ?? 0, { ...WHO, again: true, input: { url: 'v' } })
    await kit.drain()
    expect(new Set([id, same.job?.id, edited.job?.id]).size).toBe(3)
    expect(await app.find(same.job?.id ?? '')).toMatchObject({ input: { url: 'u' }, retriedFrom: id })
    expect(await app.find(edited.job?.id ?? '')).toMatchObject({ input: { url: 'v' }, retriedFrom: id })
    const { actions, retriedAs } = (await app.find(id)) ?? {}
    expect(retriedAs).toBe(edited.job?.id)
    expect([await app.find(id), await app.events(id), await app.failures(id)]).toEqual([
      { ...before[0], actions, retriedAs },
      ...before.slice(1),
    ])
  })
})

describe('PDF to XML and campaigns', () => {
  const inPlace: PolicyInput = {
    retry: { max: 3, backoff: table(['1m', '5m']) },
    manualRetry: 'in-place',
    deadLetter: 'flag',
    errors: 'latest',
  }

  function convertKit() {
    const kit = testKit()
    const world = { isGatewayUp: false, hasSource: true }
    kit.app.job('convert', {
      codes,
      policy: inPlace,
      admitRetry: (_: unknown, retry) => (world.hasSource ? undefined : retry.fail('SOURCE_GONE')),
      run: (_: unknown, attempt) => (world.isGatewayUp ? 'xml' : attempt.fail('DOWNLOAD_TIMEOUT')),
    })
    const failed = async () => {
      const { id } = await kit.app.submit('convert', {}, { owner: 'bob' })
      await kit.drain()
      return id
    }
    return { kit, app: kit.app, world, failed }
  }

  test('D22 E20 a retry needs a failed job, its source, and its owner', async () => {
    const { app, world, failed } = convertKit()
    const id = await failed()
    const bob = { ...WHO, actor: 'bob', owner: 'bob' }
    expect(await refusal(app.retry(id, { ...bob, owner: 'eve' }))).toMatchObject({ code: 'JOB_NOT_FOUND' })
    world.hasSource = false
    expect(await refusal(app.retry(id, bob))).toMatchObject({ code: 'RETRY_REFUSED' })
    expect((await app.find(id))?.actions[0]).toEqual({
      ...{ name: 'retry', allowed: false, why: 'SOURCE_GONE: The source is gone. Upload it again.' },
    })
    world.hasSource = true
    expect(await app.retry(id, bob)).toMatchObject({ isDone: true, job: { status: 'queued' } })
    expect(await refusal(app.retry(id, bob))).toMatchObject({ code: 'JOB_WRONG_STATE' })
  })

  test('D23 W19 a retry in place clears the error and the counts, and the job goes by its normal policy', async () => {
    const { kit, app, failed } = convertKit()
    const id = await failed()
    expect(await app.find(id)).toMatchObject({ status: 'failed', attemptCount: 3, errorCode: 'DOWNLOAD_TIMEOUT' })
    await app.retry(id, WHO)
    expect(await app.find(id)).toMatchObject({
      ...{ status: 'queued', attemptCount: 0, retryCount: 0, manualRetryCount: 1, retryAfter: null },
      ...{ errorCode: null, errorMessage: null, leaseUntil: null, worker: null, startedAt: null },
      ...{ finishedAt: null, failedAt: null, progress: 0, deadLettered: false, maxAttempts: 3 },
    })
    await kit.drain()
    expect(await app.find(id)).toMatchObject({ status: 'failed', attemptCount: 3, manualRetryCount: 1 })
  })
})
