import { describe, expect, test } from 'vitest'
import { rule } from '../../../src/core/failure/classify.ts'
import type { StageOptions } from '../../../src/core/failure/stage.ts'
import { exponential, table } from '../../../src/core/policy/backoff.ts'
import { type Code, codes, done, download, failing, http, kit, useKit } from './stage-kit.ts'

useKit()

describe('a stage', () => {
  test('that succeeds leaves no trace, and its answer is what its work answers', async () => {
    const { job, last } = await done(download({ max: 3 }, async () => ({ bytes: 7 })))
    expect(job).toMatchObject({ status: 'complete', result: { bytes: 7 }, attemptCount: 1 })
    expect(last?.data).toEqual({})
  })

  test('is tried again within the attempt, with the waits of its backoff', async () => {
    const times: number[] = []
    const fail = failing(http(503), http(500))
    const { job, last } = await done(
      download({ max: 3, backoff: exponential('500ms') }, ({ number }) => {
        times.push(number, kit.clock.nowMs())
        return fail()
      }),
    )
    const began = times[1] as number
    expect(times).toEqual([1, began, 2, began + 500, 3, began + 1_500])
    expect(job).toMatchObject({ status: 'complete', attemptCount: 1 })
    expect(last).toMatchObject({
      kind: 'complete',
      durationMs: 1_500,
      data: { stages: [{ name: 'download', runs: 1, tries: 3, max: 3, succeeded: 1, failed: 0, codes: { SLOW: 2 } }] },
    })
  })

  test('gives up with its last error, and the record says what was tried', async () => {
    const errors = [http(500), Object.assign(new Error('reset'), { code: 'ECONNRESET' }), http(502)]
    const fail = failing(...errors)
    const { job, failure, last } = await done((attempt) => {
      attempt.context({ file: 'a.bin', proxy: 'none' })
      return attempt.stage('download', { max: 3, backoff: table(['1s']) }, (stage) => {
        stage.context({ proxy: `pool#${stage.number}` })
        return fail()
      })
    })
    expect(job).toMatchObject({ status: 'failed', errorCode: 'SLOW' })
    expect(failure?.detail).toMatch(/^Error: answered 502/)
    expect(failure?.context).toEqual({
      httpStatus: 502,
      file: 'a.bin',
      proxy: 'pool#3',
      stage: {
        name: 'download',
        tries: 3,
        max: 3,
        gaveUp: 'exhausted',
        lastErrors: [
          { try: 1, code: 'SLOW', said: 'Error: answered 500', httpStatus: 500, context: { proxy: 'pool#1' } },
          { try: 2, code: 'SLOW', said: 'Error: reset', context: { proxy: 'pool#2' } },
          { try: 3, code: 'SLOW', said: 'Error: answered 502', httpStatus: 502, context: { proxy: 'pool#3' } },
        ],
      },
    })
    expect(last?.data).toMatchObject({
      httpStatus: 502,
      stages: [{ name: 'download', runs: 1, tries: 3, max: 3, succeeded: 0, failed: 1, codes: { SLOW: 3 } }],
    })
  })

  test('rejects with the very error that was thrown, so that a handler can go another way', async () => {
    const thrown = http(503)
    const { job, last } = await done(async (attempt) => {
      try {
        return await attempt.stage('download', { max: 2 }, failing(thrown, thrown))
      } catch (error) {
        return error === thrown ? 'from the copy' : 'another error'
      }
    })
    expect(job).toMatchObject({ status: 'complete', result: 'from the copy' })
    expect(last?.data.stages).toMatchObject([{ tries: 2, failed: 1 }])
  })

  test('an error with a stage’s error as its cause is still that stage’s', async () => {
    const { failure } = await done(async (attempt) => {
      try {
        await attempt.stage('download', { max: 2 }, failing(http(503), http(503)))
      } catch (cause) {
        throw new Error('there is no file to convert', { cause })
      }
    })
    expect(failure).toMatchObject({ code: 'SLOW', context: { stage: { name: 'download', tries: 2 } } })
    expect(failure?.detail).toMatch(/there is no file to convert/)
  })

  test('an error that came after a stage’s was dealt with is not that stage’s', async () => {
    const { failure } = await done(async (attempt) => {
      await attempt.stage('download', {}, failing(http(503))).catch(() => undefined)
      attempt.fail('BROKEN')
    })
    expect(failure?.code).toBe('BROKEN')
    expect(failure?.context).toEqual({})
  })

  test.each([
    ['a code that is never retried', http(404), 'GONE'],
    ['a code that is set aside at once', null, 'BROKEN'],
    ['an error that no rule knows', new TypeError('x is undefined'), 'UNKNOWN'],
  ])('%s ends it at the first try', async (_what, thrown, code) => {
    let tries = 0
    const { failure } = await done(
      download({ max: 5 }, (stage) => {
        tries++
        if (thrown === null) stage.fail('BROKEN')
        throw thrown
      }),
    )
    expect(tries).toBe(1)
    expect(failure).toMatchObject({ code, context: { stage: { tries: 1, max: 5, gaveUp: 'final' } } })
  })

  test('where the policy takes the unknown for transient, it is tried again', async () => {
    const { job } = await done(download({ max: 2 }, failing(new TypeError('odd'))), {
      retry: { max: 2, unknown: 'transient' },
    })
    expect(job?.status).toBe('complete')
  })

  test('stage.fail names the code, and its context and note go with it', async () => {
    const { failure } = await done(
      download({ max: 2 }, (stage) => stage.fail('SLOW', { context: { mirror: stage.number }, note: 'Mirror north.' })),
    )
    expect(failure).toMatchObject({ code: 'SLOW', context: { mirror: 2, stage: { tries: 2 } } })
    expect(failure?.message).toBe('The mirror is slow. Mirror north.')
  })

  test('retryIf decides instead of the taxonomy', async () => {
    const seen: unknown[] = []
    const options: StageOptions<Code> = {
      max: 3,
      retryIf: (error, found) => {
        seen.push([(error as { status: number }).status, found])
        return (error as { status: number }).status !== 502
      },
    }
    const { failure } = await done(download(options, failing(http(404), http(502), http(500))))
    expect(seen).toEqual([
      [404, { code: 'GONE', retry: 'never', number: 1 }],
      [502, { code: 'SLOW', retry: 'transient', number: 2 }],
    ])
    expect(failure).toMatchObject({ code: 'SLOW', context: { stage: { tries: 2, gaveUp: 'declined' } } })
  })

  test('a retryIf that throws has not said yes; the failure is still the one of the work', async () => {
    const options: StageOptions<Code> = {
      max: 3,
      retryIf: () => {
        throw new Error('a mistake in retryIf')
      },
    }
    const { failure } = await done(download(options, failing(http(500))))
    expect(failure).toMatchObject({ code: 'SLOW', context: { stage: { tries: 1 } } })
  })

  test('has rules of its own, asked before those of the type, by which the failure is named too', async () => {
    const rules = [rule.http({ status: 404 }, 'SLOW' as const)]
    const { failure } = await done(download({ max: 2, classify: rules }, failing(http(404), http(404), http(404))))
    expect(failure).toMatchObject({ code: 'SLOW', rule: 'HTTP status 404', context: { stage: { tries: 2 } } })
  })

  test('rules that cannot work are refused before the first try', async () => {
    let tries = 0
    const { failure } = await done(
      download({ classify: [rule.http({ status: 404 }, 'NO_SUCH_CODE' as never)] }, () => ++tries),
    )
    expect(tries).toBe(0)
    expect(failure?.detail).toMatch(/the taxonomy has no code NO_SUCH_CODE/)
  })

  test('a Retry-After is waited for, and not longer than the stage allows', async () => {
    const times: number[] = []
    const fail = failing(http(503, { 'retry-after': '7' }), http(503, { 'retry-after': '86400' }))
    await done(
      download({ max: 3, backoff: table(['1s']), retryAfterMax: '20s' }, () => {
        times.push(kit.clock.nowMs())
        return fail()
      }),
    )
    expect(times.slice(1).map((at, i) => at - (times[i] as number))).toEqual([7_000, 20_000])
  })

  test('can be snoozed out of: that is no failure of the try', async () => {
    let runs = 0
    const { job, events } = await done(async (attempt) => {
      runs++
      return attempt.stage('download', { max: 3 }, () => (attempt.number === 1 ? attempt.snooze('1m') : 'ok'))
    })
    expect([runs, job?.status]).toEqual([2, 'complete'])
    expect(events.map(({ kind }) => kind)).toContain('snoozed')
  })

  test('bad options fail the attempt with what is wrong', async () => {
    const { failure } = await done(download({ max: 0 }, () => 1))
    expect(failure?.detail).toMatch(/stage download: max must be a whole number from 1 to 1000, not 0/)
  })
})

