import { describe, expect, onTestFinished, test } from 'vitest'
import { keepingLog, Scene } from '../../../../../test/support/scene.ts'
import { failureCodes, type PolicyInput } from '../../../src/index.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { type KitOptions, type TestKit, testKit } from '../../../src/testing/kit.ts'

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'The gateway failed.', waiting: 'We will retry.' },
  GW_4XX: { fault: 'caller', retry: 'never', message: 'The gateway does not take this.' },
})

/** A gateway that is well or not, and a job type that calls it. */
function withGateway(
  breaker: Partial<NonNullable<PolicyInput['breaker']>> = {},
  policy: PolicyInput = {},
  options: KitOptions = {},
) {
  const kit = testKit(options)
  onTestFinished(() => kit.stop())
  const gateway = { isDown: false, calls: 0 }
  kit.app.job('convert', {
    codes,
    policy: { orphan: 'requeue', ...policy, breaker: { guards: 'gateway', minCalls: 4, windowCalls: 8, ...breaker } },
    run: (_input, attempt) => {
      gateway.calls++
      if (gateway.isDown) attempt.fail('GW_5XX')
    },
  })
  return { kit, gateway, submit: (count: number) => kit.app.submitMany('convert', Array(count).fill({})) }
}

const breakerOf = async (kit: TestKit) => {
  const [breaker] = (await kit.app.perform('breakers.list', {})).breakers
  if (breaker === undefined) throw new Error('there is no breaker')
  return breaker
}

describe('hold', () => {
  test('a failing dependency is not called, and the jobs that wait for it spend nothing', async () => {
    const { kit, gateway, submit } = withGateway()
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    expect(await breakerOf(kit)).toMatchObject({ status: 'open', computed: { status: 'open' }, heldJobs: 0 })
    const waiting = await submit(50)
    await kit.advance('29s')
    expect(gateway.calls).toBe(4)
    expect((await breakerOf(kit)).heldJobs).toBe(50)
    for (const { id } of waiting.slice(0, 3)) {
      expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'queued', attemptCount: 0, retryCount: 0 })
    }
  })

  test('the job says what holds it, why, and until when', async () => {
    const { kit, gateway, submit } = withGateway({ cooldown: '30s' })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    const [{ id } = { id: '' }] = await submit(1)
    await kit.advance('5s')
    const job = await kit.app.jobs.find(id)
    expect(job?.held).toEqual([
      {
        by: 'breaker',
        name: 'gateway',
        why: '100 % of the last 4 calls failed; tries again in 25 s',
        until: new Date(kit.clock.nowMs() + 25_000).toISOString(),
      },
    ])
    expect(await kit.app.explain(id)).toContain(
      'Held by breaker gateway: 100 % of the last 4 calls failed; tries again in 25 s.',
    )
    expect((await kit.app.jobs.list({ status: 'queued' })).jobs[0]?.held).toEqual(job?.held)
  })

  test('one job at a time finds out whether it is back, and then all go', async () => {
    const { kit, gateway, submit } = withGateway({ probesToClose: 2 }, { retry: { max: 1 } })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    const waiting = await submit(30)
    await kit.advance('30s')
    expect(gateway.calls, 'one was tried, in vain').toBe(5)
    gateway.isDown = false
    await kit.drain()
    expect(gateway.calls).toBe(34)
    const ended = await Promise.all(waiting.map(({ id }) => kit.app.jobs.find(id)))
    expect(ended.filter((job) => job?.status === 'complete')).toHaveLength(29)
    expect(await breakerOf(kit)).toMatchObject({ status: 'closed' })
  })

  test('faults of the caller never open it', async () => {
    const { kit } = withGateway()
    kit.app.job('careless', {
      codes,
      policy: { breaker: { guards: 'gateway', minCalls: 4, windowCalls: 8 } },
      run: (_input, attempt) => attempt.fail('GW_4XX'),
    })
    await kit.app.submitMany('careless', Array(50).fill({}))
    await kit.advance('10s')
    expect(await breakerOf(kit)).toMatchObject({ status: 'closed', window: { calls: 0, failed: 0 } })
  })

  test('jobs claimed ahead are given back, free, when the breaker opens before they begin', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    let calls = 0
    let end: () => void = () => undefined
    scene.app.job('slow', {
      codes,
      policy: { orphan: 'requeue', breaker: { guards: 'gateway', minCalls: 1, windowCalls: 1 } },
      run: (_input, attempt) => {
        if (++calls <= 150) return undefined
        return new Promise((_, reject) => {
          end = () => {
            try {
              attempt.fail('GW_5XX')
            } catch (error) {
              reject(error)
            }
          }
        })
      },
    })
    const worker = await scene.worker({ concurrency: 1, prefetchMax: 20 })
    for (let i = 0; i < 3; i++) {
      await scene.app.submitMany('slow', Array(50).fill({}))
      await scene.clock.advance(1)
      await worker.tick()
    }
    expect(calls).toBe(150)
    // In another second than those that succeeded: the order within one is not known.
    await scene.clock.advance(1_000)
    const waiting = await scene.app.submitMany('slow', Array(10).fill({}))
    await worker.tick()
    expect([calls, worker.held > 1]).toEqual([151, true])
    end()
    await worker.tick()
    await worker.tick()
    expect(calls).toBe(151)
    expect(worker.held).toBe(0)
    const { spent, attempt, status } = await scene.job(waiting[1]?.id ?? '')
    expect({ spent, attempt, status }).toEqual({ spent: '{"releases":1}', attempt: 1, status: 'queued' })
    const [event] = (await scene.store.events({ id: waiting[1]?.id ?? '' })).slice(-1)
    expect(event).toMatchObject({
      kind: 'released',
      data: { reason: expect.stringContaining('held by breaker gateway') },
    })
  })

  test('an opening by another process stops a job that waited here before it begins', async () => {
    const scene = new Scene()
    onTestFinished(() => scene.end())
    let ends: (() => void)[] = []
    let calls = 0
    scene.app.job('slow', {
      codes,
      policy: { orphan: 'requeue', breaker: { guards: 'gateway' } },
      run: () => {
        calls++
        return calls <= 150 ? undefined : new Promise<void>((resolve) => ends.push(resolve))
      },
    })
    const worker = await scene.worker({ concurrency: 1, prefetchMax: 20 })
    for (let i = 0; i < 3; i++) {
      await scene.app.submitMany('slow', Array(50).fill({}))
      await scene.clock.advance(1)
      await worker.tick()
    }
    await scene.app.submitMany('slow', Array(10).fill({}))
    await worker.tick()
    expect([calls, worker.held > 1]).toEqual([151, true])
    await scene.store.forceBreaker({ name: 'gateway', status: 'open', forMs: null, by: { actor: 'ann', reason: 'x' } })
    await scene.clock.advance(700)
    for (const end of ends) end()
    ends = []
    await worker.tick()
    expect(calls, 'nothing was begun after the breaker was opened').toBe(151)
    expect(worker.held).toBe(0)
  })
})

