import { expect, test } from 'vitest'
import { redress } from '../../src/index.ts'
import { makeBench, refusal } from './bench.ts'

test('types are listed with their policies, and an unknown type is refused with the known ones', async () => {
  const { app } = await makeBench({ retry: { max: 3 } })
  const { types } = await app.perform('types.list', {})
  expect(types).toMatchObject([{ name: 'step', queue: 'default', policy: { retry: { max: 3 } } }])
  expect(await app.perform('policy.show', { type: 'step' })).toMatchObject({ policy: { retry: { max: 3 } } })
  const refused = await refusal(app.perform('policy.show', { type: 'stop' }))
  expect(refused).toMatchObject({ code: 'TYPE_UNKNOWN', message: expect.stringContaining('known types: step') })
})

test('a preview repeats one failure until the job ends', async () => {
  const { app } = await makeBench({ retry: { max: 2, backoff: { exponential: '5s', jitter: '5s' } } })
  const shown = await app.perform('policy.preview', { type: 'step' })
  expect(shown).toMatchObject({ type: 'step', outcomes: ['GW_5XX', 'GW_5XX'], isCodesKnown: true })
  expect(shown.steps).toMatchObject([
    { atMs: 0, attempt: 1, outcome: 'GW_5XX', status: 'queued', nextAtMs: 7_500, note: null },
    { atMs: 7_500, attempt: 2, status: 'failed', reasons: { rule: 'retry.max' }, nextAtMs: null },
  ])
  expect(shown.text).toContain('Ends failed after 2 attempts.')
  expect(shown.text).not.toContain('Not reached')
})

test('a preview lists the codes of the type with their retry classes', async () => {
  const { app } = await makeBench()
  const { codes } = await app.perform('policy.preview', { type: 'step' })
  expect(codes).toEqual([
    { code: 'GW_5XX', fault: 'dependency', retry: 'transient', message: 'It kept failing.' },
    { code: 'GW_4XX', fault: 'caller', retry: 'never', message: 'It does not take this.' },
    { code: 'REFUSED', fault: 'caller', retry: 'never', message: 'It was refused.' },
  ])
})

test('a preview uses the given outcomes, and a seed reproduces the jitter', async () => {
  const { app } = await makeBench({ retry: { max: 5, backoff: { exponential: '5s', jitter: '5s' } } })
  const preview = (seed?: number) =>
    app.perform('policy.preview', { type: 'step', failures: 'GW_5XX, TIMEOUT,ok,ok', ...(seed && { seed }) })
  const [middle, first, again, other] = [await preview(), await preview(7), await preview(7), await preview(8)]
  expect(middle.steps.map(({ outcome, status }) => [outcome, status])).toEqual([
    ['GW_5XX', 'queued'],
    ['TIMEOUT', 'queued'],
    ['ok', 'complete'],
  ])
  expect(middle.text).toContain('Not reached: ok.')
  expect(first).toEqual(again)
  expect(first.steps).not.toEqual(other.steps)
  expect(first.steps).not.toEqual(middle.steps)
})

test('a preview stops after a hundred attempts', async () => {
  const { app } = await makeBench({ retry: { max: 1_000 } })
  const { steps, text } = await app.perform('policy.preview', { type: 'step' })
  expect(steps).toHaveLength(100)
  expect(text).toContain('Still queued: attempt 101')
})

test('for a type of another program only engine codes are accepted', async () => {
  const { store } = await makeBench({ retry: { max: 3, perCode: { GW_5XX: 2 }, unknown: 'transient' } })
  const other = redress({ store })
  const preview = (failures?: string) =>
    other.perform('policy.preview', { type: 'step', ...(failures !== undefined && { failures }) })
  expect(await preview()).toMatchObject({ codes: [], isCodesKnown: false, outcomes: ['unknown', 'unknown', 'unknown'] })
  const known = await preview('GW_5XX,TIMEOUT,crash')
  expect(known.steps[0]).toMatchObject({ status: 'queued', note: expect.stringContaining('taken as transient') })
  expect(await refusal(preview('GW_4XX'))).toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining('this program has not declared step'),
  })
})

test.each([
  ['GW_5X', 'the nearest is GW_5XX'],
  [' , ', 'the list is empty'],
  [Array(101).fill('ok').join(), 'at most 100'],
])('refuses invalid outcomes: %s', async (failures, message) => {
  const { app } = await makeBench()
  const refused = await refusal(app.perform('policy.preview', { type: 'step', failures }))
  expect(refused).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(message) })
})

test('a preview of an unknown type is refused', async () => {
  const { app } = await makeBench()
  expect(await refusal(app.perform('policy.preview', { type: 'nothing' }))).toMatchObject({ code: 'TYPE_UNKNOWN' })
})
