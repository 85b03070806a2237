import { failureCodes, table } from 'redress'
import { ATTEMPT_STEPS, type AttemptStep, type CrashOptions, type TestKit, testKit } from 'redress/testing'
import { describe, expect, onTestFinished, test } from 'vitest'

/** How to test job types, by examples. `docs/guides/jobs/testing.md` tells the same as a story. */

function freshKit(seed?: number): TestKit {
  const kit = testKit(seed === undefined ? {} : { seed })
  onTestFinished(() => kit.stop())
  return kit
}

describe('a job type under test', () => {
  test('runs when the test says so', async () => {
    const kit = freshKit()
    const greet = kit.app.job('greet', { run: ({ name }: { name: string }) => `Hello, ${name}!` })

    const { id } = await greet.submit({ name: 'Ada' })
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'queued' })

    await kit.tick()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', result: 'Hello, Ada!' })
  })

  test('is retried when its time has come, and not before', async () => {
    const kit = freshKit()
    const codes = failureCodes({ DOWN: { fault: 'dependency', retry: 'transient', message: 'The service is down.' } })
    let isDown = true
    const call = kit.app.job('call', {
      codes,
      policy: { retry: { max: 4, backoff: table(['1m', '5m', '15m']) } },
      run: (_, attempt) => (isDown ? attempt.fail('DOWN') : 'answered'),
    })

    const { id } = await call.submit({})
    await kit.tick()
    await kit.advance('59s')
    expect(await kit.history(id)).toEqual(['queued', 'processing', 'retry'])

    await kit.advance('1s')
    expect(await kit.history(id)).toEqual(['queued', 'processing', 'retry', 'processing', 'retry'])

    isDown = false
    await kit.advance('5m')
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', attemptCount: 3, result: 'answered' })
  })

  test('fails for good when its budget is spent, however long that takes', async () => {
    const kit = freshKit()
    const hopeless = kit.app.job('hopeless', {
      policy: { retry: { max: 3, unknown: 'transient', backoff: table(['1h']) } },
      run() {
        throw new Error('no')
      },
    })
    const { id } = await hopeless.submit({})
    const startedMs = kit.clock.nowMs()
    await kit.drain()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', attemptCount: 3 })
    expect(kit.clock.nowMs() - startedMs).toBe(2 * 3_600_000)
    expect(await kit.app.explain(id)).toContain('no attempt is left')
  })

  test('waits for a person, and goes on when one decides', async () => {
    const kit = freshKit()
    let isBroken = true
    const fragile = kit.app.job('fragile', {
      policy: { manualRetry: 'in-place' },
      run() {
        if (isBroken) throw new Error('broken')
      },
    })
    const { id } = await fragile.submit({})
    await kit.tick()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed' })

    isBroken = false
    await kit.app.jobs.retry(id, { actor: 'ada', reason: 'mended' })
    await kit.tick()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', manualRetryCount: 1 })
  })

  test('is stopped at its time limit, and hears it through its signal', async () => {
    const kit = freshKit()
    const heard: string[] = []
    const slow = kit.app.job('slow', {
      policy: { timeout: { attempt: '10s' } },
      async run(_, attempt) {
        attempt.signal.addEventListener('abort', () => heard.push(String(attempt.signal.reason)))
        await kit.sleep('1h')
      },
    })
    const { id } = await slow.submit({})
    await kit.advance('10s')
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'TIMEOUT' })
    expect(heard).toEqual(['AttemptTimeout: the attempt was stopped at its limit of 10000 ms'])
  })

  test('keeps its lease while it works, for as long as it works', async () => {
    const kit = freshKit()
    const long = kit.app.job('long', {
      policy: { orphan: 'requeue', lease: { ttl: '30s' } },
      async run(_, attempt) {
        attempt.progress(0.5)
        await kit.sleep('20m')
        return 'done'
      },
    })
    const { id } = await long.submit({})
    await kit.advance('10m')
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'processing', progress: 0.5 })
    await kit.advance('10m')
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', attemptCount: 1 })
  })
})

