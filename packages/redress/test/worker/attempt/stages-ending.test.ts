import { describe, expect, test } from 'vitest'
import { table } from '../../../src/core/policy/backoff.ts'
import { classify, codes, declare, done, download, ended, failing, http, kit, type Run, useKit } from './stage-kit.ts'

useKit()

describe('when the attempt no longer counts', () => {
  /** Fails its first try, then waits an hour for the second. */
  const waiting = (seen: string[]): Run => {
    return async (attempt) => {
      try {
        return await attempt.stage('download', { max: 2, backoff: table(['30m']) }, ({ number }) => {
          seen.push(`try ${number}`)
          throw http(503)
        })
      } catch (error) {
        seen.push((error as Error).name)
        throw error
      }
    }
  }

  test('a cancellation ends the wait at once', async () => {
    const seen: string[] = []
    declare(waiting(seen))
    const { id } = await kit.app.submit('fetch', {})
    await kit.tick()
    await kit.app.jobs.cancel(id, { actor: 'olga', reason: 'wrong file' })
    const before = kit.clock.nowMs()
    await kit.tick()
    expect(seen).toEqual(['try 1', 'Cancelled'])
    await kit.drain()
    expect(kit.clock.nowMs()).toBe(before)
    const { job, last } = await ended(id)
    expect(job?.status).toBe('cancelled')
    expect(last).toMatchObject({ kind: 'cancelled', data: { stages: [{ tries: 1, codes: { SLOW: 1 } }] } })
  })

  test('a shutdown ends the wait when the grace is over, and the job goes back', async () => {
    const seen: string[] = []
    declare(waiting(seen), { orphan: 'requeue' })
    const { id } = await kit.app.submit('fetch', {})
    await kit.tick()
    const stopping = (await kit.worker()).stop({ graceMs: 1_000 })
    await kit.clock.advance(2_000, async () => {
      for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve))
    })
    await stopping
    expect(seen).toEqual(['try 1', 'ShuttingDown'])
    const job = await kit.app.jobs.find(id)
    expect(job?.status).toBe('queued')
    expect((await kit.history(id)).at(-1)).toBe('released')
  })

  test('its time limit ends the wait, and no further try is made', async () => {
    const seen: string[] = []
    const run: Run = (attempt) =>
      attempt
        .stage('outer', {}, () =>
          attempt.stage('download', { max: 5, backoff: table(['40s']) }, failing(http(503), http(503))),
        )
        .catch((error: Error) => {
          seen.push(error.name)
          throw error
        })
    const { job } = await done(run, { timeout: { attempt: '1m' } })
    expect(seen).toEqual(['Error'])
    expect(job).toMatchObject({ status: 'failed', errorCode: 'SLOW' })
  })

  test('a lost lease ends the wait', async () => {
    const seen: string[] = []
    declare(waiting(seen), { orphan: 'requeue', lease: { ttl: '1s', startTimeout: null } })
    const { id } = await kit.app.submit('fetch', {})
    await kit.tick()
    // As if this process had stood still: its lease ran out, and another worker has the job.
    kit.clock.jump(10_000)
    const store = await kit.app.store()
    const [stalled] = await store.stalled({ unstartedForMs: 1e9, limit: 1 })
    const change = {
      to: 'queued',
      cause: 'reclaimed',
      delayMs: 3_600_000,
      spent: null,
      failure: null,
      note: null,
    } as const
    await store.reclaim({
      reclaims: [{ key: stalled?.key ?? 0, attempt: 1, expect: 'expired', change }],
    })
    await kit.clock.advance(1_000)
    await (await kit.worker()).tick()
    expect(seen).toEqual(['try 1', 'LeaseLost'])
    expect((await kit.app.jobs.find(id))?.status).toBe('queued')
  })

  test('no try is begun any more', async () => {
    let tries = 0
    let name = ''
    declare(async (attempt) => {
      await new Promise((resolve) => attempt.signal.addEventListener('abort', resolve))
      await attempt
        .stage('download', { max: 3 }, () => ++tries)
        .catch((error: Error) => {
          name = error.name
        })
      return 'tidied up'
    })
    const { id } = await kit.app.submit('fetch', {})
    await kit.tick()
    await kit.app.jobs.cancel(id, { actor: 'olga', reason: 'wrong file' })
    await kit.drain()
    expect([tries, name]).toEqual([0, 'Cancelled'])
    expect((await kit.app.jobs.find(id))?.status).toBe('complete')
  })

  test('a try that is under way may tidy up; if it fails then, there is no other', async () => {
    const seen: string[] = []
    declare((attempt) =>
      attempt.stage('download', { max: 3 }, async ({ signal }) => {
        seen.push('begun')
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        await kit.sleep('1s')
        seen.push('tidied up')
        throw http(503)
      }),
    )
    const { id } = await kit.app.submit('fetch', {})
    await kit.tick()
    await kit.app.jobs.cancel(id, { actor: 'olga', reason: 'wrong file' })
    await kit.drain()
    expect(seen).toEqual(['begun', 'tidied up'])
    expect((await kit.app.jobs.find(id))?.status).toBe('cancelled')
  })
})

