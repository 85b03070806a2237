import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { App } from '../../../src/app/app.ts'
import { tickChance } from '../../../src/app/schedules/ticks.ts'
import type { RuntimeSchedule } from '../../../src/index.ts'
import { TestKit } from '../../../src/testing/kit.ts'

const NEW_YEAR = Date.UTC(2026, 0, 1)
const by = { actor: 'olga', reason: 'a test' }
const at = (ms: number): string => new Date(NEW_YEAR + ms).toISOString()
const S = 1_000

/** An app with one job type, and a runtime schedule of it every 90 seconds. */
function world() {
  const kit = new TestKit({ startMs: NEW_YEAR })
  const inputs: unknown[] = []
  const report = kit.app.job('report', {
    input: z.object({ n: z.number() }),
    run: (input) => void inputs.push(input),
  })
  const upsert = (parts: Partial<RuntimeSchedule<{ n: number }>> = {}, name = 'report:customer-17') =>
    kit.app.schedules.upsert(name, {
      ...(parts.cron === undefined && { every: '90s' }),
      job: report,
      input: { n: 17 },
      ...by,
      ...parts,
    })
  const seen = async (name = 'report:customer-17') => kit.app.schedules.show(name)
  /** For when each job was made, oldest first. */
  const made = async () => {
    const { jobs } = await kit.app.jobs.list({ limit: 500 })
    const firsts = await Promise.all(jobs.map(async ({ id }) => (await kit.app.jobs.events(id)).events[0]))
    return firsts.map((event) => event?.data.scheduledFor).toSorted()
  }
  /** Another program on the same store, with no job types of its own. */
  const other = async () =>
    new App({ store: { ...(await kit.app.store()), stop: async () => undefined }, clock: kit.clock })
  return { kit, report, inputs, upsert, seen, made, other }
}

