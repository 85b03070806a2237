import assert from 'node:assert/strict'
import type { ScheduleDeclaration, StoredSchedule } from '../../contract/schedules.ts'
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
    await bench.store.reportSchedule({ name: 'nightly', problem: 'no input' })
    const sinceMs = bench.clock.nowMs()
    await bench.clock.advance(10)
    await bench.store.reportSchedule({ name: 'nightly', problem: 'no input' })
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
})

const BY = { actor: 'olga', reason: 'a test' }

const pick = <T, Key extends keyof T>(from: T, ...keys: Key[]): Pick<T, Key> =>
  Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, Key>

async function found(bench: Bench, name = 'nightly'): Promise<StoredSchedule> {
  const [schedule] = await bench.store.schedules({ names: [name] })
  assert(schedule !== undefined, `the schedule ${name} is gone`)
  return schedule
}

async function declare(
  bench: Bench,
  parts: Partial<ScheduleDeclaration> = {},
  store = bench.store,
): Promise<StoredSchedule> {
  const schedule: ScheduleDeclaration = {
    name: 'nightly',
    type: 'plain',
    payload: '{}',
    cron: '* * * * *',
    timezone: 'UTC',
    missed: 'once',
    owner: null,
    priority: 0,
    nextAtMs: bench.clock.nowMs() + MINUTE_MS,
    ...parts,
  }
  await store.declareSchedules({ schedules: [schedule] })
  return found(bench, schedule.name)
}

const run = (bench: Bench, { nextAtMs }: StoredSchedule) => ({ atMs: nextAtMs as number, job: bench.newJob() })

function take(
  bench: Bench,
  planned: StoredSchedule,
  parts: Partial<Parameters<Store['tickSchedule']>[0]> = {},
  store = bench.store,
) {
  const { name, revision, nextAtMs } = planned
  assert(nextAtMs !== null)
  return store.tickSchedule({
    name,
    expect: { revision, nextAtMs },
    runs: [run(bench, planned)],
    skipped: 0,
    because: null,
    nextAtMs: nextAtMs + MINUTE_MS,
    ...parts,
  })
}

const act = (bench: Bench, kind: 'pause' | 'resume' | 'remove') =>
  bench.store.actOnSchedule({ ...BY, name: 'nightly', act: { kind } })