describe('when a stage gives up', () => {
  test('the policy decides about the attempt, as always', async () => {
    let tries = 0
    const { job, failures: all } = await done(
      download({ max: 2 }, () => {
        tries++
        throw http(503)
      }),
      { retry: { max: 3, backoff: table(['1m']) } },
    )
    expect(job).toMatchObject({ status: 'failed', attemptCount: 3 })
    expect([tries, all.length]).toEqual([6, 3])
    expect(all.map(({ to }) => to)).toEqual(['queued', 'queued', 'failed'])
  })

  test("exhausted: 'fail' ends the job, whatever attempts it has left, and it is dead-lettered by policy [F12]", async () => {
    const {
      job,
      failure,
      failures: all,
    } = await done(
      download({ max: 3, exhausted: 'fail' }, () => {
        throw http(503)
      }),
      { retry: { max: 5 }, deadLetter: 'queue' },
    )
    expect(job).toMatchObject({ status: 'failed', attemptCount: 1, deadLettered: true })
    expect(all).toHaveLength(1)
    expect(failure?.decision).toMatchObject({
      rule: 'stage download: exhausted = fail',
      because: 'SLOW is transient; stage download used up its 3 tries, and that ends the job',
    })
  })

  test("exhausted: 'fail' says nothing about an attempt whose time is over before its tries are", async () => {
    const { failures: all } = await done(
      download({ max: 3, exhausted: 'fail', backoff: table(['1h']) }, () => {
        throw http(503)
      }),
      { retry: { max: 2 }, timeout: { attempt: '1m' } },
    )
    expect(all.map(({ code, context }) => [code, (context.stage as { gaveUp: string }).gaveUp])).toEqual([
      ['SLOW', 'no-time'],
      ['SLOW', 'no-time'],
    ])
  })

  test('exhaustedCode names it, and the last error is its cause', async () => {
    const { failure } = await done(
      download({ max: 2, exhaustedCode: 'USED_UP' }, (stage) => {
        stage.context({ proxy: `pool#${stage.number}` })
        throw http(504)
      }),
    )
    expect(failure).toMatchObject({
      code: 'USED_UP',
      message: 'No mirror answered.',
      context: { httpStatus: 504, proxy: 'pool#2', stage: { name: 'download', tries: 2, max: 2 } },
      causes: [{ name: 'Error', message: 'answered 504' }],
    })
    expect(failure?.detail).toMatch(/stage download gave up after 2 of 2 tries; the last one: Error: answered 504/)
  })

  test('exhaustedCode is for what was exhausted: an error that is never retried keeps its own code', async () => {
    const { failure } = await done(download({ max: 3, exhaustedCode: 'USED_UP' }, failing(http(503), http(404))))
    expect(failure).toMatchObject({ code: 'GONE', context: { stage: { tries: 2, gaveUp: 'final' } } })
  })

  test('the detail of stage.fail of the last try is kept under the other code', async () => {
    const { failure } = await done(
      download({ max: 1, exhaustedCode: 'USED_UP' }, (stage) => stage.fail('SLOW', { context: { mirror: 'north' } })),
    )
    expect(failure).toMatchObject({ code: 'USED_UP', context: { mirror: 'north' } })
  })
})