describe('a runtime schedule', () => {
  test('runs with its period from when it was stored, without drift', async () => {
    const { kit, inputs, upsert, seen, made } = world()
    expect(await upsert()).toMatchObject({
      isDone: true,
      did: `Schedule report:customer-17 is created. Its next tick is at ${at(90 * S)}.`,
    })
    expect(await seen()).toMatchObject({ origin: 'runtime', state: 'active', every: '1m30s', cron: null })
    await kit.advance('10m')
    expect(await made()).toEqual([90, 180, 270, 360, 450, 540].map((s) => at(s * S)))
    expect(inputs).toHaveLength(6)
    // No worker looks for some time: the next tick is on the same grid.
    kit.clock.jump(100 * S)
    await kit.advance('60s')
    expect((await seen()).nextAt).toBe(at(810 * S))
    await kit.stop()
  })

  test('is taken by a process that declares neither it nor its job type', async () => {
    const { kit, inputs, upsert, other } = world()
    await upsert()
    const elsewhere = await other()
    const worker = await elsewhere.makeWorker({ id: 'elsewhere' })
    kit.clock.jump(90 * S)
    await worker.runDuties()
    expect((await kit.app.jobs.list()).jobs).toMatchObject([{ type: 'report', status: 'queued' }])
    await kit.tick()
    expect(inputs).toEqual([{ n: 17 }])
    await kit.stop()
  })

  test('begins at `from`, and has no tick after `until`', async () => {
    const { kit, upsert, seen, made } = world()
    await upsert({ from: new Date(NEW_YEAR + 30 * S), until: at(210 * S) })
    await kit.advance('10m')
    expect(await made()).toEqual([30, 120, 210].map((s) => at(s * S)))
    expect(await seen()).toMatchObject({ state: 'ended', nextAt: null, from: at(30 * S), until: at(210 * S) })
    await kit.stop()
  })

  test('counts a period from a `from` that is past, and begins with the next tick', async () => {
    const { kit, upsert, seen } = world()
    await upsert({ every: '1h', from: at(-1_000 * 3_600 * S + 5 * S) })
    expect((await seen()).nextAt).toBe(at(5 * S))
    await kit.stop()
  })

  test('ends after its count of runs, and a trigger does not count', async () => {
    const { kit, upsert, seen, made } = world()
    await upsert({ count: 3 })
    await kit.app.schedules.trigger('report:customer-17', by)
    await kit.advance('1h')
    expect((await made()).slice(1)).toEqual([90, 180, 270].map((s) => at(s * S)))
    expect(await seen()).toMatchObject({ state: 'ended', count: 3, counted: 3, runs: 4, nextAt: null })
    const { events } = await (await kit.app.store()).feed({ afterSeq: 0, limit: 1_000 })
    const told = events.filter(({ subject }) => subject === 'schedule:report:customer-17').map(({ kind }) => kind)
    expect(told).toEqual(['declared', 'triggered', 'ended'])
    expect(await upsert({ count: 3 })).toMatchObject({ isDone: false, did: expect.stringContaining('It has ended') })
    expect(await upsert({ count: 4 })).toMatchObject({ schedule: { state: 'active', nextAt: at(3_690 * S) } })
    await kit.stop()
  })

  test("makes up for missed ticks with 'all' only as far as its count goes", async () => {
    const { kit, upsert, seen, made } = world()
    await upsert({ count: 3, missed: 'all' })
    kit.clock.jump(3_600 * S)
    await kit.tick()
    expect(await made()).toEqual([90, 180, 270].map((s) => at(s * S)))
    expect(await seen()).toMatchObject({ state: 'ended', counted: 3, skipped: 0 })
    await kit.stop()
  })

  test('delays each run by its jitter, the same in every process and before the next tick', async () => {
    const { kit, upsert, inputs } = world()
    await upsert({ jitter: '1h' })
    await kit.advance('90s')
    const [job] = await (await kit.app.store()).jobs({ limit: 10 })
    const delayMs = Math.floor(tickChance('report:customer-17', NEW_YEAR + 90 * S) * 90 * S)
    expect(job).toMatchObject({ status: 'queued', dueAtMs: NEW_YEAR + 90 * S + delayMs })
    expect(delayMs).toBeLessThan(90 * S)
    await kit.advance('90s')
    expect(inputs).toHaveLength(1)
    await kit.stop()
  })

  test('follows the clocks of its time zone', async () => {
    const { kit, upsert, made } = world()
    await upsert({ cron: '0 3 * * *', timezone: 'Europe/Berlin' })
    await kit.advance('2d')
    expect(await made()).toEqual(['2026-01-01T02:00:00.000Z', '2026-01-02T02:00:00.000Z'])
    await kit.stop()
  })

  test('is paused, resumed and removed like any other', async () => {
    const { kit, upsert, seen, inputs } = world()
    await upsert()
    await kit.app.schedules.pause('report:customer-17', by)
    await kit.advance('180s')
    expect(await seen()).toMatchObject({ state: 'paused', skipped: 2, runs: 0 })
    await kit.app.schedules.resume('report:customer-17', by)
    await kit.advance('90s')
    expect(inputs).toHaveLength(1)
    const removed = await kit.app.schedules.remove('report:customer-17', by)
    expect(removed).toMatchObject({ did: 'Schedule report:customer-17 is removed.', schedule: null })
    await kit.advance('10m')
    expect(inputs).toHaveLength(1)
    await kit.stop()
  })

  test('stays when the program that stored it is gone', async () => {
    const { kit, upsert, seen } = world()
    await upsert()
    kit.clock.jump(30 * 86_400 * S)
    expect((await seen()).state).toBe('active')
    await kit.stop()
  })
})