describe('several stages', () => {
  test('within each other: the innermost that gave up describes the failure', async () => {
    const tried: string[] = []
    const { failure, last } = await done((attempt) =>
      attempt.stage('mirror', { max: 2 }, (outer) => {
        outer.context({ mirror: outer.number, proxy: 'of the mirror' })
        return outer.stage('download', { max: 2 }, (inner) => {
          tried.push(`${outer.number}.${inner.number}`)
          inner.context({ proxy: `pool#${inner.number}` })
          throw http(503)
        })
      }),
    )
    expect(tried).toEqual(['1.1', '1.2', '2.1', '2.2'])
    expect(failure?.context).toMatchObject({
      mirror: 2,
      proxy: 'pool#2',
      stage: { name: 'mirror/download', tries: 2, max: 2 },
    })
    expect(last?.data.stages).toMatchObject([
      { name: 'mirror', runs: 1, tries: 2, failed: 1 },
      { name: 'download', runs: 2, tries: 4, failed: 2, codes: { SLOW: 4 } },
    ])
  })

  test('within each other: what is final for the inner one is final for the outer one', async () => {
    let tries = 0
    const { job } = await done(
      (attempt) =>
        attempt.stage('mirror', { max: 5 }, (outer) =>
          outer.stage('download', { max: 2, exhausted: 'fail' }, () => {
            tries++
            throw http(503)
          }),
        ),
      { retry: { max: 5 } },
    )
    expect([tries, job?.attemptCount]).toEqual([2, 1])
  })

  test('within each other: the time of the outer try is the inner one’s too', async () => {
    const reasons: string[] = []
    const { job } = await done((attempt) =>
      attempt.stage('mirror', { max: 2, timeout: '10s' }, (outer) =>
        outer.number === 2
          ? 'ok'
          : outer.stage('download', { max: 9, backoff: table(['1m']) }, () => {
              throw http(503)
            }),
      ),
    ).finally(() => reasons.push('ended'))
    expect(job?.status).toBe('complete')
    expect(kit.clock.nowMs() - Date.parse(job?.createdAt ?? '')).toBe(10_000)
  })

  test('side by side: each has its own tries, and the one that failed describes the failure', async () => {
    const { failure, last } = await done((attempt) =>
      Promise.all(
        [1, 2, 3].map((part) =>
          attempt.stage(`part-${part}`, { max: 2, backoff: table(['1s']) }, (stage) => {
            stage.context({ part })
            if (part === 1 && stage.number === 1) throw http(500)
            if (part === 2) throw http(502)
            return part
          }),
        ),
      ),
    )
    expect(failure?.context).toMatchObject({ part: 2, httpStatus: 502, stage: { name: 'part-2', tries: 2 } })
    expect(last?.data.stages).toMatchObject([
      { name: 'part-1', tries: 2, failed: 0 },
      { name: 'part-2', tries: 2, failed: 1 },
    ])
  })

  test('a thousand of them leave a short record', async () => {
    const { job, last } = await done(async (attempt) => {
      for (let i = 0; i < 1_000; i++) {
        const fail = failing(http(503))
        await attempt.stage(`part-${i}`, { max: 2 }, (stage) => {
          stage.context({ text: 'x'.repeat(10_000) })
          return fail()
        })
      }
    })
    expect(job?.status).toBe('complete')
    expect(JSON.stringify(last).length).toBeLessThan(5_000)
  })

  test('the record of one that gave up is short too, and secrets are taken out of it', async () => {
    const { failure } = await done(
      download({ max: 50 }, (stage) => {
        stage.context({ url: 'https://olga:hunter22@example.com/a', password: 'hunter22', text: 'x'.repeat(10_000) })
        throw Object.assign(new Error(`no answer from https://olga:hunter22@example.com ${'y'.repeat(10_000)}`), {
          status: 503,
        })
      }),
    )
    const stage = failure?.context.stage as { tries: number; lastErrors: unknown[] }
    expect(stage.tries).toBe(50)
    expect(stage.lastErrors).toHaveLength(5)
    expect(JSON.stringify(stage).length).toBeLessThan(6_000)
    expect(JSON.stringify(failure)).not.toContain('hunter22')
  })

  test('work in verify as in run', async () => {
    const fail = failing(http(503))
    kit.app.job('checked', {
      codes,
      classify,
      run: () => 'output',
      verify: (_output, attempt) => attempt.stage('compare', { max: 2 }, fail),
    })
    const { id } = await kit.app.submit('checked', {})
    await kit.drain()
    expect(await ended(id)).toMatchObject({
      job: { status: 'complete' },
      last: { data: { stages: [{ name: 'compare', tries: 2 }] } },
    })
  })
})

describe('whatever is thrown', () => {
  test.each([
    ['a text', 'no'],
    ['nothing', undefined],
    ['null', null],
    ['a frozen object', Object.freeze({ status: 503 })],
    [
      'a proxy whose every trap throws',
      new Proxy(
        {},
        {
          get: () => {
            throw new Error('get')
          },
          getPrototypeOf: () => {
            throw new Error('getPrototypeOf')
          },
        },
      ),
    ],
  ])('%s is a failure of its stage', async (_what, thrown) => {
    const { job, failure } = await done(
      download({ max: 2 }, () => {
        throw thrown
      }),
      { retry: { max: 2, unknown: 'transient' } },
    )
    expect(job?.status).toBe('failed')
    expect(failure?.context).toMatchObject({ stage: { name: 'download', tries: 2, gaveUp: 'exhausted' } })
  })
})

test('explain and the history tell what was tried', async () => {
  const { id } = await done(download({ max: 3, backoff: table(['1s']) }, failing(http(503), http(404))))
  const text = await kit.app.explain(id)
  expect(text).toMatch(/stages +download: 2 tries of 3, gave up \(SLOW 1, GONE 1\)/)
  const events = (await kit.app.jobs.events(id)).events
  expect(events.find(({ kind }) => kind === 'failed')?.data.stages).toHaveLength(1)
})