describe('fail-fast', () => {
  test('a job is dispatched and fails at once, finally, without a call', async () => {
    const { kit, gateway, submit } = withGateway({ mode: 'fail-fast' }, { retry: { max: 3 }, deadLetter: 'flag' })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    const { calls } = gateway
    const [{ id } = { id: '' }] = await submit(1)
    await kit.tick()
    expect(gateway.calls).toBe(calls)
    expect(await kit.app.jobs.find(id)).toMatchObject({
      status: 'failed',
      errorCode: 'BREAKER_OPEN',
      deadLettered: true,
    })
    const [failure] = (await kit.app.jobs.failures(id)).failures
    expect(failure).toMatchObject({ phase: 'dispatch', layer: 'coordination', fault: 'dependency' })
    expect(failure?.decision.budget).toMatchObject({ before: 0, after: 0 })
    expect(await kit.history(id)).toEqual(['queued', 'processing', 'failed'])
  })

  test('with the code that the policy names', async () => {
    const { kit, gateway, submit } = withGateway({ mode: 'fail-fast', code: 'GW_5XX' }, { retry: { max: 3 } })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    const [{ id } = { id: '' }] = await submit(1)
    await kit.tick()
    expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'GW_5XX' })
    expect(await kit.app.explain(id)).toContain('under this policy jobs fail fast')
  })

  test('while it tries, one job really calls and the others fail', async () => {
    const { kit, gateway, submit } = withGateway({ mode: 'fail-fast', probesToClose: 2 })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    await kit.advance('30s')
    gateway.isDown = false
    const { calls } = gateway
    const first = await submit(5)
    await kit.tick()
    expect(gateway.calls).toBe(calls + 1)
    const stands = await Promise.all(first.map(async ({ id }) => (await kit.app.jobs.find(id))?.status))
    expect(stands.toSorted()).toEqual(['complete', 'failed', 'failed', 'failed', 'failed'])
    await submit(1)
    await kit.tick()
    await kit.tick()
    expect(await breakerOf(kit)).toMatchObject({ status: 'closed' })
  })
})

