import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../../test/support/until.ts'
import { App } from '../../../src/app/app.ts'
import { tickId } from '../../../src/app/schedules/ticks.ts'
import type { RedressError, ScheduleDefinition } from '../../../src/index.ts'
import { type KitOptions, TestKit } from '../../../src/testing/kit.ts'

const NEW_YEAR = Date.UTC(2026, 0, 1)
const by = { actor: 'olga', reason: 'a test' }

/** An app with one job type that remembers its inputs, and a schedule of it every day at 03:00 in Berlin. */
function nightly(definition: Partial<ScheduleDefinition<{ n: number }>> = {}, options: KitOptions = {}) {
  const kit = new TestKit({ startMs: NEW_YEAR, ...options })
  const inputs: unknown[] = []
  const report = kit.app.job('report', {
    input: z.object({ n: z.number() }),
    run: (input) => void inputs.push(input),
  })
  kit.app.schedule('nightly', {
    cron: '0 3 * * *',
    timezone: 'Europe/Berlin',
    job: report,
    input: { n: 7 },
    ...definition,
  })
  const seen = async () => {
    const schedule = await kit.app.schedules.find('nightly')
    if (schedule === null) throw new Error('the schedule is gone')
    return schedule
  }
  /** When each job was made, oldest first. */
  const made = async () => (await kit.app.jobs.list({ limit: 500 })).jobs.map(({ createdAt }) => createdAt).reverse()
  return { kit, report, inputs, seen, made }
}

const stop = (kit: TestKit) => kit.stop()

describe('a schedule', () => {
  test('makes one job at each of its times, and shows the next and the last', async () => {
    const { kit, inputs, seen, made } = nightly()
    await kit.tick()
    expect(await seen()).toMatchObject({
      state: 'active',
      nextAt: '2026-01-01T02:00:00.000Z',
      lastAt: null,
      lastJob: null,
    })
    await kit.advance('3d')
    expect(await made()).toEqual(['2026-01-01T02:00:00.000Z', '2026-01-02T02:00:00.000Z', '2026-01-03T02:00:00.000Z'])
    expect(inputs).toEqual([{ n: 7 }, { n: 7 }, { n: 7 }])
    const { lastJob, ...shown } = await seen()
    expect(shown).toMatchObject({ nextAt: '2026-01-04T02:00:00.000Z', lastAt: '2026-01-03T02:00:00.000Z' })
    expect(shown).toMatchObject({ runs: 3, skipped: 0, problem: null })
    expect(lastJob).toEqual({ id: tickId('nightly', Date.UTC(2026, 0, 3, 2)), status: 'complete' })
    await stop(kit)
  })

  test('goes on when a clock that was a year ahead is set back', async () => {
    const { kit, seen } = nightly()
    await kit.tick()
    kit.clock.jump(365 * 86_400_000)
    await kit.advance('1h')
    expect(await seen()).toMatchObject({ runs: 1, nextAt: '2027-01-01T02:00:00.000Z' })
    kit.clock.jump(-365 * 86_400_000)
    await kit.advance('5s')
    await kit.advance('2d')
    expect(await seen()).toMatchObject({
      runs: 3,
      lastAt: '2026-01-02T02:00:00.000Z',
      nextAt: '2026-01-03T02:00:00.000Z',
    })
    await stop(kit)
  })

  test('goes with the clocks of its zone, also over their changes', async () => {
    const { kit, made } = nightly({ cron: '30 2 * * *' }, { startMs: Date.UTC(2026, 2, 28) })
    await kit.advance('3d')
    expect(await made()).toEqual(['2026-03-28T01:30:00.000Z', '2026-03-29T01:00:00.000Z', '2026-03-30T00:30:00.000Z'])
    await stop(kit)
    const autumn = nightly({ cron: '30 2 * * *' }, { startMs: Date.UTC(2026, 9, 24) })
    await autumn.kit.advance('3d')
    expect(await autumn.made()).toEqual([
      '2026-10-24T00:30:00.000Z',
      '2026-10-25T00:30:00.000Z',
      '2026-10-26T01:30:00.000Z',
    ])
    await stop(autumn.kit)
  })

  test('can make its input for each run, and the history of a job says for when it was made', async () => {
    const { kit, inputs, seen } = nightly({
      input: ({ scheduledFor, schedule, isTriggered }) => ({ n: Date.parse(scheduledFor), schedule, isTriggered }),
    })
    await kit.advance('1d')
    expect(inputs).toEqual([{ n: Date.UTC(2026, 0, 1, 2) }])
    const { lastJob, input } = await seen()
    expect(input).toBeNull()
    const [queued] = (await kit.app.jobs.events(String(lastJob?.id))).events
    expect(queued?.data).toEqual({ schedule: 'nightly', scheduledFor: '2026-01-01T02:00:00.000Z' })
    await stop(kit)
  })

  test('gives owner and priority to its jobs', async () => {
    const { kit, seen } = nightly({ owner: 'ann', priority: 5 })
    await kit.advance('1d')
    const { lastJob } = await seen()
    expect(await kit.app.jobs.find(String(lastJob?.id))).toMatchObject({ owner: 'ann', priority: 5 })
    await stop(kit)
  })

  test('has a line on disk before its jobs are there, where their type wants that', async () => {
    const failureLog = join(temporaryFolder(), 'failures.jsonl')
    const kit = new TestKit({ startMs: NEW_YEAR, failureLog })
    const careful = kit.app.job('careful', { policy: { audit: 'write-ahead' }, run: () => undefined })
    kit.app.schedule('nightly', { cron: '0 3 * * *', job: careful })
    await kit.advance('4h')
    await kit.app.schedules.trigger('nightly', by)
    const ids = (await kit.app.jobs.list()).jobs.map(({ id }) => id).reverse()
    const lines = readFileSync(failureLog, 'utf8').trim().split('\n')
    const logged = lines.map((line) => JSON.parse(line)).filter(({ from, to }) => from === null && to === 'queued')
    expect(logged.map((line) => line.job_id)).toEqual(ids)
    expect(ids).toHaveLength(2)
    await stop(kit)
  })

  test('may come every second', async () => {
    const { kit, inputs } = nightly({ cron: '* * * * * *' })
    await kit.advance('10s')
    expect(inputs).toHaveLength(10)
    await stop(kit)
  })
})

