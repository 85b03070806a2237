import { afterEach, expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { failureCodes, type JobContract, type JobType, jobType, redress, rule, typed } from '../../src/index.ts'
import { testKit } from '../../src/testing/index.ts'
import { refusal } from '../operations/bench.ts'

const codes = failureCodes({ TOO_DARK: { fault: 'caller', retry: 'never', message: 'The picture is too dark.' } })

const develop = jobType('develop', {
  input: z.object({ file: z.string(), at: z.string().transform((text) => new Date(text)) }),
  output: z.object({ pages: z.number(), mood: z.string().default('calm') }),
  codes,
  queue: 'photos',
  policy: { retry: { max: 2 } },
  limitKey: ({ file }) => file,
})

const kits: { stop(): Promise<void> }[] = []
afterEach(() => Promise.all(kits.splice(0).map((kit) => kit.stop())))

function kit() {
  const made = testKit()
  kits.push(made)
  return made
}

test('a job type that is declared without an app keeps its types and cannot be changed', () => {
  type Kept = { pages: number; mood: string }
  type Parsed = { file: string; at: Date }
  type Returned = { pages: number; mood?: string | undefined }
  expectTypeOf(develop).toEqualTypeOf<JobContract<{ file: string; at: string }, Kept, 'TOO_DARK', Parsed, Returned>>()
  expect(Object.isFrozen(develop)).toBe(true)
  expect(develop).toMatchObject({ name: 'develop', queue: 'photos', policy: { retry: { max: 2 } } })
})

test('a producer submits with the types, the schema, the limit key and the policy, without handler code', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const bound = app.job(develop)
  expectTypeOf(bound).toEqualTypeOf<
    JobType<{ file: string; at: string }, { pages: number; mood: string }, 'TOO_DARK'>
  >()
  // @ts-expect-error the field is misspelt
  const refused = await refusal(bound.submit({ fil: 'a.jpg', at: '2026-01-01' }))
  expect(refused).toMatchObject({ code: 'INPUT_INVALID', problems: [expect.stringContaining('file')] })
  const { id } = await bound.submit({ file: 'a.jpg', at: '2026-01-01' })
  const store = await app.store()
  expect(await store.job({ id })).toMatchObject({ status: 'queued', queue: 'photos', limitKey: 'a.jpg' })
  expect((await store.types()).map(({ name, policy }) => [name, policy.retry.max])).toEqual([['develop', 2]])
  expect(app.describe('develop')?.codes).toHaveProperty('TOO_DARK')
  await app.stop()
})

test('the workers of a producer do not claim its jobs', async () => {
  const { app, tick } = bind(kit())
  const bound = app.job(develop)
  app.job('other', { run: () => 1 })
  const { id } = await bound.submit({ file: 'a.jpg', at: '2026-01-01' })
  const other = await app.submit('other', {})
  await tick()
  expect((await app.jobs.find(other.id))?.status).toBe('complete')
  expect((await app.jobs.find(id))?.status).toBe('queued')
  expect(await (await app.store()).workers()).toMatchObject([{ types: ['other'] }])
})

test('declaring the same job type again gives the same object, also after it was implemented', () => {
  const app = redress({ store: 'sqlite::memory:' })
  const bound = app.job(develop)
  expect(app.job(develop)).toBe(bound)
  expect(app.job(develop, { run: () => ({ pages: 1 }) })).toBe(bound)
  expect(app.job(develop)).toBe(bound)
  expect(app.types).toEqual(['develop'])
})

test('a job type can be bound to several apps', () => {
  const [one, other] = [redress({ store: 'sqlite::memory:' }), redress({ store: 'sqlite::memory:' })]
  expect(one.job(develop)).not.toBe(other.job(develop))
})

test('a handler gets what the input schema makes, and what the output schema makes is stored', async () => {
  const { app, drain } = bind(kit())
  const bound = app.job(develop, {
    run: ({ at }, attempt) => {
      expectTypeOf(at).toEqualTypeOf<Date>()
      expectTypeOf(attempt.fail).toBeCallableWith('TOO_DARK')
      // @ts-expect-error no such code
      expectTypeOf(attempt.fail).toBeCallableWith('TO_DARK')
      return { pages: at.getUTCFullYear(), secret: 'not declared, so not stored' }
    },
    verify: (output) => expectTypeOf(output).toEqualTypeOf<{ pages: number; mood?: string | undefined }>(),
  })
  const { id } = await bound.submit({ file: 'a.jpg', at: '2026-01-01' })
  await drain()
  expect((await app.jobs.find(id))?.result).toEqual({ pages: 2026, mood: 'calm' })
})