describe('health probes', () => {
  test('a probe that passes lets the jobs go on, and no job is risked to find out', async () => {
    const { kit, gateway, submit } = withGateway({ probesToClose: 2, cooldown: '10s' })
    const probes: boolean[] = []
    kit.app.dependency('gateway', {
      every: '5s',
      probe: () => {
        probes.push(!gateway.isDown)
        if (gateway.isDown) throw new Error('connection refused')
      },
    })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    await submit(20)
    await kit.advance('29s')
    expect(gateway.calls).toBe(4)
    expect(probes.length).toBeGreaterThanOrEqual(3)
    expect(await breakerOf(kit)).toMatchObject({
      status: 'open',
      probe: { isDeclared: true, last: { passed: false, said: 'Error: connection refused' } },
    })
    gateway.isDown = false
    await kit.drain()
    expect(gateway.calls).toBe(24)
    expect(probes.filter(Boolean)).toHaveLength(2)
  })

  test('a probe that does not answer has failed when its time is over, and is told to stop', async () => {
    const { kit, gateway, submit } = withGateway({ cooldown: '10s' })
    let reason: unknown
    kit.app.dependency('gateway', {
      timeout: '3s',
      probe: ({ signal }) =>
        new Promise(() =>
          signal.addEventListener('abort', () => {
            reason = signal.reason
          }),
        ),
    })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    await kit.advance('14s')
    expect(reason).toBeInstanceOf(Error)
    expect((await breakerOf(kit)).probe.last).toMatchObject({ passed: false, said: 'no answer within 3000 ms' })
  })

  test('a person can run the probe now and gets its result', async () => {
    const { kit, gateway, submit } = withGateway({ probesToClose: 1 })
    kit.app.dependency('gateway', { probe: () => undefined })
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    gateway.isDown = false
    const by = { name: 'gateway', actor: 'ann', reason: 'it is back' }
    expect(await kit.app.perform('breakers.probe', by)).toMatchObject({
      isDone: true,
      did: 'The health probe of gateway passed.',
      breaker: { status: 'closed' },
    })
  })

  const probe = (): void => undefined
  test.each([
    ['a name with blanks', 'my gateway', { probe }],
    ['no probe', 'gateway', {}],
    ['no time between probes', 'gateway', { probe, every: 0 }],
    ['a duration that is none', 'gateway', { probe, timeout: 'soon' }],
  ])('are refused with %s', (_what, name, options) => {
    const { kit } = withGateway()
    expect(() => kit.app.dependency(name, options as never)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
  })
})

describe('what a person can do', () => {
  const BY = { name: 'gateway', actor: 'ann', reason: 'maintenance' }

  test('force it open for a time, which is shown apart from what was computed', async () => {
    const { kit, gateway, submit } = withGateway()
    await kit.tick()
    const dry = await kit.app.perform('breakers.open', { ...BY, for: '10m', dryRun: true })
    expect(dry).toMatchObject({ isDone: false, breaker: { forced: null } })
    await kit.app.perform('breakers.open', { ...BY, for: '10m' })
    expect(await breakerOf(kit)).toMatchObject({
      status: 'open',
      computed: { status: 'closed' },
      forced: { status: 'open', actor: 'ann', reason: 'maintenance' },
    })
    const [{ id } = { id: '' }] = await submit(1)
    await kit.advance('9m')
    expect(gateway.calls).toBe(0)
    expect((await kit.app.jobs.find(id))?.held[0]?.why).toBe('forced open by ann: maintenance; ends in 1 m')
    await kit.drain()
    expect(gateway.calls).toBe(1)
    expect((await breakerOf(kit)).forced).toBeNull()
  })

  test('force it closed, and end that again', async () => {
    const { kit, gateway, submit } = withGateway()
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    await kit.app.perform('breakers.close', BY)
    await submit(3)
    await kit.tick()
    expect(gateway.calls).toBe(7)
    expect(await kit.app.perform('breakers.release', BY)).toMatchObject({
      isDone: true,
      breaker: { status: 'open', forced: null },
    })
    expect(await kit.app.perform('breakers.release', BY)).toMatchObject({ isDone: false })
  })

  test('have jobs tried at once where there is no probe', async () => {
    const { kit, gateway, submit } = withGateway()
    gateway.isDown = true
    await submit(4)
    await kit.tick()
    await kit.tick()
    await submit(3)
    const answer = await kit.app.perform('breakers.probe', BY)
    expect(answer.did).toBe('Breaker gateway no longer waits: workers try jobs now.')
    await kit.tick()
    expect(gateway.calls).toBe(5)
  })

  test('only with a name and a reason, and only to a breaker that is there', async () => {
    const { kit } = withGateway()
    const refused = (code: string) => expect.objectContaining({ code })
    for (const name of ['breakers.open', 'breakers.close', 'breakers.release', 'breakers.probe'] as const) {
      await expect(kit.app.perform(name, { ...BY, reason: ' ' })).rejects.toEqual(refused('REASON_REQUIRED'))
      await expect(kit.app.perform(name, { ...BY, actor: '' })).rejects.toEqual(refused('REASON_REQUIRED'))
      await expect(kit.app.perform(name, { ...BY, name: 'x' })).rejects.toEqual(refused('BREAKER_NOT_FOUND'))
    }
    await expect(kit.app.perform('breakers.open', { ...BY, for: 'soon' })).rejects.toEqual(refused('OPTION_INVALID'))
    await kit.app.perform('breakers.open', BY)
    await expect(kit.app.perform('breakers.probe', BY)).rejects.toEqual(refused('BREAKER_FORCED'))
  })
})

test('two job types share the breaker of one dependency', async () => {
  const { kit, gateway, submit } = withGateway()
  let uploads = 0
  kit.app.job('upload', {
    policy: { breaker: { guards: 'gateway', minCalls: 4, windowCalls: 8 } },
    run: () => ++uploads,
  })
  gateway.isDown = true
  await submit(4)
  await kit.tick()
  await kit.tick()
  await kit.app.submitMany('upload', [{}, {}])
  await kit.advance('10s')
  expect(uploads).toBe(0)
  expect((await breakerOf(kit)).types.map(({ name }) => name)).toEqual(['convert', 'upload'])
})

test('each change is a line in the log, with the state', async () => {
  const log = keepingLog()
  const { kit, gateway, submit } = withGateway({ probesToClose: 1 }, {}, { log })
  await kit.tick()
  gateway.isDown = true
  await submit(4)
  await kit.tick()
  gateway.isDown = false
  await submit(1)
  await kit.advance('31s')
  await kit.app.perform('breakers.open', { name: 'gateway', actor: 'ann', reason: 'a test' })
  await kit.tick()
  const lines = log.lines.filter(({ fields }) => fields.breaker === 'gateway')
  expect(lines.map(({ fields, level }) => [fields.event, fields.state, level])).toEqual([
    ['breaker.opened', 'open', 'warn'],
    ['breaker.half-open', 'half-open', 'warn'],
    ['breaker.closed', 'closed', 'warn'],
    ['breaker.forced', 'open', 'warn'],
  ])
  expect(lines[0]?.message).toBe('breaker gateway opened: 100 % of the last 4 calls failed')
})

test('counting costs no write of its own for each call', async () => {
  let reports = 0
  let calls = 0
  const counting = (store: Store): Store => ({
    ...store,
    countCalls: (params) => {
      reports++
      return store.countCalls(params)
    },
  })
  const scene = new Scene()
  onTestFinished(() => scene.end())
  const app = scene.newApp({ store: counting(scene.store) })
  app.job('convert', { policy: { breaker: { guards: 'gateway' }, orphan: 'requeue' }, run: () => void calls++ })
  const worker = await scene.worker({}, app)
  for (let i = 0; i < 10; i++) {
    await app.submitMany('convert', Array(100).fill({}))
    await scene.clock.advance(100)
    await worker.tick()
    await worker.tick()
  }
  expect(calls).toBe(1_000)
  expect(reports).toBeLessThanOrEqual(5)
  await scene.pass(300)
  expect((await scene.store.breakers())[0]?.window).toEqual({ calls: 20, failed: 0 })
})

test('a worker without breakers asks for none', async () => {
  const asked: string[] = []
  const scene = new Scene()
  onTestFinished(() => scene.end())
  const watched = Object.fromEntries(
    Object.entries(scene.store).map(([name, method]) => [
      name,
      typeof method !== 'function'
        ? method
        : (...args: unknown[]) => {
            asked.push(name)
            return (method as (...all: unknown[]) => unknown)(...args)
          },
    ]),
  ) as unknown as Store
  const app = scene.newApp({ store: watched })
  app.job('plain', { run: () => undefined })
  const worker = await scene.worker({}, app)
  await app.submitMany('plain', Array(20).fill({}))
  await worker.tick()
  await worker.runDuties()
  expect(asked.filter((name) => /breaker|standings|countCalls|probe/i.test(name))).toEqual([])
})