describe('ticks that nobody was there for', () => {
  /** The machine sleeps: time goes by and nothing runs. */
  const sleep = async (definition: Partial<ScheduleDefinition<{ n: number }>>, ms: number) => {
    const world = nightly(definition)
    await world.kit.tick()
    world.kit.clock.jump(ms)
    await world.kit.tick()
    return { ...world, shown: await world.seen() }
  }
  const DAY = 86_400_000

  test('are one run by default, and the others are counted', async () => {
    const { kit, inputs, shown } = await sleep({}, 10 * DAY)
    expect(inputs).toHaveLength(1)
    expect(shown).toMatchObject({
      runs: 1,
      skipped: 9,
      lastAt: '2026-01-10T02:00:00.000Z',
      nextAt: '2026-01-11T02:00:00.000Z',
    })
    await stop(kit)
  })

  test("do not run with 'skip'", async () => {
    const { kit, inputs, shown } = await sleep({ missed: 'skip' }, 10 * DAY)
    expect(inputs).toEqual([])
    expect(shown).toMatchObject({ runs: 0, skipped: 10, lastAt: null, nextAt: '2026-01-11T02:00:00.000Z' })
    await stop(kit)
  })

  test("run each with 'all', in order, for the time each was meant for", async () => {
    const input = ({ scheduledFor }: { scheduledFor: string }) => ({ n: Date.parse(scheduledFor) })
    const { kit, inputs, shown } = await sleep({ missed: 'all', input }, 3 * DAY)
    expect(inputs).toEqual([1, 2, 3].map((day) => ({ n: Date.UTC(2026, 0, day, 2) })))
    expect(shown).toMatchObject({ runs: 3, skipped: 0 })
    await stop(kit)
  })

  test("are at most a hundred with 'all', and the history says what was left out", async () => {
    const { kit, inputs, shown } = await sleep({ missed: 'all' }, 250 * DAY)
    expect(inputs).toHaveLength(100)
    expect(shown).toMatchObject({ runs: 100, skipped: 150 })
    const { events } = await (await kit.app.store()).feed({ afterSeq: 0, limit: 1_000 })
    const told = events.find(({ subject, kind }) => subject === 'schedule:nightly' && kind === 'skipped')
    expect(told?.data).toMatchObject({ skipped: 150, ran: 100, because: expect.stringContaining('at most 100') })
    await stop(kit)
  })

  test('are not counted one by one when there are very many, and that is said', async () => {
    const { kit, inputs, shown } = await sleep({ cron: '* * * * * *' }, 365 * DAY)
    expect(inputs).toHaveLength(1)
    expect(shown).toMatchObject({ runs: 1, skipped: 999 })
    const { events } = await (await kit.app.store()).feed({ afterSeq: 0, limit: 1_000 })
    const told = events.find(({ kind }) => kind === 'skipped')
    expect(told?.data).toMatchObject({ because: expect.stringContaining('there were more') })
    await stop(kit)
  })

  test('and a clock that is set back repeats none', async () => {
    const { kit, inputs } = nightly()
    await kit.advance('1d')
    kit.clock.jump(-DAY)
    await kit.advance('1d')
    expect(inputs).toHaveLength(1)
    await kit.advance('1d')
    expect(inputs).toHaveLength(2)
    await stop(kit)
  })
})

