import { describe, expect, test } from 'vitest'
import { redress } from '../../src/index.ts'
import { testKit } from '../../src/testing/index.ts'
import { makeBench, refusal, WHO } from './bench.ts'

const HOUR_MS = 60 * 60_000

async function groupsOf(app: Awaited<ReturnType<typeof makeBench>>['app']) {
  return (await app.perform('failures.list', {})).groups
}

describe('failures.list', () => {
  test('groups failures by cause and includes the newest ones', async () => {
    const { app, finish } = await makeBench({ retry: { max: 2 } })
    await finish(['GW_5XX', 'GW_5XX'])
    await finish(['GW_5XX', 'ok'])
    await finish(['GW_4XX'])
    expect(await groupsOf(app)).toMatchObject([
      { code: 'GW_4XX', type: 'step', fault: 'caller', count: 1, finalCount: 1, state: 'open', stateBy: null },
      { code: 'GW_5XX', type: 'step', fault: 'dependency', count: 3, finalCount: 1, message: 'It kept failing.' },
    ])
    await finish(['GW_4XX'])
    expect((await groupsOf(app))[0]).toMatchObject({ code: 'GW_4XX', count: 2 })
  })

  test('filters, sorts and pages through the groups', async () => {
    const { app, finish, clock } = await makeBench()
    for (let i = 0; i < 3; i++) await finish(['GW_5XX'])
    await clock.advance(HOUR_MS)
    await finish(['GW_4XX'])
    const codes = async (input: Parameters<typeof app.perform<'failures.list'>>[1]) =>
      (await app.perform('failures.list', input)).groups.map(({ code }) => code)
    expect(await codes({})).toEqual(['GW_4XX', 'GW_5XX'])
    expect(await codes({ sort: 'count' })).toEqual(['GW_5XX', 'GW_4XX'])
    expect(await codes({ code: 'GW_5XX' })).toEqual(['GW_5XX'])
    expect(await codes({ fault: 'caller' })).toEqual(['GW_4XX'])
    expect(await codes({ q: 'kept' })).toEqual(['GW_5XX'])
    expect(await codes({ since: '30m' })).toEqual(['GW_4XX'])
    expect(await codes({ since: '2025-12-31' })).toHaveLength(2)
    expect(await codes({ state: 'resolved' })).toEqual([])
    const first = await app.perform('failures.list', { limit: 1, sort: 'count' })
    expect(await codes({ limit: 1, sort: 'count', cursor: first.nextCursor ?? '' })).toEqual(['GW_4XX'])
    for (const input of [{ since: 'yesterday' }, { cursor: 'x' }, { since: '2026-99-99' }]) {
      expect(await refusal(app.perform('failures.list', input))).toMatchObject({ code: 'OPTION_INVALID' })
    }
  })

  test('each group has its queue and a count for each of the last 24 hours, oldest first', async () => {
    const { app, finish, submit, worker, clock } = await makeBench()
    await finish(['GW_5XX'])
    await clock.advance(3 * HOUR_MS)
    await submit(['GW_5XX'])
    await submit(['GW_5XX'])
    await worker.tick()
    const [group] = await groupsOf(app)
    const { hours } = await app.perform('failures.show', { fingerprint: group?.fingerprint ?? '' })
    expect(group).toMatchObject({ queue: 'default', hours: hours.map(({ count }) => count) })
    expect(group?.hours).toHaveLength(24)
    expect(group?.hours.at(-1)).toBe(2)
    expect(group?.hours.filter((count) => count > 0)).toEqual([1, 2])
  })

  test('failure groups leave out a type without aggregates and say so [P60]', async () => {
    const { app, finish } = await makeBench({ aggregates: false })
    const id = await finish(['GW_4XX'])
    expect(await app.perform('failures.list', {})).toEqual({ groups: [], nextCursor: null, notGrouped: ['step'] })
    const [{ fingerprint } = { fingerprint: '' }] = (await app.jobs.failures(id)).failures
    const refused = await refusal(app.perform('failures.show', { fingerprint }))
    expect(refused).toMatchObject({ code: 'FAILURE_GROUP_NOT_FOUND', action: expect.stringContaining('aggregates') })
    await finish(['GW_4XX'])
    expect(await app.perform('jobs.explain', { id })).toMatchObject({ alike: null })
  })
})

