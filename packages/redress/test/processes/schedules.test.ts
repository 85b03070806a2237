import { expect, test } from 'vitest'
import { act, look, type Setup, scratchFile } from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'

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
