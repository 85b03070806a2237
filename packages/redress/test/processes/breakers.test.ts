import { expect, test } from 'vitest'
import { act, look, scratchFile, submit } from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'
import type { Store } from '../../src/store/contract/store.ts'

const WORKER = { pollMs: 50, concurrency: 5 }
const SECOND_MS = 1_000

const guarded = (parts: Partial<NonNullable<PolicyInput['breaker']>> = {}): PolicyInput => ({
  orphan: 'requeue',
  breaker: { guards: 'gateway', minCalls: 5, windowCalls: 100, ratio: 0.1, cooldown: '10m', ...parts },
})

const opened = (store: Store) =>
  until('the breaker has opened', async () => {
    const events = await store.breakerEvents({ name: 'gateway', afterSeq: 0, limit: 10 })
    return events.find(({ kind }) => kind === 'opened')
  })

test('all processes hold within a second after one process opens the breaker [E11]', async () => {
  const file = scratchFile()
  const store = look(file)
  const steady = { file, types: { steady: guarded() }, worker: WORKER }
  const failing = { file, types: { failing: guarded() }, worker: { ...WORKER, concurrency: 20 } }
  const ids = await submit(steady, ...Array(5_000).fill({ do: 'wait', ms: 20 }))
  const worker = act(steady)
  await worker.says({ said: 'told' })
  await submit(failing, ...Array(500).fill({ do: 'fail' }))
  act(failing)
  const { atMs: openedAtMs } = await opened(store)
  const countOf = async (type: string) => (await store.counts()).find((counts) => counts.type === type)
  await until('nothing is under way any more', async () => (await countOf('steady'))?.processing === 0)
  const rows = (await store.jobs({ type: 'steady', limit: ids.length })).filter(({ status }) => status === 'complete')
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.length).toBeLessThan(ids.length)
  const lastStartMs = Math.max(...rows.map(({ startedAtMs }) => startedAtMs ?? 0))
  expect(lastStartMs).toBeLessThanOrEqual(openedAtMs + SECOND_MS)
  expect((await countOf('failing'))?.queued).toBeGreaterThan(0)
})

test('a process that dies during a health probe does not block the next probe [D21]', async () => {
  const file = scratchFile()
  const store = look(file)
  const setup = { file, types: { call: guarded({ cooldown: '200ms', probesToClose: 2 }) }, worker: WORKER }
  const first = act({ ...setup, probes: { gateway: 'hang' } })
  await first.says({ said: 'ready' })
  await submit(setup, ...Array(5).fill({ do: 'fail' }))
  await first.says({ said: 'probing' })
  first.kill('SIGKILL')
  await first.ended
  const [id = ''] = await submit(setup, { do: 'return', value: 1 })
  act({ ...setup, probes: { gateway: 'pass' } })
  expect(await store.ended(id)).toMatchObject({ status: 'complete', attempt: 1 })
  const [breaker] = await store.breakers()
  expect(breaker).toMatchObject({ state: { status: 'closed' }, lastProbe: { passed: true } })
})

test('a breaker that is open when every process has ended is open for the next one', async () => {
  const file = scratchFile()
  const store = look(file)
  const setup = { file, types: { call: guarded(), free: {} }, worker: WORKER }
  const first = act(setup)
  await submit(setup, ...Array(5).fill({ do: 'fail' }))
  await opened(store)
  first.kill('SIGTERM')
  await first.ended
  const [held = ''] = await submit(setup, { do: 'return' })
  const [free = ''] = await submit({ file, types: { free: {}, call: guarded() } }, { do: 'return' })
  act(setup)
  expect(await store.ended(free)).toMatchObject({ status: 'complete' })
  expect(await store.row(held)).toMatchObject({ status: 'queued', attempt: 0, spent: null })
})