describe('the time of a try', () => {
  const hang = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

  test('is over: its signal says so, it is a timeout, and the next try begins', async () => {
    const reasons: string[] = []
    const { job, last } = await done(
      download({ max: 3, timeout: '30s' }, ({ signal, number }) => {
        signal.addEventListener('abort', () => reasons.push((signal.reason as Error).name))
        return number < 3 ? hang(signal) : 'ok'
      }),
    )
    expect(job?.status).toBe('complete')
    expect(reasons).toEqual(['StageTimeout', 'StageTimeout'])
    expect(last).toMatchObject({ durationMs: 60_000, data: { stages: [{ tries: 3, codes: { TIMEOUT: 2 } }] } })
  })

  test('also ends for work that ignores the signal, and its later result is ignored', async () => {
    let late = 0
    const { failure, job } = await done(
      download({ max: 2, timeout: '1s' }, async (stage) => {
        await kit.sleep('10s')
        stage.context({ late: ++late })
        throw new Error('nobody hears this')
      }),
    )
    expect(failure).toMatchObject({ code: 'TIMEOUT', rule: 'stopped at the time limit of a stage' })
    expect(failure?.context).toMatchObject({ stage: { tries: 2, gaveUp: 'exhausted' } })
    expect(job?.status).toBe('failed')
    await kit.advance('1m')
    expect(late).toBe(2)
    expect((await kit.app.jobs.failures(job?.id ?? '')).failures.length).toBe(1)
  })

  test('can be named by a rule', async () => {
    kit.app.job('ruled', {
      codes,
      classify: [rule.timeout('SLOW')],
      run: (_: unknown, attempt) => attempt.stage('download', { timeout: '1s' }, ({ signal }) => hang(signal)),
    })
    const { id } = await kit.app.submit('ruled', {})
    await kit.drain()
    expect((await kit.app.jobs.failures(id)).failures[0]).toMatchObject({ code: 'SLOW', rule: 'timed out' })
  })

  test('of the whole attempt is over in the middle of a stage: the failure says in which', async () => {
    const { failure, job } = await done(
      (attempt) =>
        attempt.stage('download', { max: 9, backoff: table(['40s']) }, (stage) => {
          stage.context({ proxy: `pool#${stage.number}` })
          if (stage.number === 1) throw http(503)
          return hang(stage.signal)
        }),
      { timeout: { attempt: '1m' } },
    )
    expect(job).toMatchObject({ status: 'failed', errorCode: 'TIMEOUT' })
    expect(failure?.context).toMatchObject({
      proxy: 'pool#2',
      stage: { name: 'download', tries: 2, max: 9, gaveUp: 'stopped', lastErrors: [{ try: 1, code: 'SLOW' }] },
    })
  })
})