test('a handler whose output lacks a field of the declared output does not compile', () => {
  const app = redress({ store: 'sqlite::memory:' })
  const output = z.object({ pages: z.number(), words: z.number() })
  const contract = jobType('incomplete', { output })
  // @ts-expect-error words is missing
  app.job(contract, { run: () => ({ pages: 7 }) })
  // @ts-expect-error words is missing
  app.job('incomplete.async', { output, run: async () => ({ pages: 7 }) })
  // @ts-expect-error words is missing
  app.job('incomplete.verified', { output, verify: () => null, run: (_: unknown) => ({ pages: 7 }) })
  expect(app.types).toEqual(['incomplete', 'incomplete.async', 'incomplete.verified'])
})

test('a handler whose output the declaration does not allow does not compile', () => {
  const app = redress({ store: 'sqlite::memory:' })
  app.job(develop, {
    // @ts-expect-error pages is a number
    run: () => ({ pages: 'many' }),
  })
  const inOnePiece = redress({ store: 'sqlite::memory:' }).job('develop', {
    output: typed<{ pages: number }>(),
    // @ts-expect-error pages is a number
    run: (_input: { file: string }) => ({ pages: 'many' }),
  })
  expect(inOnePiece.name).toBe('develop')
})

test.each([
  ['at once', z.object({ pages: z.number() })],
  ['later', z.object({ pages: z.number() }).refine(async () => true)],
])('an output that does not fit its schema fails the attempt, if the schema answers %s', async (_when, output) => {
  const { app, drain } = bind(kit())
  const convert = app.job('convert', { output, run: () => ({ pages: 'seven' }) as never })
  const { id } = await convert.submit({})
  await drain()
  expect(await app.jobs.find(id)).toMatchObject({
    status: 'failed',
    errorCode: 'OUTPUT_INVALID',
    attemptCount: 1,
    result: null,
  })
  const [failure] = (await app.jobs.failures(id)).failures
  expect(failure).toMatchObject({
    phase: 'verification',
    fault: 'code',
    detail: expect.stringMatching(/^the output does not fit convert\npages: /),
    context: { problems: [expect.stringMatching(/^pages: /)] },
  })
})

test('an output is checked after verify, and verify gets it as the handler returned it', async () => {
  const { app, drain } = bind(kit())
  const seen: unknown[] = []
  const convert = app.job('convert', {
    output: z.object({ pages: z.number() }),
    run: () => ({ pages: 1, more: 2 }),
    verify: (output) => {
      seen.push(output)
      if (output.pages < 2) throw new Error('too short')
    },
  })
  const { id } = await convert.submit({})
  await drain()
  expect(seen).toEqual([{ pages: 1, more: 2 }])
  expect((await app.jobs.find(id))?.errorCode).toBe('VERIFICATION_FAILED')
})

test('an author can have an output that does not fit retried', async () => {
  const { app, drain } = bind(kit())
  let calls = 0
  const ask = app.job('ask', {
    output: z.object({ answer: z.number() }),
    codes: failureCodes({ OUTPUT_INVALID: { fault: 'dependency', retry: 'transient', message: 'Not JSON.' } }),
    policy: { retry: { max: 3 } },
    run: () => (++calls === 1 ? ('forty-two' as never) : { answer: 42 }),
  })
  const { id } = await ask.submit({})
  await drain()
  expect(await app.jobs.find(id)).toMatchObject({ status: 'complete', result: { answer: 42 }, attemptCount: 2 })
})

test('typed() gives types without a schema library and accepts everything', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const greet = app.job(
    jobType('greet', { input: typed<{ name: string }>(), output: typed<{ at: Date; text: string }>() }),
  )
  expectTypeOf(greet).toEqualTypeOf<JobType<{ name: string }, { at: string; text: string }, never>>()
  expect(await greet.submit(7 as never)).toMatchObject({ isNew: true })
  await app.stop()
})

