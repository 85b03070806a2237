import { expect, test } from 'vitest'
import { App } from '../../../src/app/app.ts'
import type { Store } from '../../../src/store/contract/store.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import { testKit } from '../../../src/testing/index.ts'

test('a job submitted under a forward-only policy goes forward, though its type may be retried by now', async () => {
  let store: Store | undefined
  const kit = testKit({
    store: ({ nowMs }) => {
      store = openSqlite({ path: ':memory:', nowMs })
      return store
    },
  })
  const before = new App({ store: store as Store, clock: kit.clock })
  const { id } = await before.job('turning', { policy: { forwardOnly: true }, run: () => null }).submit({})
  kit.app.job('turning', {
    policy: { retry: { max: 3, unknown: 'transient' } },
    run() {
      throw new Error('no')
    },
  })
  await kit.drain({ within: '1h' })
  expect(await kit.app.jobs.find(id)).toMatchObject({ status: 'failed', attemptCount: 1 })
})

test('a handler that began and killed its worker at once is not said to have never started', async () => {
  const kit = testKit()
  const effects: number[] = []
  const job = kit.app.job('deadly', { run: (_, attempt) => void effects.push(attempt.number) })
  const { id } = await job.submit({})
  await kit.crashingWorker({ at: 'decide' })
  await kit.advance('1m')
  expect(effects).toEqual([1])
  expect(await kit.app.jobs.find(id)).toMatchObject({
    status: 'processing',
    errorCode: null,
    orphanedAt: expect.any(String),
  })
})