describe('an operator', () => {
  test('pauses and resumes: what would have come meanwhile is skipped', async () => {
    const { kit, inputs, seen } = nightly({ missed: 'all' })
    await kit.advance('1d')
    expect(await kit.app.schedules.pause('nightly', by)).toMatchObject({ isDone: true })
    await kit.advance('3d')
    expect(await seen()).toMatchObject({
      state: 'paused',
      runs: 1,
      skipped: 3,
      paused: { actor: 'olga', reason: 'a test' },
    })
    const again = await kit.app.schedules.pause('nightly', by)
    expect(again).toMatchObject({ isDone: false, did: expect.stringContaining('was already paused by olga') })
    kit.clock.jump(2 * 86_400_000)
    await kit.app.schedules.resume('nightly', by)
    await kit.advance('1d')
    expect(inputs).toHaveLength(2)
    expect(await seen()).toMatchObject({ state: 'active', runs: 2, skipped: 5, paused: null })
    await stop(kit)
  })

  test('runs it now, and its ticks stay as they are', async () => {
    const { kit, inputs, seen } = nightly()
    const { jobId, did } = await kit.app.schedules.trigger('nightly', by)
    expect(did).toBe('Schedule nightly runs now.')
    await kit.tick()
    expect(inputs).toEqual([{ n: 7 }])
    expect(await seen()).toMatchObject({ runs: 1, nextAt: '2026-01-01T02:00:00.000Z', lastJob: { id: jobId } })
    const [queued] = (await kit.app.jobs.events(String(jobId))).events
    expect(queued?.data).toMatchObject({ schedule: 'nightly', actor: 'olga', reason: 'a test' })
    await stop(kit)
  })

  test('is told when the input can only be made elsewhere', async () => {
    const { kit } = nightly({ input: () => ({ n: 1 }) })
    const store = await kit.app.store()
    const elsewhere = new App({ store: { ...store, stop: async () => undefined }, clock: kit.clock })
    await expect(elsewhere.schedules.trigger('nightly', by)).rejects.toMatchObject({
      code: 'SCHEDULE_INVALID',
      action: expect.stringContaining('app.schedules.trigger()'),
    })
    expect(await kit.app.schedules.trigger('nightly', by)).toMatchObject({ isDone: true })
    await stop(kit)
  })

  test('does nothing without a name and a reason, with a wrong name, or on a dry run', async () => {
    const { kit, seen } = nightly()
    await expect(kit.app.schedules.pause('nightly', { actor: 'olga', reason: ' ' })).rejects.toMatchObject({
      code: 'REASON_REQUIRED',
    })
    await expect(kit.app.schedules.trigger('nightli', by)).rejects.toMatchObject({
      code: 'SCHEDULE_NOT_FOUND',
      message: 'There is no schedule nightli; known schedules: nightly.',
    })
    for (const kind of ['pause', 'resume', 'trigger'] as const) {
      const answer = await kit.app.perform(`schedules.${kind}`, { name: 'nightly', ...by, dryRun: true })
      expect(answer).toMatchObject({
        isDone: false,
        jobId: null,
        did: expect.stringContaining('Nothing was done. This'),
      })
    }
    expect(await seen()).toMatchObject({ state: 'active', runs: 0 })
    expect((await kit.app.jobs.list()).jobs).toEqual([])
    await stop(kit)
  })

  test('does not remove what a program declares: it would go on without, and run nothing', async () => {
    const { kit, made } = nightly()
    await kit.tick()
    for (const dryRun of [false, true]) {
      await expect(kit.app.perform('schedules.remove', { name: 'nightly', ...by, dryRun })).rejects.toMatchObject({
        code: 'SCHEDULE_DECLARED',
        action: expect.stringContaining('Pause it'),
      })
    }
    await kit.advance('3h')
    expect(await made()).toHaveLength(1)
    await stop(kit)
  })

  test('removes what no program declares any more, which is listed as such until then', async () => {
    const { kit } = nightly()
    await kit.tick()
    const store = await kit.app.store()
    const next = new App({ store: { ...store, stop: async () => undefined }, clock: kit.clock })
    kit.clock.jump(5 * 60_000)
    expect(await next.schedules.list()).toMatchObject({ schedules: [{ name: 'nightly', state: 'undeclared' }] })
    expect(await next.schedules.remove('nightly', by)).toMatchObject({ isDone: true, schedule: null })
    expect(await next.schedules.list()).toEqual({ schedules: [], nextCursor: null })
    expect(await store.auditTrail({ filter: {}, beforeSeq: null, limit: 10 })).toMatchObject([
      { act: 'schedules.remove', actor: 'olga', ids: ['nightly'] },
    ])
    await stop(kit)
  })
})

