import { expect, onTestFinished, test } from 'vitest'
import { exponential, failures, type PolicyInput, rule } from '../../src/index.ts'
import { type TestKit, testKit } from '../../src/testing/kit.ts'
import { keepingLog } from '../support/scene.ts'

/** The converter of the PDF to XML documents: a gateway that answers, refuses, fails or hangs. */
const codes = failures({
  GW_4XX: { fault: 'caller', retry: 'never', message: 'Couldn’t convert this file with the selected mapping.' },
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'Converter service kept failing. Retry later.' },
  GW_TIMEOUT: { fault: 'dependency', retry: 'transient', message: 'Converter service did not answer. Retry later.' },
})

type Answer = 'ok' | 'GW_4XX' | 'GW_5XX' | 'hang'

function converter(breaker: Partial<NonNullable<PolicyInput['breaker']>> = {}) {
  const log = keepingLog()
  const kit = testKit({ log })
  onTestFinished(() => kit.stop())
  const gateway = { answer: 'ok' as Answer, calls: 0 }
  const convert = kit.app.job('pdf.convert', {
    codes,
    classify: [rule.timeout('GW_TIMEOUT')],
    policy: {
      retry: { max: 3, backoff: exponential('5s', { jitter: '5s' }) },
      orphan: 'requeue',
      timeout: { attempt: '20s' },
      breaker: { guards: 'gateway', window: '2m', ...breaker },
    },
    run: (_input, attempt) => {
      gateway.calls++
      if (gateway.answer === 'hang') return new Promise(() => undefined)
      return gateway.answer === 'ok' ? '<xml/>' : attempt.fail(gateway.answer)
    },
  })
  const submit = async (count: number) => (await convert.submitMany(Array(count).fill({}))).map(({ id }) => id)
  return { kit, gateway, submit, log }
}

async function standing(kit: TestKit) {
  const [breaker] = (await kit.app.perform('breakers.list', {})).breakers
  if (breaker === undefined) throw new Error('there is no breaker')
  return breaker
}

/** Twenty calls of which so many fail. */
async function twentyCalls({ kit, gateway, submit }: ReturnType<typeof converter>, failing: number): Promise<void> {
  gateway.answer = 'ok'
  await submit(20 - failing)
  await kit.tick()
  gateway.answer = 'GW_5XX'
  await submit(failing)
  for (let i = 0; i < 4; i++) await kit.tick()
}

test('D19 E11 half of the last twenty calls failed: dispatch pauses, and jobs stay queued', async () => {
  const world = converter()
  await twentyCalls(world, 10)
  const { kit, gateway, submit } = world
  expect(await standing(kit)).toMatchObject({
    status: 'open',
    computed: { reason: '50 % of the last 20 calls failed' },
  })
  const { calls } = gateway
  const [id = ''] = await submit(1)
  await kit.advance('20s')
  expect(gateway.calls).toBe(calls)
  expect(await kit.app.find(id)).toMatchObject({
    status: 'queued',
    attemptCount: 0,
    retryCount: 0,
    held: [
      {
        by: 'breaker',
        name: 'gateway',
        why: expect.stringMatching(/^50 % of the last 20 calls failed; tries again in/),
      },
    ],
  })
})

test('D19 E11 less than half does not pause it', async () => {
  const world = converter()
  await twentyCalls(world, 9)
  await world.kit.advance('1s')
  expect(await standing(world.kit)).toMatchObject({ status: 'closed', window: { calls: 20, failed: 9 } })
})

test('D19 timeouts of the gateway count like its errors', async () => {
  const { kit, gateway, submit } = converter()
  gateway.answer = 'hang'
  await submit(10)
  await kit.advance('21s')
  expect((await standing(kit)).computed).toMatchObject({ status: 'open', reason: '100 % of the last 10 calls failed' })
})

test('D19 files that the gateway does not take never pause it', async () => {
  const { kit, gateway, submit } = converter()
  gateway.answer = 'GW_4XX'
  await submit(100)
  await kit.advance('10s')
  expect(await standing(kit)).toMatchObject({ status: 'closed', window: { calls: 0 } })
})

