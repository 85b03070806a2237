import { describe, expect, test } from 'vitest'
import { act, look, openAtOnce, type Setup, scratchFile, submit } from '../../../../test/support/processes/processes.ts'
import { until } from '../../../../test/support/until.ts'
import { checkJob } from '../../src/store/conformance/bench/checks.ts'

const WORKER = { pollMs: 50, maintenanceMs: 100 }
const types = { act: {} }

describe('two processes on one file', () => {
  test('what one submits the other does, within one poll', async () => {
    const file = scratchFile()
    const store = look(file)
    const worker = act({ file, types, worker: WORKER })
    await worker.says({ said: 'ready' })
    const submitter = act({ file, types, submits: [{ type: 'act', input: { do: 'return', value: 42 } }] })
    const { jobId = '' } = await submitter.says({ said: 'acknowledged' })
    const job = await store.ended(jobId)
    expect(job).toMatchObject({ status: 'complete', result: '42' })
    // The store's own times: a poll, and some room for a machine that does other things too.
    expect(Number(job.claimedAtMs) - job.queuedAtMs).toBeLessThan(WORKER.pollMs + 3_000)
    expect(await submitter.ended).toEqual({ code: 0, signal: null })
  })

  test('what one cancels the other stops', async () => {
    const file = scratchFile()
    const store = look(file)
    const worker = act({ file, types, worker: WORKER })
    const [id = ''] = await submit({ file, types }, { do: 'wait-for-signal' })
    await worker.says({ said: 'begun', jobId: id })
    const seen = { status: 'processing', attempt: 1 } as const
    const act1 = { kind: 'request-cancel' } as const
    expect(await store.intervene({ id, actor: 'ann', reason: 'wrong file', expect: seen, act: act1 })).toBe('done')
    expect(await worker.says({ said: 'aborted', jobId: id })).toMatchObject({ reason: 'Cancelled' })
    expect(await store.ended(id)).toMatchObject({ status: 'cancelled' })
  })

  test('each does only the types that it declared', async () => {
    const file = scratchFile()
    const store = look(file)
    const ones: Setup = { file, types: { one: {} }, worker: WORKER }
    const others: Setup = { file, types: { other: {} }, worker: WORKER }
    const [one, other] = [act(ones), act(others)]
    const oneIds = await submit({ file, types: ones.types }, ...Array(20).fill({ do: 'return' }))
    const otherIds = await submit({ file, types: others.types }, ...Array(20).fill({ do: 'return' }))
    for (const id of [...oneIds, ...otherIds]) expect(await store.ended(id)).toMatchObject({ status: 'complete' })
    const toldTo = (actor: typeof one) =>
      actor.said.filter(({ said }) => said === 'told').map(({ jobId }) => String(jobId))
    await until('both have heard of all', () => toldTo(one).length + toldTo(other).length >= 40)
    expect(toldTo(one).toSorted()).toEqual(oneIds.toSorted())
    expect(toldTo(other).toSorted()).toEqual(otherIds.toSorted())
  })

  test('a type that nobody serves yet waits, and the others do not', async () => {
    const file = scratchFile()
    const store = look(file)
    const [waiting = ''] = await submit({ file, types: { later: {} } }, { do: 'return' })
    const worker = act({ file, types, worker: WORKER })
    const [id = ''] = await submit({ file, types }, { do: 'return' })
    await store.ended(id)
    expect(await store.row(waiting)).toMatchObject({ status: 'queued', attempt: 0 })
    worker.kill('SIGTERM')
    await worker.ended
    act({ file, types: { later: {} }, worker: WORKER })
    expect(await store.ended(waiting)).toMatchObject({ status: 'complete' })
  })

  test('many that start on a fresh file at the same moment make one store, and all of them work', async () => {
    const file = scratchFile()
    const submits = Array(5).fill({ type: 'act', input: { do: 'return' } })
    const actors = Array.from({ length: 6 }, () => act({ file, types, worker: WORKER, submits }))
    for (const actor of actors) await actor.says({ said: 'ready' })
    const store = look(file)
    await until('all is done', async () => {
      const [counts] = await store.counts()
      return counts?.complete === 30
    })
    for (const row of await store.jobs({ limit: 100 })) checkJob(row, await store.events({ id: row.id }))
    for (const actor of actors) {
      actor.kill('SIGTERM')
      expect(await actor.ended).toEqual({ code: 0, signal: null })
      expect(actor.stderr()).toBe('')
    }
  })

  test('a fresh file is made once, by whoever comes first, and nobody is turned away', async () => {
    for (let round = 0; round < 5; round++) {
      const file = scratchFile()
      expect(await openAtOnce(file, 6)).toEqual(Array(6).fill(''))
      expect(await look(file).workers()).toHaveLength(6)
    }
  })

  test('a job is done once, however many work on it', async () => {
    const file = scratchFile()
    const store = look(file)
    const actors = Array.from({ length: 3 }, () => act({ file, types, worker: WORKER }))
    const ids = await submit({ file, types }, ...Array(300).fill({ do: 'wait', ms: 1 }))
    for (const id of ids) await store.ended(id)
    await until('everything that was begun is told', () => {
      return actors.flatMap(({ said }) => said.filter((line) => line.said === 'told')).length >= ids.length
    })
    const begun = actors.flatMap(({ said }) => said.filter((line) => line.said === 'begun').map(({ jobId }) => jobId))
    expect(begun.toSorted()).toEqual(ids.toSorted())
  })
})