describe('an upsert', () => {
  test('with the same definition changes nothing, and with another one says what happened', async () => {
    const { kit, upsert, seen } = world()
    await upsert()
    await kit.advance('100s')
    const before = await seen()
    expect(await upsert()).toMatchObject({ isDone: false, did: expect.stringContaining('has this definition') })
    expect(await seen()).toEqual(before)
    expect(await upsert({ input: { n: 18 } })).toMatchObject({ isDone: true, schedule: { nextAt: at(180 * S) } })
    expect(await upsert({ every: '60s', input: { n: 18 } })).toMatchObject({ schedule: { nextAt: at(160 * S) } })
    const trail = await kit.app.audit.list({ target: 'schedule' })
    expect(trail.entries.map(({ act, data }) => [act, data?.isNew])).toEqual([
      ['schedules.upsert', false],
      ['schedules.upsert', false],
      ['schedules.upsert', true],
    ])
    await kit.stop()
  })

  test('changes nothing on a dry run, or without an actor and a reason', async () => {
    const { kit, upsert } = world()
    expect(await upsert({ dryRun: true })).toMatchObject({
      isDone: false,
      did: 'Nothing was done. This creates the schedule.',
      schedule: null,
    })
    await expect(upsert({ reason: ' ' })).rejects.toMatchObject({ code: 'REASON_REQUIRED' })
    expect((await kit.app.schedules.list()).schedules).toEqual([])
    await kit.stop()
  })

  test('cannot change a schedule that a program declares, also when that program is gone', async () => {
    const { kit, report, upsert, other } = world()
    kit.app.schedule('nightly', { cron: '@daily', job: report, input: { n: 1 } })
    await expect(upsert({}, 'nightly')).rejects.toMatchObject({ code: 'SCHEDULE_DECLARED' })
    await kit.tick()
    const elsewhere = await other()
    kit.clock.jump(300 * S)
    const asked = elsewhere.schedules.upsert('nightly', { every: '1h', job: 'report', input: { n: 1 }, ...by })
    await expect(asked).rejects.toMatchObject({
      code: 'SCHEDULE_DECLARED',
      action: expect.stringContaining('redress schedules remove nightly'),
    })
    await kit.stop()
  })

  test('makes a program that declares the same name fail with a clear error, and changes nothing', async () => {
    const { kit, upsert, seen, other } = world()
    await upsert()
    const elsewhere = await other()
    elsewhere.schedule('report:customer-17', { cron: '@daily', job: 'report' })
    await expect(elsewhere.store()).rejects.toMatchObject({
      code: 'SCHEDULE_EXISTS',
      message: `This program declares the schedule report:customer-17, but a runtime schedule has this name since ${at(0)}.`,
    })
    expect(await seen()).toMatchObject({ origin: 'runtime', every: '1m30s' })
    await kit.app.schedules.remove('report:customer-17', by)
    await elsewhere.store()
    expect(await seen()).toMatchObject({ origin: 'code', cron: '@daily' })
    await kit.stop()
  })

  const refusals: [string, Record<string, unknown>, string, string][] = [
    ['neither cron nor every', { every: undefined }, 'SCHEDULE_INVALID', 'needs either cron or every'],
    ['both cron and every', { cron: '@daily', every: '90s' }, 'SCHEDULE_INVALID', 'either cron or every, not both'],
    ['a period below a second', { every: '999ms' }, 'SCHEDULE_INVALID', 'every: it must be at least 1 s, not "999ms"'],
    ['a period that is none', { every: 'often' }, 'SCHEDULE_INVALID', 'every: "often" is not a duration'],
    ['a time zone of a period', { timezone: 'UTC' }, 'SCHEDULE_INVALID', 'timezone: only cron has a time zone'],
    ['an expression', { cron: '0 25 * * *' }, 'SCHEDULE_INVALID', 'Invalid value for hour: 25'],
    ['a count of zero', { count: 0 }, 'OPTION_INVALID', 'count'],
    ['a count that is no whole number', { count: 1.5 }, 'OPTION_INVALID', 'count'],
    [
      'a time without a zone',
      { until: '2026-05-01T00:00' },
      'SCHEDULE_INVALID',
      'until: "2026-05-01T00:00" has no time zone',
    ],
    ['an invalid Date', { from: new Date(Number.NaN) }, 'SCHEDULE_INVALID', 'from: "Invalid Date" is not a time'],
    ['an end before its beginning', { from: at(2), until: at(1) }, 'SCHEDULE_INVALID', 'must not be before from'],
    ['an end in the past', { until: at(-1) }, 'SCHEDULE_INVALID', 'would never run'],
    ['a misspelt option', { jiter: '5s' }, 'OPTION_INVALID', 'schedules.upsert() has no option "jiter"'],
    ['an unknown job type', { job: 'reprot' }, 'TYPE_UNKNOWN', 'No program has declared the job type reprot'],
    ['an input that does not fit', { input: { n: 'x' } }, 'INPUT_INVALID', 'does not fit report'],
    ['a negative jitter', { jitter: '-5s' }, 'SCHEDULE_INVALID', 'jitter'],
    ['a priority', { priority: 0.5 }, 'OPTION_INVALID', 'priority'],
    ['a missed rule', { missed: 'twice' }, 'OPTION_INVALID', 'missed'],
  ]
  test.each(refusals)('refuses %s and stores nothing', async (_, parts, code, message) => {
    const { kit, report } = world()
    const schedule = { job: report, input: { n: 17 }, ...by, ...('cron' in parts ? {} : { every: '90s' }), ...parts }
    const asked = kit.app.schedules.upsert('report:customer-17', schedule as never)
    await expect(asked).rejects.toMatchObject({ code, message: expect.stringContaining(message) })
    expect((await kit.app.schedules.list()).schedules).toEqual([])
    await kit.stop()
  })

  test('refuses names that are none, and takes those of customers', async () => {
    const { kit, upsert } = world()
    for (const name of ['17', 'every night', 'ä', 'x'.repeat(101)]) {
      await expect(upsert({}, name)).rejects.toMatchObject({ code: 'SCHEDULE_INVALID' })
    }
    for (const name of ['report:customer-17', 'Report.v2:a_b-c', 'x'.repeat(100)]) await upsert({}, name)
    expect((await kit.app.schedules.list()).schedules).toHaveLength(3)
    await kit.stop()
  })

  test('knows the input of its job type', async () => {
    const { kit, report } = world()
    // @ts-expect-error the job type wants a number
    const wrong = kit.app.schedules.upsert('wrong', { every: '90s', job: report, input: { n: 'one' }, ...by })
    await expect(wrong).rejects.toMatchObject({ code: 'INPUT_INVALID' })
    await kit.stop()
  })
})

