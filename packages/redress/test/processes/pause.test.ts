import { expect, test } from 'vitest'
import { act, look, pause, scratchFile, submit } from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'

const WORKER = { pollMs: 20, maintenanceMs: 100 }
const types: Record<string, PolicyInput> = { act: { orphan: 'requeue', lease: { ttl: '1s' } } }

test('a worker that stood still past its lease is refused, told so, and goes on with other jobs', async () => {
  const file = scratchFile()
  const store = look(file)
  const paused = act({ file, types, worker: { ...WORKER, concurrency: 2 } })
  await paused.says({ said: 'ready' })
  const [id = ''] = await submit({ file, types }, { do: 'wait', ms: 60_000, times: 1 })
  await paused.says({ said: 'begun', jobId: id, attempt: 1 })
  await until('its start is recorded', async () => (await store.row(id)).startedAtMs)
  await pause(paused, file)

  const other = act({ file, types, worker: WORKER })
  const done = await store.ended(id)
  expect(done).toMatchObject({ status: 'complete', attempt: 2 })
  await other.says({ said: 'told', jobId: id, attempt: 2, answer: 'closed', to: 'complete' })
  other.kill('SIGKILL')
  await other.ended

  paused.kill('SIGCONT')
  await paused.says({ said: 'aborted', jobId: id, attempt: 1, reason: 'LeaseLost' })
  const events = await until('the refusal is in the history', async () => {
    const all = await store.events({ id })
    return all.some((event) => event.kind === 'lost') && all
  })
  expect(events.filter((event) => event.kind === 'complete')).toHaveLength(1)
  const lost = events.filter((event) => event.kind === 'lost')
  expect(lost[0]).toMatchObject({ attempt: 1, data: { currentAttempt: 2, status: 'complete' } })
  expect(await store.row(id)).toEqual(done)

  const [next = ''] = await submit({ file, types }, { do: 'return', value: 'still alive' })
  expect(await store.ended(next)).toMatchObject({ status: 'complete', result: '"still alive"' })
  await paused.says({ said: 'told', jobId: next, attempt: 1, answer: 'closed', to: 'complete' })
})

test('a worker whose handler blocked it past its lease is refused the close, and whoever is told hears it', async () => {
  const file = scratchFile()
  const store = look(file)
  const blocked = act({ file, types, worker: WORKER })
  const other = act({ file, types, worker: WORKER })
  for (const worker of [blocked, other]) await worker.says({ said: 'ready' })
  // So that the first one gets the job, and the other is there when its lease runs out.
  await pause(other, file)
  const [id = ''] = await submit({ file, types }, { do: 'block', ms: 5_000, times: 1 })
  await blocked.says({ said: 'begun', jobId: id, attempt: 1 })
  other.kill('SIGCONT')
  await other.says({ said: 'begun', jobId: id, attempt: 2 })
  await blocked.says({ said: 'told', jobId: id, attempt: 1, answer: 'lost' })
  await other.says({ said: 'told', jobId: id, attempt: 2, answer: 'closed', to: 'complete' })
  const events = await store.events({ id })
  expect(events.filter((event) => event.kind === 'complete')).toHaveLength(1)
  expect(events).toContainEqual(
    expect.objectContaining({ kind: 'lost', attempt: 1, data: expect.objectContaining({ write: 'close' }) }),
  )
})

test('a worker that stood still for less than its lease keeps its job', async () => {
  const file = scratchFile()
  const store = look(file)
  const patient: Record<string, PolicyInput> = { act: { orphan: 'requeue', lease: { ttl: '30s' } } }
  const paused = act({ file, types: patient, worker: WORKER })
  await paused.says({ said: 'ready' })
  const [id = ''] = await submit({ file, types: patient }, { do: 'wait', ms: 1_000 })
  await paused.says({ said: 'begun', jobId: id })
  await pause(paused, file)
  const other = act({ file, types: patient, worker: WORKER })
  // The other one is there, looks after things, and has nothing to take.
  const [quick = ''] = await submit({ file, types: patient }, { do: 'return' })
  expect(await store.ended(quick)).toMatchObject({ status: 'complete' })
  other.kill('SIGKILL')
  paused.kill('SIGCONT')
  expect(await store.ended(id)).toMatchObject({ status: 'complete', attempt: 1 })
})
