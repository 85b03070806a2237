import { describe, expect, test } from 'vitest'
import { makeBench, refusal, WHO } from '../bench.ts'

const RETRIED = { retry: { max: 3, backoff: { table: ['10m'] } } } as const

describe('rescheduling', () => {
  test('a job gets a time or a delay, and the answer names the time', async () => {
    const { app, clock, submit } = await makeBench()
    const id = await submit(['ok'])
    const at = new Date(clock.nowMs() + 3_600_000).toISOString()
    expect(await app.jobs.reschedule(id, { ...WHO, at })).toMatchObject({
      isDone: true,
      did: `Job ${id} is due at ${at}, in 1 h.`,
      job: { id, status: 'queued', retryAfter: at },
    })
    const { did } = await app.jobs.reschedule(id, { ...WHO, delay: '90s' })
    expect(did).toMatch(/, in 1 m 30 s\.$/)
    expect(await app.explain(id)).toContain('by ann: the gateway is back')
  })

  test('a time that is over makes the job due; of a due job nothing is changed', async () => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'], { delay: '1h' })
    const over = { ...WHO, at: '2001-01-01' }
    expect(await app.jobs.reschedule(id, over)).toMatchObject({ isDone: true, job: { retryAfter: null } })
    const before = await app.jobs.events(id)
    expect((await app.jobs.reschedule(id, over)).did).toContain(`Nothing was done: job ${id} is due already.`)
    expect(await app.jobs.events(id)).toEqual(before)
  })

  test.each([
    [{}, 'either `at` or `delay`'],
    [{ at: '2030-01-01', delay: '1h' }, 'either `at` or `delay`'],
    [{ at: 'tomorrow' }, 'is not a time in ISO 8601'],
    [{ at: '2030-13-77T99:00Z' }, 'is not a time in ISO 8601'],
    [{ at: '2030-01-01T10:00' }, 'has no time zone'],
    [{ delay: 'soon' }, 'delay'],
    [{ delay: -5 }, 'delay'],
  ])('a new time given as %j is refused, and the job stays as it is', async (given, message) => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'])
    const before = await app.jobs.show(id)
    const refused = await refusal(app.jobs.reschedule(id, { ...WHO, ...given }))
    expect(refused).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(message) })
    expect(await app.jobs.show(id)).toEqual(before)
  })
})

describe('promoting', () => {
  test('a job that waits for its retry runs at once', async () => {
    const { app, begin, submit } = await makeBench(RETRIED)
    const id = await submit(['GW_5XX', 'ok'])
    await begin()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'queued', attemptCount: 1 })
    expect((await app.jobs.promote(id, WHO)).did).toMatch(/^Job .* is due now\./)
    await begin()
    expect(await app.jobs.find(id)).toMatchObject({ status: 'complete' })
  })

  test('the answer names what still holds the job', async () => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'], { delay: '1h' })
    await app.queues.pause('default', WHO)
    const { did, isDone } = await app.jobs.promote(id, WHO)
    expect([isDone, did]).toEqual([
      true,
      expect.stringMatching(/is due now\. It does not start yet: .*held by queue default: paused by ann/),
    ])
    const again = await app.jobs.promote(id, WHO)
    expect([again.isDone, again.did]).toEqual([false, expect.stringContaining('is due already. It does not start yet')])
  })
})

test('a priority beyond the bounds of a submission is refused, and the same one changes nothing', async () => {
  const { app, submit } = await makeBench()
  const id = await submit(['ok'], { priority: 3 })
  for (const priority of [1_000_001, -1_000_001, 1.5]) {
    expect(await refusal(app.jobs.reprioritise(id, { ...WHO, priority }))).toMatchObject({ code: 'OPTION_INVALID' })
  }
  expect((await app.jobs.reprioritise(id, { ...WHO, priority: 3 })).isDone).toBe(false)
  const { did, job } = await app.jobs.reprioritise(id, { ...WHO, priority: -7 })
  expect([did, job.priority]).toEqual([`Job ${id} has priority -7 now; it had 3.`, -7])
})