describe('a schedule whose tick cannot be taken', () => {
  test('is held longer each time, says why, and does not stop the others', async () => {
    const { kit, report, inputs, upsert, seen, other } = world()
    await upsert({}, 'good')
    // The program that stores it does not know the schema, and the one that takes its ticks refuses the input.
    const elsewhere = await other()
    await elsewhere.schedules.upsert('bad', { every: '90s', job: report.name, input: { n: 'seventeen' }, ...by })
    await kit.advance('90s')
    expect(inputs).toEqual([{ n: 17 }])
    expect((await seen('bad')).problem).toMatchObject({
      message: expect.stringContaining('INPUT_INVALID'),
      at: at(90 * S),
      retryAt: at(100 * S),
    })
    await kit.advance('10s')
    expect((await seen('bad')).problem).toMatchObject({ at: at(90 * S), retryAt: at(120 * S) })
    await kit.advance('1h')
    expect(inputs).toHaveLength(41)
    const { retryAt } = (await seen('bad')).problem ?? {}
    expect(Date.parse(String(retryAt)) - kit.clock.nowMs()).toBeLessThanOrEqual(300 * S)
    // The corrected one runs at once, and its missed ticks count as such.
    await upsert({ input: { n: 1 } }, 'bad')
    await kit.advance('1s')
    expect(await seen('bad')).toMatchObject({ problem: null, runs: 1, lastAt: at(3_690 * S) })
    await kit.stop()
  })
})

describe('schedules in code', () => {
  test('have a period, a jitter, a count and a last time, too', async () => {
    const { kit, report, inputs } = world()
    kit.app.schedule('often', {
      every: '1m',
      job: report,
      input: { n: 1 },
      count: 2,
      jitter: '10s',
      until: at(600 * S),
    })
    await kit.advance('1h')
    expect(inputs).toHaveLength(2)
    expect(await kit.app.schedules.show('often')).toMatchObject({
      ...{ origin: 'code', state: 'ended', every: '1m', counted: 2, jitter: '10s' },
    })
    await kit.stop()
  })

  test('keep their period over a restart of the program', async () => {
    const { kit, report, other } = world()
    const declare = (app: App) => app.schedule('often', { every: '90s', job: report.name, input: { n: 1 } })
    declare(kit.app)
    await kit.advance('100s')
    const restarted = await other()
    declare(restarted)
    expect(await restarted.schedules.show('often')).toMatchObject({ nextAt: at(180 * S), runs: 1 })
    await kit.stop()
  })
})

test('schedules are listed by owner, in pages and by a part of their name', async () => {
  const { kit, upsert } = world()
  for (const n of [1, 2, 3]) await upsert({ owner: n === 3 ? 'bob' : 'ann' }, `report:customer-${n}`)
  const first = await kit.app.schedules.list({ owner: 'ann', limit: 1 })
  expect(first).toMatchObject({ schedules: [{ name: 'report:customer-1' }], nextCursor: 'report:customer-1' })
  const second = await kit.app.schedules.list({ owner: 'ann', limit: 1, cursor: 'report:customer-1' })
  expect(second).toMatchObject({ schedules: [{ name: 'report:customer-2' }], nextCursor: null })
  expect(await kit.app.schedules.list({ q: 'MER-3' })).toMatchObject({ schedules: [{ owner: 'bob' }] })
  await kit.stop()
})
