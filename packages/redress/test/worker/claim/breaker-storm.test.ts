import { describe, expect, onTestFinished, test } from 'vitest'
import { FragileServer } from '../../../../../test/support/servers/fragile-server.ts'
import { did, size } from '../../../../../test/support/size.ts'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { until } from '../../../../../test/support/until.ts'
import { unpackSpent } from '../../../src/core/policy/budget.ts'
import { exponential, failureCodes, type PolicyInput, redress } from '../../../src/index.ts'

/**
 * A dependency fails completely while thousands of jobs wait for it, and comes back cold: at first it can do little at
 * once, and falls over under more. Real requests, in real time.
 */
const JOBS = size(1_500, 10_000)
const WORKERS = 2
const SLOTS = 20
const MIN_CALLS = 10
const COOLDOWN_MS = 500
const DOWN_MS = 2_000
/** All slots may be calling when the first failures come in, and each worker learns of the opening a moment later. */
const CALLS_TO_OPEN_MAX = WORKERS * SLOTS + MIN_CALLS
const PROBES_MAX = Math.ceil(DOWN_MS / COOLDOWN_MS) + 2

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'The gateway failed.', waiting: 'We will try again.' },
})

async function storm(server: FragileServer, policy: PolicyInput) {
  const app = redress({ store: `sqlite:${temporaryFolder()}/storm.db` })
  onTestFinished(() => app.stop({ graceMs: 0 }))
  app.job('convert', {
    codes,
    policy,
    run: async (_input, attempt) => {
      if ((await server.call()) >= 500) attempt.fail('GW_5XX')
    },
  })
  await app.submitMany('convert', Array(JOBS).fill({}))
  for (let i = 0; i < WORKERS; i++) await app.work({ concurrency: SLOTS, pollMs: 50 })
  const store = await app.store()
  const counts = async () => {
    const [found] = await store.counts()
    if (found === undefined) throw new Error('nothing is counted')
    return found
  }
  const breaker = async () => {
    const [found] = await store.breakers()
    if (found === undefined) throw new Error('there is no breaker')
    return found
  }
  return { app, store, counts, breaker }
}

const BREAKER = {
  guards: 'gateway',
  minCalls: MIN_CALLS,
  windowCalls: 20,
  window: '10s',
  cooldown: COOLDOWN_MS,
} as const
const HOLD: PolicyInput = {
  retry: { max: 10, backoff: exponential('100ms', { cap: '1s' }) },
  orphan: 'requeue',
  breaker: { ...BREAKER, mode: 'hold', probesToClose: 2, ramp: '4s' },
}

describe(`a breaker that holds ${JOBS} jobs`, () => {
  test('a held backlog calls a failing dependency only for probes, spends no attempts and completes after it recovers [D19 E3]', async () => {
    const server = await FragileServer.start({ coldCapacity: 8 })
    server.isDown = true
    const { store, counts, breaker } = await storm(server, HOLD)
    await until('the breaker is open', async () => (await breaker()).state.status !== 'closed')
    const openedMs = performance.now()
    await until('it was down for a while', () => performance.now() - openedMs > DOWN_MS)
    expect(server.callsWhileDown).toBeLessThanOrEqual(CALLS_TO_OPEN_MAX + PROBES_MAX)
    const queued = await store.jobs({ status: 'queued', limit: JOBS })
    // A job that was claimed ahead and given back when the breaker opened has paid nothing either.
    const failuresSpent = queued.reduce((sum, { spent }) => sum + unpackSpent(spent).failures, 0)
    expect(failuresSpent, 'only what was called is spent').toBeLessThanOrEqual(server.callsWhileDown)
    expect(queued.length).toBeGreaterThanOrEqual(JOBS - SLOTS * WORKERS)

    server.isDown = false
    await until('all are done', async () => (await counts()).complete === JOBS, { everyMs: 50 })
    did({ jobs: JOBS, calls: server.calls, callsWhileDown: server.callsWhileDown })
    expect(server.collapses).toBe(0)
    expect(server.calls - server.callsWhileDown, 'each was called once after it came back').toBe(JOBS)
    const failed = (await store.breakerEvents({ name: 'gateway', afterSeq: 0, limit: 1_000 })).at(-1)
    expect(failed?.kind).toBe('closed')
  }, 40_000)

  test('without a ramp the backlog overloads the recovered dependency again', async () => {
    const server = await FragileServer.start({ coldCapacity: 8 })
    server.isDown = true
    const { breaker } = await storm(server, { ...HOLD, breaker: { ...BREAKER, probesToClose: 2, ramp: 0 } })
    await until('the breaker is open', async () => (await breaker()).state.status !== 'closed')
    server.isDown = false
    await until('it has fallen over again', () => server.collapses > 0)
  }, 40_000)
})

describe(`a breaker that fails ${JOBS} jobs fast`, () => {
  test('a backlog that fails fast fails with the configured code and calls the dependency only for probes [D20]', async () => {
    const server = await FragileServer.start()
    server.isDown = true
    const startedMs = performance.now()
    const policy: PolicyInput = { breaker: { ...BREAKER, mode: 'fail-fast', code: 'GW_5XX', cooldown: '1s' } }
    const { app, counts } = await storm(server, policy)
    await until('all have failed', async () => (await counts()).failed === JOBS, { everyMs: 50 })
    const tookMs = performance.now() - startedMs
    did({ jobs: JOBS, calls: server.calls, tookMs })
    const probes = Math.ceil(tookMs / 1_000) + 2
    expect(server.calls).toBeLessThanOrEqual(CALLS_TO_OPEN_MAX + probes)
    const { jobs } = await app.jobs.list({ limit: 1_000 })
    expect(new Set(jobs.map(({ errorCode }) => errorCode))).toEqual(new Set(['GW_5XX']))
    const [failure] = (await app.jobs.failures(jobs[0]?.id ?? '')).failures
    expect(failure).toMatchObject({ phase: 'dispatch', layer: 'coordination' })
  }, 40_000)
})