describe('the world of a test', () => {
  test('is the same for the same seed, and another for another', async () => {
    const story = async (seed: number) => {
      const kit = freshKit(seed)
      const dice = kit.app.job('dice', {
        policy: { retry: { max: 3, unknown: 'transient', backoff: table(['1m'], { jitter: '50%' }) } },
        run() {
          throw new Error('no luck')
        },
      })
      const { id } = await dice.submit({})
      await kit.drain()
      const events = (await kit.app.jobs.events(id)).events
      return { id, events: events.map(({ kind, at, worker }) => ({ kind, at, worker })) }
    }
    expect(await story(7)).toEqual(await story(7))
    expect(await story(7)).not.toEqual(await story(8))
  })

  test('begins when it is told to', async () => {
    const kit = testKit({ startMs: Date.UTC(2030, 1, 2) })
    onTestFinished(() => kit.stop())
    const { id } = await kit.app.job('now', { run: () => null }).submit({})
    expect(await kit.app.jobs.find(id)).toMatchObject({ createdAt: '2030-02-02T00:00:00.000Z' })
  })

  test('takes types that are declared later', async () => {
    const kit = freshKit()
    const one = kit.app.job('one', { run: () => 1 })
    await one.submit({})
    await kit.tick()
    const { id } = await kit.app.job('two', { run: () => 2 }).submit({})
    await kit.tick()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', result: 2 })
  })

  test('says what is still open when it waits in vain', async () => {
    const kit = freshKit()
    const never = kit.app.job('never', { policy: { timeout: { attempt: null } }, run: () => new Promise(() => {}) })
    const { id } = await never.submit({})
    await expect(kit.drain({ within: '5m' })).rejects.toThrow(`never ${id}: processing, attempt 1`)
    const isTrue = kit.until('pigs fly', () => false, { within: '1h' })
    await expect(isTrue).rejects.toThrow('waited 1h in vain until pigs fly')
  })

  test('says so when a job comes back for ever without time going by', async () => {
    const kit = freshKit()
    const restless = kit.app.job('restless', { run: (_, attempt) => attempt.snooze(0) })
    await restless.submit({})
    await expect(kit.advance('1s')).rejects.toThrow('come back again and again')
  })

  test('forgets finished jobs after their retention', async () => {
    const kit = freshKit()
    const brief = kit.app.job('brief', { policy: { retention: { complete: '1d' } }, run: () => null })
    const { id } = await brief.submit({})
    await kit.advance('23h')
    expect(await kit.app.jobs.find(id)).not.toBeNull()
    await kit.advance('1h')
    expect(await kit.app.jobs.find(id)).toBeNull()
  })

  test('can be cleared up by the language itself', async () => {
    await using kit = testKit()
    await kit.app.job('hanging', { run: () => new Promise(() => {}) }).submit({})
    await kit.tick()
    expect((await kit.worker()).held).toBe(1)
  })
})

/**
 * A worker is killed as an attempt enters each of its seven steps. What is recorded at that moment, and what becomes of
 * the job, depends on the step and on the policy for orphans.
 */
