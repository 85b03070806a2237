import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Outcome } from '../../src/core/rollup.ts'
import { type BatchOutcome, failures, type PolicyInput, table } from '../../src/index.ts'
import { type TestKit, testKit } from '../../src/testing/index.ts'

/**
 * A campaign of the watermark service is a batch (DRAFT is before it is made, PROCESSING is `open`, READY is
 * `complete`), and so is a job of FetchBox, whose resources are the batch's jobs.
 */

const codes = failures({
  CORRUPT_SOURCE: { fault: 'caller', retry: 'never', message: 'The source cannot be read.' },
  ENCODER_KILLED: { fault: 'system', retry: 'transient', message: 'The encoder was killed.' },
})
const WHO = { actor: 'ann', reason: 'the source was repaired' }
const WATERMARK: PolicyInput = {
  retry: { max: 4, backoff: table(['1m', '5m', '15m']), unknown: 'transient' },
  manualRetry: 'in-place',
  rollup: 'partial',
}
const FETCH: PolicyInput = { retry: { max: 2 }, deadLetter: 'queue', rollup: 'any-permanent' }

type Token = 'ok' | 'corrupt' | 'killed' | 'corrupt until retried' | 'hang'

let kit: TestKit
let told: BatchOutcome[]

beforeEach(() => {
  kit = testKit()
  told = []
  for (const [name, policy] of Object.entries({ token: WATERMARK, resource: FETCH })) {
    kit.app.job(name, {
      codes,
      policy,
      run: (token: Token, attempt) => {
        if (token === 'corrupt' || (token === 'corrupt until retried' && attempt.number === 1)) {
          attempt.fail('CORRUPT_SOURCE')
        }
        if (token === 'killed') attempt.fail('ENCODER_KILLED')
        return token === 'hang' ? kit.sleep('10m') : undefined
      },
    })
  }
  kit.app.job('announce', { run: ({ batch }: { batch: BatchOutcome }) => void told.push(batch) })
})
afterEach(() => kit.stop())

async function campaign(tokens: readonly Token[], more: { expires?: string; type?: string } = {}) {
  const { type = 'token', expires } = more
  const batch = await kit.app.batches.create('spring', {
    jobs: tokens.map((input) => ({ type, input })),
    onSettled: { job: 'announce' },
    ...(expires !== undefined && { expires }),
  })
  return { id: batch.id, tokens: batch.jobs.map(({ id }) => id) }
}

async function shown(id: string) {
  const batch = await kit.app.batches.find(id)
  if (batch === null) throw new Error(`there is no batch ${id}`)
  return batch
}

const stateOf = async (id: string) => (await shown(id)).state

describe('W21-W25 a campaign is done when its tokens are', () => {
  test('W21 it is looked at after every token, and not because of jobs that are none of its own', async () => {
    const { id } = await campaign(['ok', 'hang'])
    await kit.app.submit('token', 'ok')
    await kit.tick()
    expect(await shown(id)).toMatchObject({ state: 'open', counts: { complete: 1, processing: 1 } })
    await kit.drain()
    expect(await stateOf(id)).toBe('complete')
  })

  test('W24 its states are those of the document, and one more for what was cancelled', async () => {
    const { id } = await campaign(['hang'], { expires: '1d' })
    expect(await stateOf(id)).toBe('open')
    const ends: Record<Outcome, Token[]> = {
      complete: ['ok'],
      partial: ['ok', 'corrupt'],
      failed: ['corrupt'],
      cancelled: ['ok'],
    }
    for (const [state, tokens] of Object.entries(ends)) {
      const made = await campaign(tokens)
      if (state === 'cancelled') await kit.app.batches.cancel(made.id, WHO)
      await kit.tick()
      expect(await stateOf(made.id)).toBe(state)
    }
    await kit.advance('1d')
    expect(await stateOf(id)).toBe('expired')
  })

  test('W25 while a token waits or runs nothing is said, a retry in a quarter of an hour included', async () => {
    const { id } = await campaign(['killed', 'ok'])
    await kit.advance('20m')
    expect(await shown(id)).toMatchObject({ state: 'open', counts: { queued: 1, complete: 1 } })
    expect(told).toEqual([])
    await kit.drain()
    expect(await stateOf(id)).toBe('partial')
  })

  test.each([
    [['ok', 'ok'], 'complete'],
    [['corrupt', 'corrupt'], 'failed'],
    [['ok', 'corrupt'], 'partial'],
  ] as [Token[], string][])('W25 of %j it comes to %s, and says so once', async (tokens, state) => {
    const { id } = await campaign(tokens)
    await kit.drain()
    expect(await stateOf(id)).toBe(state)
    expect(told).toMatchObject([{ id, state }])
  })
})

