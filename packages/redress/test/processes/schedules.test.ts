import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { act, look, type Setup, scratchFile } from '../../../../test/support/processes/processes.ts'
import { ownDatabase } from '../../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const types = { act: { orphan: 'requeue', lease: { ttl: '1s' } } } as const
const worker = { pollMs: 50, maintenanceMs: 100 }
const every = { cron: '* * * * * *', job: 'act', input: { do: 'return' }, missed: 'all' } as const
const names = Array.from({ length: 10 }, (_, i) => `every-second-${i}`)
const setup = (file: string): Setup => ({
  file,
  types,
  worker,
  schedules: Object.fromEntries(names.map((name) => [name, every])),
})

test('a tick makes one job however many processes see it, and killing them loses none', async () => {
  const file = scratchFile()
  const store = look(file)
  const actors = [act(setup(file)), act(setup(file)), act(setup(file))]
  for (const actor of actors) await actor.says({ said: 'ready' })
  const runs = async () => (await store.schedules()).map((schedule) => schedule.runs)
  const allRan = (times: number) => until(`each ran ${times} times`, async () => Math.min(...(await runs())) >= times)

  await allRan(2)
  // At any moment, also in the middle of taking a tick.
  actors[0]?.kill('SIGKILL')
  await allRan(3)
  actors[1]?.kill('SIGKILL')
  actors[2]?.kill('SIGKILL')
  for (const actor of actors) await actor.ended

  // Nobody is there for a while: those ticks are made up for.
  const stoodStill = await runs()
  await until('two more ticks were missed', async () => {
    const nowMs = await store.nowMs()
    return (await store.schedules()).every(({ nextAtMs }) => nowMs - Number(nextAtMs) > 2_000)
  })
  expect(await runs()).toEqual(stoodStill)
  const last = act(setup(file))
  await last.says({ said: 'ready' })
  await allRan(Math.max(...stoodStill) + 4)
  last.kill('SIGTERM')
  await last.ended

  const jobs = await store.jobs({ limit: 10_000 })
  const ticks = new Map<string, number[]>(names.map((name) => [name, []]))
  for (const { id } of jobs) {
    const [queued] = await store.events({ id })
    ticks.get(String(queued?.data.schedule))?.push(Number(queued?.data.scheduledForMs))
  }
  for (const { name, runs: count, skipped } of await store.schedules()) {
    const found = (ticks.get(name) ?? []).toSorted((a, b) => a - b)
    // One for each second from the first to the last: none twice, none left out.
    expect(found).toEqual(Array.from({ length: count }, (_, i) => Number(found[0]) + i * 1_000))
    expect(skipped).toBe(0)
  }
})

describe.each(['SQLite', 'PostgreSQL'])('runtime schedules on %s', (driver) => {
  test('are taken by processes that do not declare their type; killing them loses no tick, and the count is exact', {
    timeout: 60_000,
  }, async () => {
    const RUNS = 6
    const file = scratchFile()
    const place = driver === 'SQLite' ? `sqlite:${file}` : await ownDatabase(server.url)
    const app = new App({ store: place })
    onTestFinished(() => app.stop())
    app.job('report', { run: () => undefined })
    const customers = Array.from({ length: 40 }, (_, i) => `report:customer-${i}`)
    for (const name of customers) {
      await app.schedules.upsert(name, {
        ...{ every: '1s', count: RUNS, missed: 'all', job: 'report', actor: 'olga', reason: 'a test' },
      })
    }
    const store = await app.store()
    const taker = () => act({ file, store: place, types, worker })
    const actors = [taker(), taker(), taker()]
    const counted = async () => (await store.schedules({ q: 'customer' })).map((schedule) => schedule.counted)
    const allCounted = (times: number) =>
      until(`each ran ${times} times`, async () => Math.min(...(await counted())) >= times)
    for (const [i, actor] of actors.entries()) {
      await allCounted(i + 1)
      actor.kill('SIGKILL')
      await actor.ended
    }
    actors.push(taker(), taker())
    await until('all have ended', async () => (await store.schedules()).every(({ nextAtMs }) => nextAtMs === null))
    for (const actor of actors) actor.kill('SIGKILL')

    const ticks = new Map<string, number[]>(customers.map((name) => [name, []]))
    for (const { id } of await store.jobs({ limit: 10_000 })) {
      const [queued] = await store.events({ id })
      ticks.get(String(queued?.data.schedule))?.push(Number(queued?.data.scheduledForMs))
    }
    for (const { name, timedAtMs, counted, skipped } of await store.schedules()) {
      expect({ counted, skipped }).toEqual({ counted: RUNS, skipped: 0 })
      // One for each period from the start: none twice, none left out, none beyond the count.
      const found = (ticks.get(name) ?? []).toSorted((a, b) => a - b)
      expect(found).toEqual(Array.from({ length: RUNS }, (_, i) => timedAtMs + (i + 1) * 1_000))
    }
  })
})