describe('a handler that blocks its process past lease and limit', () => {
  // A minute does the same; three seconds on a lease of one are enough to show it.
  const blockMs = Number(process.env.REDRESS_BLOCK_MS ?? 3_000)

  test('has failed with TIMEOUT, and the jobs beside it go on', async () => {
    const file = scratchFile()
    const store = look(file)
    const policy = { orphan: 'requeue', lease: { ttl: '1s' }, timeout: { attempt: '2s' } } as const
    const setup: Setup = { file, types: { act: policy }, worker: { ...WORKER, concurrency: 5 } }
    const acts = [
      ...Array(3).fill({ do: 'wait', ms: 10 }),
      { do: 'block', ms: blockMs },
      ...Array(3).fill({ do: 'wait', ms: 10 }),
    ]
    const ids = await submit(setup, ...acts)
    act(setup)
    for (const [n, id] of ids.entries()) {
      const row = await store.ended(id)
      if (n === 3)
        expect(row).toMatchObject({ status: 'failed', latestFailure: { code: 'TIMEOUT', phase: 'execution' } })
      else expect(row).toMatchObject({ status: 'complete' })
    }
  })

  test('beside a second worker: that one does the others meanwhile, and the blocking job ends with a clear failure', async () => {
    const file = scratchFile()
    const store = look(file)
    const policy = {
      orphan: { action: 'requeue', maxReclaims: 1 },
      lease: { ttl: '1s' },
      timeout: { attempt: '2s' },
    } as const
    const setup: Setup = { file, types: { act: policy }, worker: { ...WORKER, concurrency: 1 } }
    const [blocking = ''] = await submit(setup, { do: 'block', ms: blockMs })
    const first = act(setup)
    await first.says({ said: 'begun', jobId: blocking })
    const second = act({ ...setup, worker: { ...WORKER, concurrency: 5 } })
    await second.says({ said: 'ready' })
    const others = await submit(setup, ...Array(5).fill({ do: 'wait', ms: 10 }))
    for (const id of others) expect(await store.ended(id)).toMatchObject({ status: 'complete' })
    const row = await store.ended(blocking)
    expect(['TIMEOUT', 'QUARANTINED']).toContain(row.latestFailure?.code)
    expect((await store.events({ id: blocking })).filter(({ kind }) => kind === 'complete')).toEqual([])
  })
})
