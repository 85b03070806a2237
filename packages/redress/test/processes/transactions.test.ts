import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { act, look, program, scratchFile } from '../../../../test/support/processes/processes.ts'
import { checkJob } from '../../src/store/conformance/bench/checks.ts'

const types = { act: {} }
const WORKER = { pollMs: 50, maintenanceMs: 100 }

const shop = (file: string, order: number, end: 'committed' | 'killed') =>
  program('shop', [file, String(order), end], file)

function ordersOf(file: string): unknown[] {
  const database = new DatabaseSync(file)
  onTestFinished(() => database.close())
  return database
    .prepare('SELECT id FROM orders ORDER BY id')
    .all()
    .map(({ id }) => id)
}

test('a process that is killed between submitting and its commit leaves neither the job nor the row', async () => {
  const file = scratchFile()
  const store = look(file)
  const killed = shop(file, 1, 'killed')
  const { jobId: lost = '' } = await killed.says({ said: 'begun' })
  expect(await killed.ended).toEqual({ code: null, signal: 'SIGKILL' })
  const committed = shop(file, 2, 'committed')
  const { jobId: kept = '' } = await committed.says({ said: 'acknowledged' })
  expect(ordersOf(file)).toEqual([2])
  expect(await store.job({ id: lost })).toBeNull()
  expect(await store.row(kept)).toMatchObject({ status: 'queued', payload: '{"do":"return","value":2}' })
})

test('what one process commits in its own transaction, another one works on within a poll', async () => {
  const file = scratchFile()
  const store = look(file)
  const worker = act({ file, types, worker: WORKER })
  await worker.says({ said: 'ready' })
  const shops = [1, 2, 3].map((order) => shop(file, order, 'committed'))
  for (const one of shops) {
    const { jobId = '' } = await one.says({ said: 'acknowledged' })
    const job = await store.ended(jobId)
    expect(job.status).toBe('complete')
    expect(Number(job.claimedAtMs) - job.queuedAtMs).toBeLessThan(WORKER.pollMs + 3_000)
    checkJob(job, await store.events({ id: jobId }))
    expect(await one.ended).toEqual({ code: 0, signal: null })
  }
  expect(ordersOf(file)).toEqual([1, 2, 3])
})