test('D19 calls of more than two minutes ago no longer count', async () => {
  const world = converter({ window: '2m' })
  const { kit, gateway, submit } = world
  gateway.answer = 'GW_5XX'
  await submit(9)
  await kit.tick()
  gateway.answer = 'ok'
  await kit.advance('3m')
  gateway.answer = 'GW_5XX'
  await submit(1)
  await kit.tick()
  await kit.tick()
  expect((await standing(kit)).status).toBe('closed')
})

test('D20 in fail-fast mode new dispatches fail with GW_5XX, without a call', async () => {
  const world = converter({ mode: 'fail-fast', code: 'GW_5XX' })
  await twentyCalls(world, 10)
  const { kit, gateway, submit } = world
  const { calls } = gateway
  const [id = ''] = await submit(1)
  await kit.tick()
  expect(gateway.calls).toBe(calls)
  expect(await kit.app.find(id)).toMatchObject({ status: 'failed', errorCode: 'GW_5XX' })
  expect(await kit.app.failures(id)).toMatchObject([{ stage: 'dispatch', owner: 'coordination', attempt: 1 }])
})

test('D21 E3 a health probe flips it back, and what was queued resumes by itself', async () => {
  const world = converter({ probesToClose: 1 })
  const { kit, gateway, submit } = world
  kit.app.dependency('gateway', {
    probe: () => {
      if (gateway.answer !== 'ok') throw new Error('503 Service Unavailable')
    },
  })
  await twentyCalls(world, 10)
  const waiting = await submit(30)
  await kit.advance('2m')
  expect((await standing(kit)).status).toBe('open')
  gateway.answer = 'ok'
  await kit.advance('10s')
  const events = await (await kit.app.store()).breakerEvents({ name: 'gateway', afterSeq: 0, limit: 10 })
  expect(
    events.map(({ kind }) => kind),
    'there is no half-open in between',
  ).toEqual(['opened', 'closed'])
  await kit.drain()
  for (const id of waiting) expect((await kit.app.find(id))?.status).toBe('complete')
})

test('E3 without a health probe single jobs are tried, one after the other', async () => {
  const world = converter()
  await twentyCalls(world, 10)
  const { kit, gateway, submit } = world
  const waiting = await submit(30)
  const { calls } = gateway
  await kit.advance('31s')
  expect(gateway.calls).toBe(calls + 1)
  gateway.answer = 'ok'
  await kit.drain()
  for (const id of waiting) expect((await kit.app.find(id))?.status).toBe('complete')
})

test('E11 its state is in the log and in its history', async () => {
  const world = converter()
  await world.kit.tick()
  await twentyCalls(world, 10)
  const said = world.log.lines.filter(({ fields }) => fields.breaker === 'gateway')
  expect(said.map(({ fields, level }) => ({ level, state: fields.state }))).toEqual([{ level: 'warn', state: 'open' }])
  const events = await (await world.kit.app.store()).breakerEvents({ name: 'gateway', afterSeq: 0, limit: 10 })
  expect(events).toMatchObject([{ kind: 'opened', data: { reason: '50 % of the last 20 calls failed' } }])
})

test('E12 successes for a short time close it; one failure among them does not', async () => {
  const world = converter({ probesToClose: 3 })
  const { kit, gateway } = world
  const answers: boolean[] = []
  kit.app.dependency('gateway', {
    every: '5s',
    probe: () => {
      const isWell = answers.shift() ?? false
      if (!isWell) throw new Error('503')
    },
  })
  await twentyCalls(world, 10)
  gateway.answer = 'ok'
  answers.push(true, true, false, true, true)
  await kit.advance('54s')
  expect(answers).toEqual([])
  expect((await standing(kit)).computed).toMatchObject({ status: 'half-open', passed: 2 })
  answers.push(true)
  await kit.advance('5s')
  expect((await standing(kit)).status).toBe('closed')
})

test('E13 whoever shows a banner is told that it is open, since when, and how many jobs wait', async () => {
  const world = converter()
  await twentyCalls(world, 10)
  await world.submit(7)
  const { status, heldJobs, computed, nextChangeAt } = await standing(world.kit)
  expect({ status, heldJobs }).toEqual({ status: 'open', heldJobs: 7 })
  expect(Date.parse(nextChangeAt ?? '') - Date.parse(computed.since)).toBe(30_000)
})
