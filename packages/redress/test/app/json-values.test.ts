import { expect, test } from 'vitest'
import { z } from 'zod'
import { type Attempt, RedressError } from '../../src/index.ts'
import { testKit } from '../../src/testing/index.ts'

const refusalOf = (call: Promise<unknown>): Promise<RedressError> =>
  call.then(
    () => Promise.reject(new Error('it was not refused')),
    (error: unknown) => {
      expect(error).toBeInstanceOf(RedressError)
      return error as RedressError
    },
  )

test('an input that JSON would change is refused with its path, and nothing is stored', async () => {
  await using kit = testKit()
  const job = kit.app.job('convert', { run: () => null })
  const refusal = await refusalOf(job.submit({ pages: [{ size: 1 }, { size: Number.NaN }] }))
  expect(refusal).toMatchObject({
    code: 'PAYLOAD_NOT_JSON',
    message: 'The input of convert cannot be kept as JSON: pages[1].size is NaN.',
  })
  const many = await refusalOf(job.submitMany([{ n: 1 }, { n: new Map() }]))
  expect(many.message).toContain(
    'Input 1 (counted from 0) of 2: The input of convert cannot be kept as JSON: n is a Map.',
  )
  expect((await refusalOf(kit.app.submit('elsewhere', { f: () => 1 }))).message).toContain('f is a function')
  expect((await refusalOf(job.prepare({ n: 1n }))).message).toContain('n is a BigInt')
  expect((await refusalOf(kit.app.batches.create('b', { data: { s: new Set() } }))).message).toContain('s is a Set')
  expect(
    (await refusalOf(kit.app.notify('k', { channels: ['c'], subject: 's', data: [undefined] }))).message,
  ).toContain('[0] is undefined')
  expect(await (await kit.app.store()).jobs({ limit: 10 })).toEqual([])
})

test('a Date is accepted where the schema of the type reads it back as an equal Date', async () => {
  await using kit = testKit()
  const seen: Date[] = []
  const job = kit.app.job('remind', {
    input: z.object({ at: z.coerce.date(), also: z.array(z.coerce.date()) }),
    run: ({ at, also }) => void seen.push(at, ...also),
  })
  const at = new Date('2026-01-02T03:04:05.678Z')
  await job.submit({ at, also: [at] })
  await kit.drain()
  expect(seen).toEqual([at, at])
})

test.each([
  ['no schema', undefined],
  ['a schema that takes text', z.object({ at: z.any() })],
  [
    'a schema that changes the time',
    z.object({ at: z.coerce.date().transform((date) => new Date(date.getTime() + 1)) }),
  ],
])('a Date is refused with its path and advice by a type with %s', async (_, input) => {
  await using kit = testKit()
  const job = kit.app.job('remind', {
    ...(input !== undefined && { input }),
    policy: { reject: 'record' },
    run: () => null,
  })
  const refusal = await refusalOf(job.submit({ at: new Date(0) } as never))
  expect(refusal).toMatchObject({
    code: 'PAYLOAD_NOT_JSON',
    message: 'The input of remind cannot be kept as JSON: at is a Date.',
    action: expect.stringContaining('date.toISOString()'),
  })
  expect(await (await kit.app.store()).jobs({ limit: 10 })).toEqual([])
})

test('a Date for a type of another program is refused, because its schema is not known here', async () => {
  await using kit = testKit()
  const refusal = await refusalOf(kit.app.submit('elsewhere', { at: new Date(0) }))
  expect(refusal.message).toBe('The input of elsewhere cannot be kept as JSON: at is a Date.')
})

test.each<[string, unknown, string]>([
  ['is not JSON', { pages: [{ size: Number.NaN }] }, 'it is not JSON: pages[0].size is NaN.'],
  [
    'is too large',
    { id: 1, text: 'a'.repeat(2 ** 20) },
    'it has 1048594 bytes as JSON; at most 1048576 are kept; most of them are in text',
  ],
])('a result that %s fails the job with its path, its size and that the handler finished', async (_, result, said) => {
  await using kit = testKit()
  let runs = 0
  const job = kit.app.job('convert', {
    policy: { retry: { max: 5 } },
    run: (_input: unknown, _attempt: Attempt) => {
      runs++
      return result
    },
  })
  const { id } = await job.submit({})
  await kit.drain()
  const { failures } = await kit.app.jobs.failures(id)
  expect(runs).toBe(1)
  expect(failures).toHaveLength(1)
  expect(failures[0]).toMatchObject({
    code: 'RESULT_INVALID',
    detail: expect.stringContaining(`The handler finished; its result could not be kept: ${said}`),
  })
})
