import assert from 'node:assert/strict'
import type { ScheduleDeclaration, ScheduleTaken, ScheduleUpserted, StoredSchedule } from '../../contract/schedules.ts'
import type { Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { topic } from '../promise.ts'

const MINUTE_MS = 60_000

export const schedules = topic('schedules', {
  async 'a tick that many processes take at once is taken by one'(bench) {
    const handles = await bench.openMany(4)
    const nightly = await declare(bench)
    await bench.clock.advance(MINUTE_MS)
    const answers = await Promise.all(handles.map((store) => take(bench, nightly, {}, store)))
    assert.deepEqual(answers.toSorted(), ['moved-on', 'moved-on', 'moved-on', 'taken'])
    assert.equal((await bench.store.jobs({ limit: 10 })).length, 1)
    assert.deepEqual(pick(await found(bench), 'runs', 'skipped'), { runs: 1, skipped: 0 })
  },

  async 'a new schedule that many processes declare at once is declared by one'(bench) {
    const handles = await bench.openMany(4)
    await Promise.all(handles.map((store) => declare(bench, {}, store)))
    const events = (await bench.store.feed({ afterSeq: 0, limit: 100 })).events
    assert.deepEqual(
      events.map(({ kind }) => kind),
      ['declared'],
    )
  },

  async 'a tick that was taken cannot be taken again, whatever became of its job'(bench) {
    const nightly = await declare(bench)
    assert.equal(await take(bench, nightly), 'taken')
    assert.equal(await take(bench, nightly), 'moved-on')
    const [job] = await bench.store.jobs({ limit: 10 })
    await bench.intervene(String(job?.id), { kind: 'cancel' })
    assert.equal(await take(bench, nightly, {}, await bench.open()), 'moved-on')
    assert.equal((await bench.store.jobs({ limit: 10 })).length, 1)
  },

  async 'the jobs of a tick and the move to the next one are one change'(bench) {
    const nightly = await declare(bench)
    const runs = [run(bench, nightly), { ...run(bench, nightly), job: bench.newJob({ type: 'nobody-declared' }) }]
    await assert.rejects(take(bench, nightly, { runs }), { code: 'TYPE_UNKNOWN' })
    assert.deepEqual(await found(bench), nightly)
    assert.deepEqual(await bench.store.jobs({ limit: 10 }), [])
  },

  async 'a run leaves its time in the history of its job, and its job with the schedule'(bench) {
    const nightly = await declare(bench)
    await bench.clock.advance(MINUTE_MS + 400)
    await take(bench, nightly, { nextAtMs: bench.clock.nowMs() + MINUTE_MS })
    const [job] = await bench.store.jobs({ limit: 10 })
    assert(job !== undefined)
    const [queued] = await bench.store.events({ id: job.id })
    assert.deepEqual(queued?.data, { schedule: 'nightly', scheduledForMs: nightly.nextAtMs })
    const after = await found(bench)
    assert.deepEqual(pick(after, 'lastAtMs', 'lastJob', 'nextAtMs'), {
      lastAtMs: nightly.nextAtMs,
      lastJob: { id: job.id, status: 'queued' },
      nextAtMs: bench.clock.nowMs() + MINUTE_MS,
    })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    assert.equal(lease.id, job.id)
    assert.equal((await found(bench)).lastJob?.status, 'processing')
  },

  async 'ticks that are made up for are jobs of one change, and those that are not are counted and told'(bench) {
    const nightly = await declare(bench)
    const runs = [1, 2, 3].map((n) => ({ atMs: n * MINUTE_MS, job: bench.newJob() }))
    await take(bench, nightly, { runs, skipped: 40, because: 'at most 3' })
    const after = await found(bench)
    assert.deepEqual(pick(after, 'runs', 'skipped', 'lastAtMs'), { runs: 3, skipped: 40, lastAtMs: 3 * MINUTE_MS })
    assert.equal(after.lastJob?.id, runs.at(-1)?.job.id)
    const { events } = await bench.store.feed({ afterSeq: 0, limit: 100 })
    const told = events.find((event) => event.subject === 'schedule:nightly' && event.kind === 'skipped')
    assert.deepEqual(told?.data, { skipped: 40, because: 'at most 3', ran: 3 })
  },

  async 'a schedule that is declared as it was keeps its next tick; with another expression or zone it gets a new one'(
    bench,
  ) {
    const before = await declare(bench, { nextAtMs: 5_000 })
    await bench.clock.advance(10)
    const same = await declare(bench, { nextAtMs: 99_000 })
    assert.deepEqual({ ...same, seenAtMs: 0 }, { ...before, seenAtMs: 0 })
    assert.equal(same.seenAtMs, bench.clock.nowMs())
    const other = await declare(bench, { nextAtMs: 99_000, payload: '{"n":2}', missed: 'all' })
    assert.deepEqual(pick(other, 'nextAtMs', 'payload', 'missed'), {
      nextAtMs: 5_000,
      payload: '{"n":2}',
      missed: 'all',
    })
    assert.equal((await declare(bench, { nextAtMs: 99_000, cron: '1 * * * *' })).nextAtMs, 99_000)
    assert.equal(
      (await declare(bench, { nextAtMs: 77_000, cron: '1 * * * *', timezone: 'Asia/Tokyo' })).nextAtMs,
      77_000,
    )
  },

  async 'a tick that was planned before the schedule changed is not taken'(bench) {
    const planned = await declare(bench)
    await declare(bench, { payload: '{"n":2}' })
    assert.equal(await take(bench, planned), 'moved-on')
    const paused = await declare(bench)
    await act(bench, 'pause')
    assert.equal(await take(bench, paused), 'moved-on')
    const gone = await found(bench)
    await act(bench, 'remove')
    assert.equal(await take(bench, gone), 'moved-on')
    await bench.clock.advance(1)
    await declare(bench, { nextAtMs: gone.nextAtMs as number })
    assert.equal(await take(bench, gone), 'moved-on')
    assert.deepEqual(await bench.store.jobs({ limit: 10 }), [])
  },

  async 'pausing and resuming leave who did it and why, and doing it twice does nothing'(bench) {
    await declare(bench)
    assert.equal(await act(bench, 'resume'), 'already')
    assert.equal(await act(bench, 'pause'), 'done')
    const pausedAtMs = bench.clock.nowMs()
    await bench.clock.advance(10)
    assert.equal(await act(bench, 'pause'), 'already')
    assert.deepEqual((await found(bench)).paused, { atMs: pausedAtMs, actor: 'olga', reason: 'a test' })
    assert.equal(await act(bench, 'resume'), 'done')
    assert.deepEqual(pick(await found(bench), 'paused', 'resumedAtMs'), {
      paused: null,
      resumedAtMs: bench.clock.nowMs(),
    })
    const trail = await bench.store.auditTrail({ filter: { target: 'schedule' }, beforeSeq: null, limit: 10 })
    assert.deepEqual(trail.map((entry) => entry.act).toSorted(), ['schedules.pause', 'schedules.resume'])
    assert(trail.every(({ actor, reason, ids }) => actor === 'olga' && reason === 'a test' && ids[0] === 'nightly'))
  },

  async 'a person may run it now, beside its ticks'(bench) {
    const nightly = await declare(bench)
    await bench.clock.advance(10)
    const job = bench.newJob()
    const answer = await bench.store.actOnSchedule({ ...BY, name: 'nightly', act: { kind: 'trigger', job } })
    assert.equal(answer, 'done')
    assert.deepEqual(pick(await found(bench), 'nextAtMs', 'runs', 'lastJob'), {
      nextAtMs: nightly.nextAtMs,
      runs: 1,
      lastJob: { id: job.id, status: 'queued' },
    })
    assert.deepEqual((await bench.lastEvent(job.id)).data, {
      ...BY,
      schedule: 'nightly',
      scheduledForMs: bench.clock.nowMs(),
    })
    assert.equal(await take(bench, nightly), 'taken')
  },

  async 'what is removed is gone, and acting on what is not there does nothing'(bench) {
    await declare(bench)
    assert.equal(await act(bench, 'remove'), 'done')
    assert.deepEqual(await bench.store.schedules(), [])
    for (const kind of ['pause', 'resume', 'remove'] as const) assert.equal(await act(bench, kind), 'not-found')
    const job = bench.newJob()
    const trigger = { kind: 'trigger', job } as const
    assert.equal(await bench.store.actOnSchedule({ ...BY, name: 'nightly', act: trigger }), 'not-found')
    assert.equal(await bench.store.job({ id: job.id }), null)
  },

  async 'why a tick cannot be taken is kept until one is, and told once'(bench) {
    const nightly = await declare(bench)
    await hold(bench, nightly, 10)
    const sinceMs = bench.clock.nowMs()
    await bench.clock.advance(10)
    await hold(bench, nightly, 20)
    assert.deepEqual((await found(bench)).problem, { message: 'no input', atMs: sinceMs })
    const { events } = await bench.store.feed({ afterSeq: 0, limit: 100 })
    assert.equal(events.filter(({ subject, kind }) => subject === 'schedule:nightly' && kind === 'failed').length, 1)
    assert.equal(await take(bench, nightly), 'taken')
    assert.equal((await found(bench)).problem, null)
  },

  async 'a program that still declares a schedule can say so'(bench) {
    await declare(bench)
    await bench.clock.advance(MINUTE_MS)
    await bench.store.seeSchedules({ names: ['nightly', 'no-such'] })
    assert.equal((await found(bench)).seenAtMs, bench.clock.nowMs())
  },

  async 'schedules are read by name, all or some'(bench) {
    for (const name of ['b', 'c', 'a']) await declare(bench, { name })
    const names = async (params?: Parameters<Store['schedules']>[0]) =>
      (await bench.store.schedules(params)).map(({ name }) => name)
    assert.deepEqual(await names(), ['a', 'b', 'c'])
    assert.deepEqual(await names({ names: ['c', 'x', 'a'] }), ['a', 'c'])
    assert.deepEqual(await names({ names: [] }), [])
  },

  async 'schedules are listed in pages, by owner and by a part of the name or the type'(bench) {
    for (const n of [1, 2, 3]) await upsert(bench, { name: `report:Customer-${n}`, owner: n === 2 ? 'bob' : 'ann' })
    await declare(bench, { name: 'percent' })
    const names = async (params?: Parameters<Store['schedules']>[0]) =>
      (await bench.store.schedules(params)).map(({ name }) => name)
    assert.deepEqual(await names({ limit: 2 }), ['percent', 'report:Customer-1'])
    assert.deepEqual(await names({ limit: 2, afterName: 'report:Customer-1' }), [
      'report:Customer-2',
      'report:Customer-3',
    ])
    assert.deepEqual(await names({ owner: 'ann', limit: 1, afterName: 'report:Customer-1' }), ['report:Customer-3'])
    assert.deepEqual(await names({ q: 'customer-3' }), ['report:Customer-3'])
    assert.deepEqual(await names({ q: 'PLAIN', owner: 'bob' }), ['report:Customer-2'])
    assert.deepEqual(await names({ q: '%' }), [])
    assert.deepEqual(await names({ q: '_' }), [])
  },

  async 'an upsert stores a schedule with an audit entry, and the same one again changes nothing'(bench) {
    assert.equal(await upsert(bench, { nextAtMs: 5_000 }), 'created')
    const before = await found(bench)
    assert.equal(before.origin, 'runtime')
    await bench.clock.advance(10)
    assert.equal(await upsert(bench, { nextAtMs: 99_000, timedAtMs: bench.clock.nowMs() }), 'same')
    assert.deepEqual(await found(bench), before)
    assert.equal(await upsert(bench, { nextAtMs: 99_000, payload: '{"n":2}' }), 'changed')
    assert.deepEqual(pick(await found(bench), 'nextAtMs', 'payload'), { nextAtMs: 5_000, payload: '{"n":2}' })
    const { events } = await bench.store.feed({ afterSeq: 0, limit: 100 })
    assert.deepEqual(
      events.map(({ kind }) => kind),
      ['declared', 'changed'],
    )
    const trail = await bench.store.auditTrail({ filter: { target: 'schedule' }, beforeSeq: null, limit: 10 })
    assert.deepEqual(
      trail.map(({ act, actor, reason }) => ({ act, actor, reason })),
      [1, 2].map(() => ({ act: 'schedules.upsert', ...BY })),
    )
  },

  async 'a schedule that many processes upsert at once is created once'(bench) {
    const handles = await bench.openMany(4)
    const answers = await Promise.all(handles.map((store) => upsert(bench, {}, store)))
    assert.deepEqual(answers.toSorted(), ['created', 'same', 'same', 'same'])
  },

  async 'a changed timing begins anew; a changed count or last time keeps the next tick'(bench) {
    await upsert(bench, { cron: null, everyMs: 90_000, timedAtMs: 7_000, nextAtMs: 97_000 })
    await upsert(bench, { cron: null, everyMs: 90_000, timedAtMs: 8_000, nextAtMs: 98_000, count: 5, untilMs: 500_000 })
    assert.deepEqual(pick(await found(bench), 'timedAtMs', 'nextAtMs', 'count', 'untilMs'), {
      timedAtMs: 7_000,
      nextAtMs: 97_000,
      count: 5,
      untilMs: 500_000,
    })
    await upsert(bench, { cron: null, everyMs: 60_000, timedAtMs: 8_000, nextAtMs: 68_000 })
    assert.deepEqual(pick(await found(bench), 'timedAtMs', 'nextAtMs'), { timedAtMs: 8_000, nextAtMs: 68_000 })
    await upsert(bench, { cron: null, everyMs: 60_000, fromMs: 9_000, timedAtMs: 8_500, nextAtMs: 69_000 })
    assert.deepEqual(pick(await found(bench), 'timedAtMs', 'nextAtMs'), { timedAtMs: 8_500, nextAtMs: 69_000 })
  },

  async 'a schedule ends with its count, keeps counting over a change, and goes on with a higher count'(bench) {
    await upsert(bench, { count: 2 })
    assert.equal(await take(bench, await found(bench)), 'taken')
    await bench.store.actOnSchedule({ ...BY, name: 'nightly', act: { kind: 'trigger', job: bench.newJob() } })
    await upsert(bench, { count: 2, payload: '{"n":2}' })
    assert.deepEqual(pick(await found(bench), 'counted', 'runs'), { counted: 1, runs: 2 })
    assert.equal(await take(bench, await found(bench), { nextAtMs: null }), 'taken')
    assert.deepEqual(pick(await found(bench), 'counted', 'nextAtMs'), { counted: 2, nextAtMs: null })
    await upsert(bench, { count: 2, payload: '{"n":3}', nextAtMs: 99_000 })
    assert.equal((await found(bench)).nextAtMs, null)
    await upsert(bench, { count: 3, nextAtMs: 99_000 })
    assert.equal((await found(bench)).nextAtMs, 99_000)
    const { events } = await bench.store.feed({ afterSeq: 0, limit: 100 })
    assert.equal(events.filter(({ kind, subject }) => subject === 'schedule:nightly' && kind === 'ended').length, 1)
  },

  async 'a program cannot declare the name of a runtime schedule, and an upsert cannot change a declared one'(bench) {
    await upsert(bench)
    const runtime = await found(bench)
    const schedules = [declaration(bench, { name: 'a-new-one' }), declaration(bench, { cron: '1 * * * *' })]
    await assert.rejects(bench.store.declareSchedules({ schedules }), { code: 'SCHEDULE_EXISTS' })
    assert.deepEqual(await bench.store.schedules(), [runtime])
    const declared = await declare(bench, { name: 'declared' })
    assert.equal(await upsert(bench, { name: 'declared', cron: '1 * * * *' }), 'declared')
    assert.deepEqual(await found(bench, 'declared'), declared)
  },

  async 'a look answers with the due schedules, oldest first, and when the next one is due'(bench) {
    const nowMs = bench.clock.nowMs()
    await upsert(bench, { name: 'second', nextAtMs: nowMs + 20 })
    await upsert(bench, { name: 'first', nextAtMs: nowMs + 10 })
    await upsert(bench, { name: 'later', nextAtMs: nowMs + MINUTE_MS })
    await upsert(bench, { name: 'ended', nextAtMs: null })
    await declare(bench, { name: 'ours', nextAtMs: nowMs + 15 })
    await declare(bench, { name: 'of-another-program', nextAtMs: nowMs + 5 })
    const look = async (limit: number, declared = ['ours']) => {
      const { due, nextAtMs } = await bench.store.dueSchedules({ declared, limit })
      return { due: due.map(({ name }) => name), nextAtMs }
    }
    assert.deepEqual(await look(10), { due: [], nextAtMs: nowMs + 10 })
    await bench.clock.advance(20)
    assert.deepEqual(await look(10), { due: ['first', 'ours', 'second'], nextAtMs: nowMs + MINUTE_MS })
    assert.deepEqual(await look(10, []), { due: ['first', 'second'], nextAtMs: nowMs + MINUTE_MS })
    assert.deepEqual(await look(2), { due: ['first', 'ours'], nextAtMs: nowMs + 20 })
  },

  async 'a held schedule is due again when its hold ends, or when it is changed'(bench) {
    await upsert(bench)
    await bench.clock.advance(MINUTE_MS)
    const nightly = await found(bench)
    const look = async () => {
      const { due, nextAtMs } = await bench.store.dueSchedules({ declared: [], limit: 10 })
      return { due: due.map(({ name }) => name), nextAtMs }
    }
    await hold(bench, nightly, 10_000)
    // Another process found the same at the same time: the hold must not double.
    await hold(bench, nightly, 20_000)
    const untilMs = bench.clock.nowMs() + 10_000
    assert.deepEqual(pick(await found(bench), 'heldUntilMs', 'holdMs'), { heldUntilMs: untilMs, holdMs: 10_000 })
    assert.deepEqual(await look(), { due: [], nextAtMs: untilMs })
    await bench.clock.advance(10_000)
    assert.deepEqual((await look()).due, ['nightly'])
    await hold(bench, nightly, 20_000)
    assert.deepEqual((await look()).due, [])
    await upsert(bench, { payload: '{"n":2}' })
    assert.deepEqual((await look()).due, ['nightly'])
    assert.deepEqual(pick(await found(bench), 'problem', 'holdMs'), { problem: null, holdMs: 0 })
    await hold(bench, nightly, 20_000)
    assert.equal((await found(bench)).problem, null, 'a hold of what the schedule was before')
  },

  async 'a look finds ticks that were computed by a clock that ran ahead'(bench) {
    await upsert(bench)
    await bench.clock.advance(365 * 24 * 60 * MINUTE_MS)
    await take(bench, await found(bench), { nextAtMs: bench.clock.nowMs() + MINUTE_MS })
    const ahead = async () =>
      (await bench.store.dueSchedules({ declared: [], limit: 10 })).astray.map(({ name }) => name)
    assert.deepEqual(await ahead(), [])
    await bench.clock.advance(-300 * 24 * 60 * MINUTE_MS)
    assert.deepEqual(await ahead(), ['nightly'])
    const planned = await found(bench)
    await take(bench, planned, { runs: [], nextAtMs: bench.clock.nowMs() + MINUTE_MS })
    assert.deepEqual(await ahead(), [])
  },

  async 'ticks of several schedules are taken in one change, without those that moved on'(bench) {
    const names = ['a', 'b', 'c']
    for (const name of names) await upsert(bench, { name })
    const planned = await Promise.all(names.map((name) => found(bench, name)))
    const [a, b, c] = planned as [StoredSchedule, StoredSchedule, StoredSchedule]
    await take(bench, b)
    const ticks = [tick(bench, c, { skipped: 4, because: 'a test' }), tick(bench, b), tick(bench, a)]
    assert.deepEqual(await bench.store.tickSchedules({ ticks }), ['taken', 'moved-on', 'taken'])
    const after = await bench.store.schedules()
    assert.deepEqual(
      after.map(({ runs, skipped }) => ({ runs, skipped })),
      [
        { runs: 1, skipped: 0 },
        { runs: 1, skipped: 0 },
        { runs: 1, skipped: 4 },
      ],
    )
    assert.equal((await bench.store.jobs({ limit: 10 })).length, 3)
    assert.deepEqual(await bench.store.tickSchedules({ ticks: [] }), [])
  },
})

const BY = { actor: 'olga', reason: 'a test' }

const pick = <T, Key extends keyof T>(from: T, ...keys: Key[]): Pick<T, Key> =>
  Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, Key>

async function found(bench: Bench, name = 'nightly'): Promise<StoredSchedule> {
  const [schedule] = await bench.store.schedules({ names: [name] })
  assert(schedule !== undefined, `the schedule ${name} is gone`)
  return schedule
}

function declaration(bench: Bench, parts: Partial<ScheduleDeclaration>): ScheduleDeclaration {
  return {
    name: 'nightly',
    type: 'plain',
    payload: '{}',
    cron: '* * * * *',
    everyMs: null,
    timezone: 'UTC',
    fromMs: null,
    untilMs: null,
    jitterMs: 0,
    count: null,
    missed: 'once',
    owner: null,
    priority: 0,
    timedAtMs: bench.clock.nowMs(),
    nextAtMs: bench.clock.nowMs() + MINUTE_MS,
    ...parts,
  }
}

async function declare(
  bench: Bench,
  parts: Partial<ScheduleDeclaration> = {},
  store = bench.store,
): Promise<StoredSchedule> {
  const schedule = declaration(bench, parts)
  await store.declareSchedules({ schedules: [schedule] })
  return found(bench, schedule.name)
}

async function upsert(
  bench: Bench,
  parts: Partial<ScheduleDeclaration> = {},
  store = bench.store,
): Promise<ScheduleUpserted> {
  return store.upsertSchedule({ ...BY, schedule: declaration(bench, parts) })
}

const hold = (bench: Bench, { name, revision, nextAtMs }: StoredSchedule, holdMs: number) =>
  bench.store.holdSchedule({ name, expect: { revision, nextAtMs: nextAtMs as number }, problem: 'no input', holdMs })

const run = (bench: Bench, { nextAtMs }: StoredSchedule) => ({ atMs: nextAtMs as number, job: bench.newJob() })

function tick(bench: Bench, planned: StoredSchedule, parts: Partial<ScheduleTaken> = {}): ScheduleTaken {
  const { name, revision, nextAtMs } = planned
  assert(nextAtMs !== null)
  return {
    name,
    expect: { revision, nextAtMs },
    runs: [run(bench, planned)],
    skipped: 0,
    because: null,
    nextAtMs: nextAtMs + MINUTE_MS,
    ...parts,
  }
}

async function take(bench: Bench, planned: StoredSchedule, parts: Partial<ScheduleTaken> = {}, store = bench.store) {
  const [answer] = await store.tickSchedules({ ticks: [tick(bench, planned, parts)] })
  return answer
}

const act = (bench: Bench, kind: 'pause' | 'resume' | 'remove') =>
  bench.store.actOnSchedule({ ...BY, name: 'nightly', act: { kind } })
