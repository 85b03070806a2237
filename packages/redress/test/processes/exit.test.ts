import { describe, expect, test } from 'vitest'
import {
  type Act,
  type Actor,
  act,
  look,
  type Setup,
  scratchFile,
  submit,
} from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'
import { unpackSpent } from '../../src/core/policy/budget.ts'
import type { PolicyInput } from '../../src/core/policy/policy.ts'

const WORKER = { pollMs: 20, maintenanceMs: 100 }
const requeue: PolicyInput = { orphan: { action: 'requeue', maxReclaims: 3 }, lease: { ttl: '1s' } }

/** How a handler can end its process, and how the process then ends. */
const deaths: [string, Act, { code: number | null; signal: string | null }][] = [
  ['calls process.exit', { do: 'exit', code: 3 }, { code: 3, signal: null }],
  ['calls process.exit(0)', { do: 'exit', code: 0 }, { code: 0, signal: null }],
  ['throws where nobody catches it', { do: 'throw-uncaught' }, { code: 1, signal: null }],
  ['leaves a rejection unhandled', { do: 'reject-unhandled' }, { code: 1, signal: null }],
  ['kills its own process', { do: 'kill-self' }, { code: null, signal: 'SIGKILL' }],
  ['exhausts the memory', { do: 'exhaust-memory' }, { code: null, signal: 'SIGABRT' }],
]
const SMALL_HEAP = ['--max-old-space-size=64']

async function scene(policy: PolicyInput, ...acts: Act[]) {
  const file = scratchFile()
  const store = look(file)
  const setup: Setup = { file, types: { act: policy }, worker: WORKER }
  const ids = await submit(setup, ...acts)
  return { store, setup, ids }
}

/** Starts a worker whenever the last one died, as a supervisor does, until every job has ended. */
async function supervise(setup: Setup, store: ReturnType<typeof look>): Promise<Actor[]> {
  const workers: Actor[] = []
  let alive = false
  await until(
    'every job has ended',
    async () => {
      if (!alive) {
        alive = true
        const worker = act(setup, SMALL_HEAP)
        workers.push(worker)
        void worker.ended.then(() => {
          alive = false
        })
      }
      return (await store.counts()).every(({ queued, processing }) => queued + processing === 0)
    },
    { withinMs: 55_000, everyMs: 50 },
  )
  return workers
}

describe.each(deaths)('a handler that %s', (_name, deadly, end) => {
  test('ends its worker so, leaves a clear record, and the rest goes on in the next one', async () => {
    const policy: PolicyInput = { ...requeue, orphan: { action: 'requeue', maxReclaims: 1 } }
    const innocent: Act[] = Array(5).fill({ do: 'wait', ms: 20 })
    const { store, setup, ids } = await scene(policy, deadly, ...innocent)
    const [poison = '', ...rest] = ids
    const workers = await supervise(setup, store)
    const [first] = workers
    expect(await first?.ended).toEqual(end)
    expect(await store.row(poison)).toMatchObject({
      status: 'failed',
      latestFailure: { code: 'QUARANTINED', fault: 'code' },
    })
    for (const id of rest) expect(await store.row(id)).toMatchObject({ status: 'complete' })
  })
})

describe('a process that ends by itself', () => {
  test('says so at once where it still can: no lease has to run out first', async () => {
    const policy: PolicyInput = { orphan: 'fail', lease: { ttl: '1h' } }
    const { store, setup, ids } = await scene(policy, { do: 'exit', code: 7 })
    const [id = ''] = ids
    expect(await act(setup).ended).toEqual({ code: 7, signal: null })
    expect(await store.row(id)).toMatchObject({
      status: 'failed',
      latestFailure: { code: 'WORKER_LOST', context: { exitCode: 7 }, detail: expect.stringContaining('exit code 7') },
    })
  })

  test('records what was already done, also what was just on its way to the store', async () => {
    const policy: PolicyInput = { orphan: 'requeue', lease: { ttl: '1h' } }
    const acts: Act[] = [...Array(8).fill({ do: 'return', value: 'done before' }), { do: 'throw-uncaught' }]
    const { store, setup, ids } = await scene(policy, ...acts)
    await act(setup).ended
    for (const id of ids.slice(0, 8)) {
      expect(await store.row(id)).toMatchObject({ status: 'complete', attempt: 1, result: '"done before"' })
    }
  })

  test('gives back what it had claimed ahead, so that the next worker has it at once', async () => {
    const policy: PolicyInput = { ...requeue, lease: { ttl: '1h' } }
    const quick: Act[] = Array(60).fill({ do: 'return' })
    const acts: Act[] = [...quick, { do: 'exit', code: 1 }, ...Array(20).fill({ do: 'wait', ms: 5 })]
    const { store, setup, ids } = await scene(policy, ...acts)
    await act({ ...setup, worker: { ...WORKER, concurrency: 1 } }).ended
    for (const id of ids.slice(61)) expect(await store.row(id)).toMatchObject({ status: 'queued' })
  })

  test("under 'report' leaves a job that had begun for a person, and says whose worker it was", async () => {
    const { store, setup, ids } = await scene(
      { orphan: 'report', lease: { ttl: '1s' } },
      { do: 'kill-self' },
      { do: 'wait', ms: 5 },
    )
    const [poison = '', innocent = ''] = ids
    await act({ ...setup, worker: { ...WORKER, concurrency: 1 } }).ended
    const next = act(setup)
    await next.says({ said: 'ready' })
    const row = await until('it is noticed', async () => {
      const found = await store.row(poison)
      return (found.orphanedAtMs !== null || found.finishedAtMs !== null) && found
    })
    expect(row.attempt).toBe(1)
    expect((await store.events({ id: poison })).filter(({ kind }) => kind === 'processing')).toHaveLength(1)
    expect(await store.ended(innocent)).toMatchObject({ status: 'complete' })
  })
})

describe('a job that kills its worker as the first thing it does', () => {
  test('is quarantined after its reclaims, among ten slots and jobs claimed ahead, which all complete', async () => {
    const file = scratchFile()
    const store = look(file)
    const setup: Setup = { file, types: { act: requeue }, worker: { ...WORKER, concurrency: 10, prefetchMax: 500 } }
    const acts: Act[] = Array.from({ length: 150 }, (_, n) => ({ do: 'wait', ms: n % 3 === 0 ? 30 : 0 }))
    acts[5] = { do: 'kill-self' }
    acts[77] = { do: 'kill-self' }
    const ids = await submit(setup, ...acts)
    const workers = await supervise(setup, store)
    for (const [n, id] of ids.entries()) {
      const row = await store.row(id)
      const isPoison = n === 5 || n === 77
      expect(`${n} ${row.status} ${row.latestFailure?.code}`).toBe(
        isPoison ? `${n} failed QUARANTINED` : `${n} complete undefined`,
      )
      if (isPoison) expect(unpackSpent(row.spent).reclaims).toBe(3)
    }
    // Each of them kills once unseen, and then once more than it may be taken back.
    expect(workers.length).toBeLessThanOrEqual(2 * 5 + 1)
  })
})
