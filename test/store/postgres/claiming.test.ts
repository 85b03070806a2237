import { afterAll, beforeAll, test } from 'vitest'
import { keep, promises } from '../../../src/store/conformance/index.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'
import { startPostgres, type TestPostgres } from '../../support/postgres.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const TOPICS = ['claiming', 'limits', 'rates', 'queues', 'retry budget', 'depths', 'time']
for (const [i, promise] of promises.entries()) {
  if (!TOPICS.includes(promise.topic)) continue
  test(`${promise.topic}: ${promise.name}`, () =>
    keep(
      promise,
      ({ place, nowMs }) => openPostgres({ url: server.url, schema: place, nowMs, connectionsMax: 4 }),
      `promise_${i}`,
    ))
}