describe('W26, W27, W31 what becomes of it later', () => {
  test.each(['complete', 'partial', 'failed'])('W26 a %s campaign expires at its time', async (state) => {
    const tokens: Record<string, Token[]> = { complete: ['ok'], partial: ['ok', 'corrupt'], failed: ['corrupt'] }
    const { id } = await campaign(tokens[state] ?? [], { expires: '7d' })
    await kit.drain()
    await kit.advance(7 * 86_400_000 - 1)
    expect(await stateOf(id)).toBe(state)
    await kit.advance(1)
    expect(await stateOf(id)).toBe('expired')
  })

  test.each([
    ['partial', ['ok', 'corrupt until retried']],
    ['failed', ['corrupt until retried']],
  ] as [string, Token[]][])(
    'W26, W27, W31 a %s campaign works again after a retry, and is then READY',
    async (state, tokens) => {
      const { id, tokens: ids } = await campaign(tokens)
      await kit.drain()
      expect(await stateOf(id)).toBe(state)
      await kit.app.retry(String(ids.at(-1)), WHO)
      expect(await shown(id)).toMatchObject({ state: 'open', settledAt: null, counts: { failed: 0, queued: 1 } })
      await kit.drain()
      expect(await stateOf(id)).toBe('complete')
      expect(told.map((outcome) => outcome.state)).toEqual([state, 'complete'])
    },
  )

  test('W26 one that is expired is not brought back by a retry', async () => {
    const { id, tokens } = await campaign(['corrupt until retried'], { expires: '7d' })
    await kit.drain()
    await kit.advance('8d')
    await kit.app.retry(String(tokens[0]), WHO)
    await kit.drain()
    expect(await shown(id)).toMatchObject({ state: 'expired', counts: { complete: 1 } })
    expect(told).toHaveLength(1)
  })

  test('W26 one that still works at its expiry is settled first', async () => {
    const { id } = await campaign(['hang'], { expires: '5m' })
    await kit.advance('6m')
    expect(await stateOf(id)).toBe('open')
    await kit.drain()
    expect((await shown(id)).history.map(({ kind, data }) => [kind, data.state])).toEqual([
      ['settled', 'complete'],
      ['expired', 'expired'],
    ])
  })
})

test('W49 the counts are total, completed, failed, pending and running, and always sum', async () => {
  const { id } = await campaign(['ok', 'corrupt', 'killed', 'hang'])
  await kit.tick()
  const { counts } = await shown(id)
  expect(counts).toMatchObject({ total: 4, complete: 1, failed: 1, queued: 1, processing: 1, cancelled: 0 })
  await kit.drain()
  expect((await shown(id)).counts).toMatchObject({ total: 4, complete: 2, failed: 2, queued: 0, processing: 0 })
})

describe('F18, F19 a FetchBox job', () => {
  const fetch = (resources: Token[]) => campaign(resources, { type: 'resource' })

  test('F18 shows its last error and how many resources failed', async () => {
    const { id, tokens } = await fetch(['ok', 'corrupt'])
    await kit.drain()
    expect(await shown(id)).toMatchObject({
      counts: { failed: 1 },
      lastError: { jobId: tokens[1], code: 'CORRUPT_SOURCE', message: 'The source cannot be read.', attempt: 1 },
    })
  })

  test.each([
    ['all failed', ['killed', 'killed'], 'failed'],
    ['one failed for good', ['ok', 'corrupt'], 'failed'],
    ['one used up its attempts', ['ok', 'killed'], 'partial'],
    ['none failed', ['ok', 'ok'], 'complete'],
  ] as [string, Token[], string][])('F19 %s', async (_, resources, state) => {
    const { id } = await fetch(resources)
    await kit.drain()
    expect(await stateOf(id)).toBe(state)
  })

  test('F19 points to the dead letter of its last error', async () => {
    const { id } = await fetch(['corrupt'])
    await kit.drain()
    const { deadLetters } = await kit.app.perform('dead-letters.list', {})
    expect((await shown(id)).lastError?.deadLetterOffset).toBe(deadLetters[0]?.offset)
    expect(deadLetters).toHaveLength(1)
  })
})

test('P48 a job of a batch that fails touches no other', async () => {
  const alone = await kit.app.submit('token', 'ok')
  const { tokens } = await campaign(['corrupt', 'hang', 'killed', 'ok'])
  await kit.tick()
  const histories = await Promise.all([...tokens, alone.id].map((id) => kit.history(id)))
  expect(histories).toEqual([
    ['queued', 'processing', 'failed'],
    ['queued', 'processing', 'started'],
    ['queued', 'processing', 'retry'],
    ['queued', 'processing', 'complete'],
    ['queued', 'processing', 'complete'],
  ])
})
