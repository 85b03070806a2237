import { expect, test, vi } from 'vitest'
import { RedressError, redress } from '../../src/index.ts'
import { refusal } from './bench.ts'

test('an app that does not name its store takes it from the environment, as it was when the app was made', () => {
  vi.stubEnv('REDRESS_STORE', 'sqlite:/tmp/elsewhere.db')
  const app = redress()
  vi.unstubAllEnvs()
  expect(app.location).toBe('sqlite:/tmp/elsewhere.db')
  expect(redress().location).toBe('sqlite:.redress/redress.db')
  expect(redress({ store: 'sqlite::memory:' }).location).toBe('sqlite::memory:')
})

test('an app tells what was declared, and nothing about what was not', () => {
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