describe('replacing the input', () => {
  test('the new input is checked by the schema, and a job that is refused keeps its own', async () => {
    const { app, submit, work } = await makeBench()
    const id = await submit(['GW_4XX'], { dedupe: 'once' })
    const wrong = await refusal(app.jobs.replaceInput(id, { ...WHO, input: { outcomes: 7 } }))
    expect(wrong).toMatchObject({ code: 'INPUT_INVALID', problems: [expect.stringContaining('outcomes')] })
    expect(await refusal(app.jobs.replaceInput(id, { ...WHO } as never))).toMatchObject({ code: 'OPTION_INVALID' })
    const { did } = await app.jobs.replaceInput(id, { ...WHO, input: { outcomes: ['ok'] } })
    expect(did).toBe(`Job ${id} has another input. Its dedupe key stays as it is.`)
    await work()
    expect(await app.jobs.show(id)).toMatchObject({ status: 'complete', input: { outcomes: ['ok'] } })
  })

  test('a type that records refusals refuses the input without recording a job', async () => {
    const { app, submit } = await makeBench({ reject: 'record' })
    const id = await submit(['ok'])
    const refused = await refusal(app.jobs.replaceInput(id, { ...WHO, input: { outcomes: 7 } }))
    expect(refused).toMatchObject({ code: 'SUBMISSION_REFUSED', message: expect.stringContaining('keeps its input') })
    expect((await app.jobs.list({})).jobs).toHaveLength(1)
  })

  test('a job that has run keeps its input', async () => {
    const { app, begin, submit } = await makeBench(RETRIED)
    const id = await submit(['GW_5XX', 'ok'])
    await begin()
    const refused = await refusal(app.jobs.replaceInput(id, { ...WHO, input: { outcomes: ['ok'] } }))
    expect(refused).toMatchObject({ code: 'JOB_WRONG_STATE', message: expect.stringContaining('it has run with') })
  })
})

describe('every change', () => {
  const CHANGES = {
    reschedule: { delay: '1h' },
    promote: {},
    reprioritise: { priority: 5 },
    replaceInput: { input: { outcomes: ['ok'] } },
  } as const
  const names = Object.keys(CHANGES) as (keyof typeof CHANGES)[]

  test.each(names)('%s needs an actor and a reason', async (name) => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'], { delay: '1h' })
    const change = app.jobs[name] as (id: string, given: object) => Promise<unknown>
    for (const who of [{ actor: 'ann' }, { reason: 'x' }]) {
      expect(await refusal(change(id, { ...CHANGES[name], ...who }))).toMatchObject({ code: 'REASON_REQUIRED' })
    }
  })

  test.each(names)('a dry run of %s changes nothing and says what it would do', async (name) => {
    const { app, submit } = await makeBench()
    const id = await submit(['ok'], { delay: '1h' })
    const before = [await app.jobs.show(id), await app.jobs.events(id), await app.perform('audit.list', {})]
    const change = app.jobs[name] as (id: string, given: object) => Promise<{ isDone: boolean; did: string }>
    const { isDone, did } = await change(id, { ...CHANGES[name], ...WHO, dryRun: true })
    expect([isDone, did]).toEqual([false, expect.stringContaining(`Nothing was done. On job ${id}, this `)])
    expect([await app.jobs.show(id), await app.jobs.events(id), await app.perform('audit.list', {})]).toEqual(before)
  })

  test.each(names)('%s of a job that a worker took meanwhile is refused', async (name) => {
    // The worker claims between the look at the job and the change.
    let isTaken = false
    const bench = await makeBench({}, (store) => ({
      ...store,
      async intervene(params) {
        if (!isTaken) {
          isTaken = true
          await bench.clock.advance(3_600_000)
          await bench.begin()
        }
        return store.intervene(params)
      },
    }))
    const id = await bench.submit(['hang'], { delay: '1h' })
    const change = bench.app.jobs[name] as (id: string, given: object) => Promise<unknown>
    const refused = await refusal(change(id, { ...CHANGES[name], ...WHO }))
    expect(refused).toMatchObject({
      code: 'JOB_WRONG_STATE',
      message: `Job ${id} is processing (attempt 1) now; it was queued (attempt 0) when this was decided. Nothing was done.`,
    })
    expect(await bench.app.jobs.show(id)).toMatchObject({ status: 'processing', priority: 0 })
  })
})