describe('failures.show', () => {
  test('has a sample, the values, the newest jobs, and the last day by the hour', async () => {
    const { app, finish, clock } = await makeBench()
    await finish(['GW_5XX'])
    await clock.advance(3 * HOUR_MS)
    const ids = [await finish(['GW_5XX']), await finish(['GW_5XX'])]
    const [{ fingerprint } = { fingerprint: '' }] = await groupsOf(app)
    const shown = await app.perform('failures.show', { fingerprint })
    expect(shown).toMatchObject({ fingerprint, count: 3, sample: { code: 'GW_5XX', fingerprint }, history: [] })
    expect(shown.jobs.slice(0, 2)).toMatchObject(ids.toReversed().map((id) => ({ id, status: 'failed', attempt: 1 })))
    expect(shown.hours).toHaveLength(24)
    expect(shown.hours.reduce((sum, { count }) => sum + count, 0)).toBe(3)
    expect(shown.hours.at(-1)?.hour).toMatch(/:00:00\.000Z$/)
  })

  test('names the queue, and the batches of its newest jobs', async () => {
    const { app, finish, work } = await makeBench()
    const jobs = [['GW_5XX'], ['GW_5XX'], ['ok']].map((outcomes) => ({ type: 'step', input: { outcomes } }))
    const { id } = await app.batches.create('spring', { jobs })
    await work()
    await finish(['GW_5XX'])
    const [{ fingerprint } = { fingerprint: '' }] = await groupsOf(app)
    expect(await app.perform('failures.show', { fingerprint })).toMatchObject({
      queue: 'default',
      batches: [{ id, name: 'spring', state: 'partial', count: 2 }],
    })
  })

  test('an unknown fingerprint is refused', async () => {
    const { app } = await makeBench()
    expect(await refusal(app.perform('failures.show', { fingerprint: '1:x' }))).toMatchObject({
      code: 'FAILURE_GROUP_NOT_FOUND',
      httpStatus: 404,
    })
  })

  test('pruned failures are still counted', async () => {
    const { app, finish, worker, clock } = await makeBench({ retention: { failed: '1d' } })
    await finish(['GW_5XX'])
    await clock.advance(48 * HOUR_MS)
    expect(await worker.prune()).toBe(1)
    const [group] = await groupsOf(app)
    expect(group).toMatchObject({ count: 1 })
    expect(await app.perform('failures.show', { fingerprint: group?.fingerprint ?? '' })).toMatchObject({
      count: 1,
      sample: null,
      jobs: [],
    })
  })
})

