import { expect, test, vi } from 'vitest'
import { z } from 'zod'
import { RedressError, redress } from '../../src/index.ts'
import { refusal } from '../operations/bench.ts'

test('an app that does not name its store takes it from the environment, as it was when the app was made', () => {
  vi.stubEnv('REDRESS_STORE', 'sqlite:/tmp/elsewhere.db')
  const app = redress()
  vi.unstubAllEnvs()
  expect(app.location).toBe('sqlite:/tmp/elsewhere.db')
  expect(redress().location).toBe('sqlite:.redress/redress.db')
  expect(redress({ store: 'sqlite::memory:' }).location).toBe('sqlite::memory:')
})

test('an app knows the types that were declared, and no others', () => {
  const app = redress({ store: 'sqlite::memory:' })
  app.job('one', { policy: { retry: { max: 2 } }, run: () => 1 })
  expect(app.describe('one')).toMatchObject({ policy: { retry: { max: 2 } }, codes: { UNKNOWN: expect.any(Object) } })
  expect(app.describe('two')).toBe(null)
})

test('a store that was busy when the app began is asked again', async () => {
  const store = await redress({ store: 'sqlite::memory:' }).store()
  let refusals = 1
  const app = redress({
    store: {
      ...store,
      register: async (params) => {
        if (refusals-- > 0) throw new RedressError('STORE_BUSY', 'The store stayed locked.')
        return store.register(params)
      },
    },
  })
  const one = app.job('one', { run: () => 1 })
  expect(await refusal(one.submit({}))).toMatchObject({ code: 'STORE_BUSY' })
  expect(await one.submit({})).toMatchObject({ isNew: true })
})

test.each<[string, object, object]>([
  ['no run', {}, { code: 'OPTION_INVALID', message: expect.stringContaining('`run`') }],
  [
    'codes that were not checked',
    { run: () => 1, codes: { a: 1 } },
    { code: 'TAXONOMY_INVALID', message: expect.stringMatching(/^The job type one cannot be declared\. /) },
  ],
  [
    'a policy field of the wrong kind',
    { run: () => 1, policy: { lease: '3s' } },
    { code: 'POLICY_INVALID', message: expect.stringMatching(/^The job type one cannot be declared\. .*: lease: /) },
  ],
  [
    'a limit for a code it does not have',
    { run: () => 1, policy: { retry: { max: 3, perCode: { GW_5X: 2 } } } },
    { code: 'POLICY_INVALID', problems: ['retry.perCode.GW_5X: the taxonomy has no code GW_5X'] },
  ],
])('a job type with %s is refused when it is declared', (_what, definition, error) => {
  const app = redress({ store: 'sqlite::memory:' })
  expect(() => app.job('one', definition as never)).toThrow(expect.objectContaining(error))
  expect(app.types).toEqual([])
})

test('of many inputs, the refusal names the one that does not fit, and none is submitted', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const one = app.job('one', { input: z.object({ n: z.int() }), run: () => 1 })
  expect(await refusal(one.submitMany([{ n: 1 }, { n: 1.5 }]))).toMatchObject({
    code: 'INPUT_INVALID',
    message: 'Input 1 (counted from 0) of 2: The input does not fit one. Nothing was submitted.',
    problems: [expect.stringMatching(/^n: /)],
  })
  expect((await app.jobs.list()).jobs).toEqual([])
})

test('a store that cannot be used is refused without the password in its address', async () => {
  const app = redress({ store: 'postgres://ann:hunter2@127.0.0.1:9/jobs' })
  const { code, message } = await refusal(app.store())
  expect({ code, hasPassword: message.includes('hunter2') }).toEqual({ code: 'STORE_UNREACHABLE', hasPassword: false })
})