describe('a tick whose job cannot be made', () => {
  test('stays due, says why, and runs when it can', async () => {
    let isDown = true
    const { kit, inputs, seen } = nightly({
      input: () => {
        if (isDown) throw new Error('the ledger is down')
        return { n: 1 }
      },
    })
    await kit.advance('2h')
    expect(await seen()).toMatchObject({
      runs: 0,
      problem: { message: 'Error: the ledger is down', at: '2026-01-01T02:00:00.000Z' },
    })
    isDown = false
    await kit.advance('10s')
    expect(inputs).toEqual([{ n: 1 }])
    expect(await seen()).toMatchObject({ runs: 1, skipped: 0, problem: null, lastAt: '2026-01-01T02:00:00.000Z' })
    await stop(kit)
  })

  test('is one whose input never comes, and others do not wait for it for long', async () => {
    const asked: string[] = []
    const never = ({ scheduledFor }: { scheduledFor: string }) => {
      asked.push(scheduledFor)
      return new Promise<never>(() => undefined)
    }
    const { kit, report, seen } = nightly({ input: never })
    kit.app.schedule('on-time', { cron: '0 3 * * *', timezone: 'Europe/Berlin', job: report, input: { n: 2 } })
    await kit.tick()
    const ticker = kit.app.duties.find(({ name }) => name === 'schedules')
    kit.clock.jump(2 * 3_600_000)
    const taking = ticker?.run()
    await until('the input is asked for', () => asked.length > 0)
    await kit.clock.advance(1_000, async () => undefined)
    await taking
    expect(await kit.app.schedules.find('on-time')).toMatchObject({ runs: 1 })
    await kit.clock.advance(29_000, async () => undefined)
    await until('the problem is stored', async () => (await seen()).problem !== null)
    expect((await seen()).problem?.message).toBe('Error: its input was not made within 30 s')
    await stop(kit)
  })

  test('is one whose input does not fit, too', async () => {
    const { kit, seen } = nightly({ input: { n: 'seven' } as never })
    await kit.advance('3h')
    expect((await seen()).problem?.message).toContain('INPUT_INVALID: The input does not fit report')
    await stop(kit)
  })

  test('and of a type that nobody declared', async () => {
    const { kit, seen } = nightly({ job: 'reprot', input: { n: 1 } })
    await kit.advance('3h')
    expect((await seen()).problem?.message).toContain('TYPE_UNKNOWN')
    await stop(kit)
  })
})