test('the rules of an implementation are asked before those of the declaration', async () => {
  const { app, drain } = bind(kit())
  const both = failureCodes({
    SLOW: { fault: 'dependency', retry: 'never', message: 'Slow.' },
    SLOW_HERE: { fault: 'dependency', retry: 'never', message: 'Slow here.' },
    FULL: { fault: 'system', retry: 'never', message: 'Full.' },
  })
  const fetch = jobType('fetch', {
    codes: both,
    input: typed<string>(),
    classify: [rule.errno('ETIMEDOUT', 'SLOW'), rule.errno('ENOSPC', 'FULL')],
  })
  const bound = app.job(fetch, {
    classify: [rule.errno('ETIMEDOUT', 'SLOW_HERE')],
    run: (errno) => {
      throw Object.assign(new Error(errno), { code: errno })
    },
  })
  const [slow, full] = await bound.submitMany(['ETIMEDOUT', 'ENOSPC'])
  await drain()
  expect((await app.jobs.find(String(slow?.id)))?.errorCode).toBe('SLOW_HERE')
  expect((await app.jobs.find(String(full?.id)))?.errorCode).toBe('FULL')
})

test('a refused submission of a producer is classified by the rules of the declaration', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const recorded = app.job(jobType('recorded', { input: z.object({ n: z.number() }), policy: { reject: 'record' } }))
  const { id, status } = await recorded.submit({ n: 'one' } as never)
  expect(status).toBe('failed')
  expect((await app.jobs.find(id))?.errorCode).toBe('INPUT_INVALID')
  await app.stop()
})

const REFUSED: [string, () => unknown, object][] = [
  [
    'no name',
    () => jobType('', {}),
    { code: 'OPTION_INVALID', message: expect.stringContaining('name for a job type') },
  ],
  [
    'an option that does not exist',
    () => jobType('one', { inputs: z.string() } as never),
    { code: 'OPTION_INVALID', message: 'jobType("one") has no option "inputs".', action: 'Did you mean "input"?' },
  ],
  [
    'a handler',
    () => jobType('one', { run: () => 1 } as never),
    { code: 'OPTION_INVALID', message: 'jobType("one") has no option "run".' },
  ],
  [
    'an output that is not a schema',
    () => jobType('one', { output: { pages: 'number' } } as never),
    { code: 'OPTION_INVALID', message: expect.stringMatching(/^The job type one cannot be declared\. output must be/) },
  ],
  ['an invalid policy', () => jobType('one', { policy: { lease: 1 } } as never), { code: 'POLICY_INVALID' }],
  [
    'an unknown code for owners',
    () => jobType('one', { codes, ownersSee: 'TO_DARK' as never }),
    { code: 'TAXONOMY_INVALID', message: expect.stringContaining('TO_DARK') },
  ],
]

test.each(REFUSED)('a declaration with %s is refused', (_what, declare, error) => {
  expect(declare).toThrow(expect.objectContaining(error))
})

test('a job type is implemented once, and a refused implementation changes nothing', () => {
  const app = redress({ store: 'sqlite::memory:' })
  const run = () => ({ pages: 1 })
  const one = jobType('one', { codes })
  const implement = (implementation: unknown) => () => app.job(one, implementation as never)
  expect(implement({ policy: {}, run })).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining('belongs to its jobType()') }),
  )
  expect(implement({ rum: run, run })).toThrow(expect.objectContaining({ action: 'Did you mean "run"?' }))
  expect(implement({})).toThrow(expect.objectContaining({ message: expect.stringContaining('has no `run`') }))
  expect(implement({ run, classify: [rule.timeout('NO_SUCH')] })).toThrow(
    expect.objectContaining({ code: 'RULE_INVALID' }),
  )
  expect(app.types).toEqual([])
  app.job(one)
  implement({ run })()
  expect(implement({ run })).toThrow(
    expect.objectContaining({ code: 'TYPE_DECLARED_TWICE', message: expect.stringContaining('implemented already') }),
  )
  expect(() => app.job('one', { run })).toThrow(expect.objectContaining({ code: 'TYPE_DECLARED_TWICE' }))
  expect(() => app.job(jobType('one'))).toThrow(expect.objectContaining({ code: 'TYPE_DECLARED_TWICE' }))
})

test('only a name or a declaration is taken as a job type', () => {
  const app = redress({ store: 'sqlite::memory:' })
  for (const wrong of [{ name: 'one' }, null, undefined, 7]) {
    expect(() => app.job(wrong as never, { run: () => 1 })).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining('jobType()') }),
    )
  }
  expect(() => app.job('one', { run: () => 1, concurency: 3 } as never)).toThrow(
    expect.objectContaining({ code: 'OPTION_INVALID', message: 'The job type one has no option "concurency".' }),
  )
})

function bind(made: ReturnType<typeof testKit>) {
  return { app: made.app, tick: () => made.tick(), drain: () => made.drain() }
}
