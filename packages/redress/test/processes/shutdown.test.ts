import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { act, look, type Setup, scratchFile, submit } from '../../../../test/support/processes/processes.ts'
import { unpackSpent } from '../../src/core/policy/budget.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'

const WORKER = { pollMs: 20, maintenanceMs: 100 }

async function working(policy: PolicyInput, options: Partial<Setup> = {}) {
  const file = scratchFile()
  const store = look(file)
  const types = { act: policy }
  const worker = act({ file, types, worker: WORKER, ...options })
  await worker.says({ said: 'ready' })
  return { file, store, types, worker }
}

test.each(['SIGTERM', 'SIGINT'] as const)(
  '%s lets the running job finish, and ends with exit code 0',
  async (signal) => {
    const { file, store, types, worker } = await working({})
    const [id = ''] = await submit({ file, types }, { do: 'wait', ms: 500 })
    await worker.says({ said: 'begun', jobId: id })
    worker.kill(signal)
    expect(await worker.ended).toEqual({ code: 0, signal: null })
    expect(await store.row(id)).toMatchObject({ status: 'complete', attempt: 1 })
    expect((await store.workers()).map(({ stoppedAtMs }) => typeof stoppedAtMs)).toEqual(['number'])
    expect(worker.stderr()).toBe('')
  },
)

test('no job is claimed after the signal', async () => {
  const { file, store, types, worker } = await working({})
  const [running = ''] = await submit({ file, types }, { do: 'wait', ms: 1_500 })
  await worker.says({ said: 'begun', jobId: running })
  worker.kill('SIGTERM')
  await worker.says({ said: 'stopping' })
  const [late = ''] = await submit({ file, types }, { do: 'return' })
  await worker.ended
  expect(await store.row(late)).toMatchObject({ status: 'queued', attempt: 0 })
})

test("what does not finish in the grace is told, then requeued where the policy says 'requeue'", async () => {
  const { file, store, types, worker } = await working({ shutdown: 'requeue' }, { graceMs: 300 })
  const [listens = '', ignores = ''] = await submit({ file, types }, { do: 'wait-for-signal' }, { do: 'ignore-signal' })
  await worker.says({ said: 'begun', jobId: listens })
  await worker.says({ said: 'begun', jobId: ignores })
  worker.kill('SIGTERM')
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  for (const id of [listens, ignores]) {
    await worker.says({ said: 'aborted', jobId: id, attempt: 1, reason: 'ShuttingDown' })
    const job = await store.row(id)
    expect(job).toMatchObject({ status: 'queued', lease: null })
    expect(unpackSpent(job.spent)).toMatchObject({ failures: 0, releases: 1 })
  }
})

test("what does not finish in the grace fails where the policy says 'fail', and a later worker leaves it so", async () => {
  const policy: PolicyInput = { shutdown: 'fail', forwardOnly: true, locked: true }
  const { file, store, types, worker } = await working(policy, { graceMs: 300 })
  const [id = ''] = await submit({ file, types }, { do: 'ignore-signal' })
  await worker.says({ said: 'begun', jobId: id })
  worker.kill('SIGTERM')
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect(await store.row(id)).toMatchObject({
    status: 'failed',
    latestFailure: { code: 'SHUTDOWN', from: 'processing' },
  })
  const next = act({ file, types, worker: WORKER })
  await next.says({ said: 'ready' })
  const [other = ''] = await submit({ file, types }, { do: 'return' })
  await store.ended(other)
  expect(await store.row(id)).toMatchObject({ status: 'failed', attempt: 1 })
})

test('jobs that were claimed ahead are given back and done by the next worker', async () => {
  const file = scratchFile()
  const store = look(file)
  const types = { act: {} }
  const quick = Array(60).fill({ do: 'return' })
  const slow = Array(20).fill({ do: 'wait', ms: 3_000 })
  const ids = await submit({ file, types }, ...quick, ...slow)
  const worker = act({ file, types, worker: { ...WORKER, concurrency: 1 }, graceMs: 0 })
  await worker.says({ said: 'begun', jobId: String(ids[60]) })
  worker.kill('SIGTERM')
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  const rows = await Promise.all(ids.slice(60).map((id) => store.row(id)))
  expect(new Set(rows.map((row) => row.status))).toEqual(new Set(['queued']))
  // What it had begun, and on most machines some of what waited behind it.
  expect(rows.filter((row) => row.attempt > 0).length).toBeGreaterThan(0)
})

test('a second signal ends the patience of the first', async () => {
  const { file, store, types, worker } = await working({}, { graceMs: 3_600_000 })
  const [id = ''] = await submit({ file, types }, { do: 'ignore-signal' })
  await worker.says({ said: 'begun', jobId: id })
  worker.kill('SIGTERM')
  await worker.says({ said: 'stopping' })
  expect(worker.child.exitCode).toBe(null)
  worker.kill('SIGINT')
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect(await store.row(id)).toMatchObject({ status: 'queued' })
})

test('the store is closed after the last write at shutdown [E19]', async () => {
  const file = scratchFile()
  const submits = [{ type: 'act', input: { do: 'wait', ms: 300 } as const }]
  const worker = act({ file, types: { act: {} }, worker: WORKER, submits, graceMs: 5_000 })
  const { jobId = '' } = await worker.says({ said: 'begun' })
  worker.kill('SIGTERM')
  expect(await worker.ended).toEqual({ code: 0, signal: null })
  expect(worker.said.map(({ said }) => said).slice(-2)).toEqual(['told', 'stopped'])
  // SQLite removes it when the last connection is closed in good order.
  expect(existsSync(`${file}-wal`)).toBe(false)
  expect(await look(file).row(jobId)).toMatchObject({ status: 'complete' })
})