describe('a declaration', () => {
  test('with another expression gets a new next tick, and as it was it keeps the one it has', async () => {
    const { kit, report } = nightly()
    await kit.advance('1h')
    const store = await kit.app.store()
    const other = (cron: string) => {
      const app = new App({ store: { ...store, stop: async () => undefined }, clock: kit.clock })
      app.schedule('nightly', { cron, timezone: 'Europe/Berlin', job: report, input: { n: 7 } })
      return app.schedules.find('nightly')
    }
    kit.clock.jump(3 * 3_600_000)
    expect(await other('0 3 * * *')).toMatchObject({ nextAt: '2026-01-01T02:00:00.000Z' })
    expect(await other('0 5 * * *')).toMatchObject({ nextAt: '2026-01-02T04:00:00.000Z' })
    await stop(kit)
  })

  const refusals: [string, Partial<ScheduleDefinition<{ n: number }>>, string][] = [
    ['an expression', { cron: '0 25 * * *' }, 'cron: "0 25 * * *" cannot be read: Invalid value for hour: 25.'],
    ['a zone', { timezone: 'Berlin' }, 'timezone: "Berlin" is not a time zone.'],
    ['a time that never comes', { cron: '0 0 30 2 *' }, 'cron: "0 0 30 2 *" never comes.'],
    ['a rule', { missed: 'twice' as never }, 'missed: it must be one of skip, once, all, not "twice".'],
    ['a job', { job: undefined as never }, 'job: it must be a job type, or the name of one.'],
    ['a priority', { priority: 0.5 }, 'priority must be a whole number'],
    ['an owner', { owner: '' }, 'owner must be a text'],
    ['an input', { input: { n: 1n } as never }, 'The input of report cannot be kept as JSON: n is a BigInt.'],
  ]
  test.each(refusals)('is refused for %s that cannot be', (_, definition, problem) => {
    let refusal: RedressError | null = null
    try {
      nightly(definition)
    } catch (error) {
      refusal = error as RedressError
    }
    expect(refusal).toMatchObject({ code: 'SCHEDULE_INVALID' })
    expect(refusal?.message).toContain(`The schedule nightly cannot be declared: ${problem}`)
    expect(refusal?.action).not.toBe('')
  })

  test('is refused under a name that is taken or is none', () => {
    const { kit, report } = nightly()
    expect(() => kit.app.schedule('nightly', { cron: '@daily', job: report })).toThrow('was declared already')
    expect(() => kit.app.schedule('every night', { cron: '@daily', job: report })).toThrow('is not a name')
  })

  test('knows the input of its job type', () => {
    const { kit, report } = nightly()
    // @ts-expect-error the job type wants a number
    kit.app.schedule('wrong', { cron: '@daily', job: report, input: { n: 'one' } })
    // @ts-expect-error and from a function, too
    kit.app.schedule('wrong-too', { cron: '@daily', job: report, input: () => ({ n: 'one' }) })
    kit.app.schedule('right', { cron: '@daily', job: report, input: async () => ({ n: 1 }) })
  })
})

test('the id of a tick is a UUID that sorts by time and differs by name', () => {
  expect(tickId('a', 1_767_232_800_000)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(tickId('a', 1)).not.toBe(tickId('b', 1))
  expect(tickId('a', 1) < tickId('a', 1_000)).toBe(true)
  expect(tickId('a', 1)).toBe(tickId('a', 1))
})