describe('a failure group', () => {
  async function failing() {
    const bench = await makeBench()
    await bench.finish(['GW_5XX'])
    const [{ fingerprint } = { fingerprint: '' }] = await groupsOf(bench.app)
    const shown = () => bench.app.perform('failures.show', { fingerprint })
    return { ...bench, fingerprint, shown }
  }

  test('a resolved group regresses with the next failure', async () => {
    const { app, fingerprint, shown, finish } = await failing()
    const done = await app.perform('failures.resolve', { fingerprint, ...WHO })
    expect(done).toMatchObject({ isDone: true, group: { state: 'resolved', stateBy: 'ann', stateReason: WHO.reason } })
    expect(await refusal(app.perform('failures.resolve', { fingerprint, ...WHO }))).toMatchObject({
      code: 'FAILURE_GROUP_WRONG_STATE',
      message: expect.stringContaining('already resolved'),
    })
    await finish(['GW_5XX'])
    expect(await shown()).toMatchObject({
      state: 'regressed',
      stateBy: null,
      history: [
        { kind: 'regressed', actor: null },
        { kind: 'resolved', actor: 'ann', reason: WHO.reason },
      ],
    })
    await app.perform('failures.reopen', { fingerprint, ...WHO })
    expect(await shown()).toMatchObject({ state: 'open', stateBy: 'ann' })
  })

  test('a group can be snoozed for a time or a number of failures', async () => {
    const { app, fingerprint, shown, finish, clock } = await failing()
    const { did } = await app.perform('failures.snooze', { fingerprint, ...WHO, for: '8h', more: 2 })
    expect(did).toMatch(/is snoozed for 8 h, until 2026-.*Z, or until 2 more failures\.$/)
    expect(await shown()).toMatchObject({ state: 'snoozed', snoozedForMore: 2 })
    await finish(['GW_5XX'])
    expect(await shown()).toMatchObject({ state: 'snoozed', snoozedForMore: 1 })
    await clock.advance(8 * HOUR_MS)
    expect(await shown()).toMatchObject({ state: 'open', snoozedUntil: null, snoozedForMore: null })
    expect(await refusal(app.perform('failures.snooze', { fingerprint, ...WHO }))).toMatchObject({
      code: 'OPTION_INVALID',
      action: expect.stringContaining('Give a duration'),
    })
  })

  test.each(['failures.resolve', 'failures.snooze', 'failures.reopen'] as const)(
    '%s needs a name and a reason, and can be tried without doing it',
    async (name) => {
      const { app, fingerprint, shown } = await failing()
      if (name === 'failures.reopen') await app.perform('failures.resolve', { fingerprint, ...WHO })
      const before = await shown()
      const input = { fingerprint, ...(name === 'failures.snooze' && { more: 1 }) }
      for (const by of [{}, { actor: 'ann' }, { reason: 'mended' }, { actor: ' ', reason: 'mended' }]) {
        expect(await refusal(app.perform(name, { ...input, ...by }))).toMatchObject({ code: 'REASON_REQUIRED' })
      }
      expect(await refusal(app.perform(name, { ...input, ...WHO, reason: 'x'.repeat(3_000) }))).toMatchObject({
        code: 'OPTION_INVALID',
      })
      const tried = await app.perform(name, { ...input, ...WHO, dryRun: true })
      expect(tried).toMatchObject({ isDone: false, did: expect.stringMatching(/^Nothing was done\. .* becomes /) })
      expect(await shown()).toEqual(before)
    },
  )
})

test('an explanation names the failure group of the job', async () => {
  const { app, finish, clock } = await makeBench({ retry: { max: 2 } })
  const first = await finish(['GW_5XX', 'GW_5XX'])
  expect(await app.perform('jobs.explain', { id: first })).toMatchObject({ alike: null })
  expect(await app.explain(first)).not.toContain('the same way')
  const [since] = (await app.jobs.failures(first)).failures
  await clock.advance(1_000)
  const second = await finish(['GW_5XX', 'ok'])
  expect(await app.explain(first)).toContain(
    `1 other failed the same way since ${since?.at}: group ${since?.fingerprint}.`,
  )
  expect(await app.perform('jobs.explain', { id: second })).toMatchObject({ alike: null })
  await app.perform('failures.resolve', { fingerprint: since?.fingerprint ?? '', ...WHO })
  const third = await finish(['GW_5XX', 'GW_5XX'])
  expect(await app.explain(third)).toContain(
    `3 others failed the same way since ${since?.at}: group ${since?.fingerprint} (regressed).`,
  )
})

test('workers count failures into groups before anyone reads them', async () => {
  const kit = testKit()
  kit.app.job('broken', { run: () => Promise.reject(new Error('no')) })
  await kit.app.submit('broken', {})
  await kit.drain()
  await kit.tick()
  const store = await kit.app.store()
  expect(await store.foldFailures({ limit: 10 })).toEqual({ folded: 0, isCaughtUp: true })
  expect(await store.failureGroups({ filter: {}, sort: 'count', after: null, limit: 10 })).toMatchObject([{ count: 1 }])
  await kit.stop()
})

test('another program on the same store reads the same groups', async () => {
  const { app, finish, store } = await makeBench()
  await finish(['GW_5XX'])
  const other = redress({ store })
  expect((await other.perform('failures.list', {})).groups).toEqual(await groupsOf(app))
})