describe('a worker that is killed', () => {
  type OrphanAction = 'requeue' | 'report' | 'fail'

  async function killAt(step: AttemptStep, orphan: OrphanAction) {
    const kit = freshKit()
    const effects: number[] = []
    const job = kit.app.job('work', {
      policy: { orphan, lease: { ttl: '30s' } },
      async run(_, attempt) {
        effects.push(attempt.number)
        await kit.sleep('1s')
        return 'done'
      },
      verify: () => true,
    })
    const { id } = await job.submit({})
    await kit.crashingWorker({ at: step })
    await kit.advance('2s')
    const recorded = await kit.history(id)
    await kit.advance('1m')
    const end = await kit.app.jobs.find(id)
    return { kit, id, effects, recorded, end, history: await kit.history(id) }
  }

  test('nothing but the claim is recorded when it dies before the handler ran', async () => {
    for (const step of ['claim', 'start', 'run'] as const) {
      const { recorded } = await killAt(step, 'requeue')
      expect(recorded, step).toEqual(['queued', 'processing'])
    }
  })

  test('the start is recorded when it dies while the work is done, and before the outcome is', async () => {
    for (const step of ['verify', 'decide', 'record'] as const) {
      const { recorded } = await killAt(step, 'requeue')
      expect(recorded, step).toEqual(['queued', 'processing', 'started'])
    }
  })

  test('the outcome counts when the worker dies after the record and before the report', async () => {
    for (const orphan of ['requeue', 'report', 'fail'] as const) {
      const { recorded, end, effects } = await killAt('report', orphan)
      expect(recorded).toEqual(['queued', 'processing', 'started', 'complete'])
      expect(end).toMatchObject({ status: 'complete', result: 'done' })
      expect(effects).toEqual([1])
    }
  })

  test('under requeue the job runs again when its lease has run out', async () => {
    for (const step of ATTEMPT_STEPS.filter((each) => each !== 'report')) {
      const { end, effects, history } = await killAt(step, 'requeue')
      expect(end, step).toMatchObject({ status: 'complete', attemptCount: 2 })
      expect(history, step).toContain('reclaimed')
      // What the first attempt did before the worker died cannot be undone: handlers must stand being run twice.
      const hadRun = ATTEMPT_STEPS.indexOf(step) > ATTEMPT_STEPS.indexOf('run')
      expect(effects, step).toEqual(hadRun ? [1, 2] : [2])
    }
  })

  test('under report a person is asked about a job that had begun', async () => {
    for (const step of ['verify', 'decide', 'record'] as const) {
      const { kit, id, end, history } = await killAt(step, 'report')
      expect(end, step).toMatchObject({ status: 'processing', orphanedAt: expect.any(String) })
      expect(history, step).toEqual(['queued', 'processing', 'started', 'orphaned'])
      await kit.app.jobs.markFailed(id, { actor: 'ada', reason: 'looked at the other side: it was not done' })
      expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'MARKED_FAILED' })
    }
  })

  test('under report a person is asked about a job of whose start nothing is recorded, too', async () => {
    for (const step of ['claim', 'start', 'run'] as const) {
      const { end, effects } = await killAt(step, 'report')
      expect(end, step).toMatchObject({ status: 'processing', orphanedAt: expect.any(String) })
      expect(effects, step).toEqual([])
    }
  })

  test('under fail the job is failed: its worker is lost', async () => {
    for (const step of ATTEMPT_STEPS.filter((each) => each !== 'report')) {
      const { end, effects } = await killAt(step, 'fail')
      const hadRun = ATTEMPT_STEPS.indexOf(step) > ATTEMPT_STEPS.indexOf('run')
      expect(end, step).toMatchObject({ status: 'failed', errorCode: 'WORKER_LOST' })
      expect(effects, step).toEqual(hadRun ? [1] : [])
    }
  })

  test('dies at every step, whatever hooks the type has or lacks', async () => {
    for (const hooks of [{}, { verify: () => true }, { acquire: () => () => undefined }]) {
      for (const at of ATTEMPT_STEPS) {
        const kit = testKit()
        const placed: number[] = []
        const order = kit.app.job('order', {
          policy: { orphan: 'requeue' },
          run: (_, attempt) => void placed.push(attempt.number),
          ...hooks,
        })
        await kit.crashingWorker({ at })
        await order.submit({})
        await kit.drain()
        // The worker died after the work and before it was recorded, so the work is done twice.
        const isTwice = ['verify', 'decide', 'record'].includes(at)
        expect(placed, `${at} ${Object.keys(hooks)}`).toEqual(isTwice ? [1, 2] : [at === 'report' ? 1 : 2])
        await kit.stop()
      }
    }
  })

  test('is missed when the kit stops and it never came to its step', async () => {
    const plan = async (options: Partial<CrashOptions>) => {
      const kit = testKit()
      const job = kit.app.job('work', { run: () => 'done' })
      await kit.crashingWorker({ at: 'run', ...options })
      await job.submit({})
      await kit.drain()
      return kit
    }
    await (await plan({ optional: true, nth: 2 })).stop()
    const kit = await plan({ nth: 2 })
    const said = "The planned crash of crashing-worker-1 at 'run' never happened: 1 of 2 attempts reached this step."
    await expect(kit.stop()).rejects.toThrow(said)
    // It is stopped all the same, and says it once.
    await expect(kit.app.jobs.list()).rejects.toThrow()
    await kit.stop()
    const failing = testKit()
    failing.app.job('bad', { run: () => Promise.reject(new Error('no')) })
    await failing.crashingWorker({ at: 'verify' })
    await failing.app.submit('bad', {})
    await failing.drain()
    await expect(failing.stop()).rejects.toThrow("at 'verify' never happened")
    await expect(
      (async () => {
        await using unused = testKit()
        await unused.crashingWorker({ at: 'claim' })
      })(),
    ).rejects.toThrow("at 'claim' never happened: 0 of 1 attempts")
  })

  test('is refused where its step, its number or an option does not exist', async () => {
    const kit = freshKit()
    for (const at of ['verified', '', undefined]) {
      await expect(kit.crashingWorker({ at: at as AttemptStep })).rejects.toThrow(
        'at: must be one of claim, start, run, verify, decide, record, report',
      )
    }
    for (const nth of [0, -1, 1.5, Number.NaN]) {
      await expect(kit.crashingWorker({ at: 'run', nth })).rejects.toThrow('nth: must be a whole number from 1')
    }
    expect(() => testKit({ sede: 7 } as object)).toThrow('testKit() has no option "sede"')
  })

  test('can be the one that has the nth job', async () => {
    const kit = freshKit()
    const job = kit.app.job('work', { policy: { orphan: 'requeue' }, run: () => 'done' })
    const submitted = await job.submitMany([{}, {}, {}])
    await kit.crashingWorker({ at: 'run', nth: 2 })
    await kit.drain()
    const found = await Promise.all(submitted.map(({ id }) => kit.app.jobs.find(id)))
    expect(found.map((each) => each?.status)).toEqual(['complete', 'complete', 'complete'])
    expect(found.some((each) => each?.attemptCount === 2)).toBe(true)
  })

  test('costs the job none of its retries', async () => {
    const kit = freshKit()
    const job = kit.app.job('work', {
      policy: { retry: { max: 2, unknown: 'transient' }, orphan: 'requeue' },
      async run(_, attempt) {
        await kit.sleep('1s')
        if (attempt.number === 2) throw new Error('the one failure it may have')
      },
    })
    const { id } = await job.submit({})
    await kit.crashingWorker({ at: 'decide' })
    await kit.drain()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', attemptCount: 3 })
  })

  test('costs a job that had not begun nothing at all, however often', async () => {
    const kit = freshKit()
    const innocent = kit.app.job('innocent', {
      policy: { orphan: { action: 'requeue', maxReclaims: 1 } },
      run: () => kit.sleep('1s'),
    })
    const { id } = await innocent.submit({})
    for (let i = 0; i < 3; i++) await kit.crashingWorker({ at: 'claim' })
    await kit.crashingWorker({ at: 'decide' })
    await kit.drain()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'complete', attemptCount: 5 })
  })

  test('before its start could be recorded has it recorded first the next time', async () => {
    const kit = freshKit()
    const deadly = kit.app.job('deadly', {
      policy: { orphan: { action: 'requeue', maxReclaims: 2 } },
      run: () => 'never comes to this',
    })
    const { id } = await deadly.submit({})
    for (let i = 0; i < 4; i++) await kit.crashingWorker({ at: 'run' })
    await kit.drain()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'QUARANTINED', attemptCount: 4 })
  })

  test('again and again by the same job is quarantined', async () => {
    const kit = freshKit()
    const poison = kit.app.job('poison', {
      policy: { orphan: { action: 'requeue', maxReclaims: 2 } },
      run: () => kit.sleep('1s'),
    })
    const { id } = await poison.submit({})
    for (let i = 0; i < 3; i++) await kit.crashingWorker({ at: 'decide' })
    await kit.drain()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'QUARANTINED', attemptCount: 3 })
  })
})
