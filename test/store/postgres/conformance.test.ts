import { afterAll, beforeAll, test } from 'vitest'
import { conformance } from '../../../src/store/conformance/index.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'
import { startPostgres, type TestPostgres } from '../../support/postgres.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

conformance(
  { test },
  {
    name: 'postgres',
    // A schema of its own for each promise; a handle has its own pool, as a process has.
    open: ({ place, nowMs }) =>
      openPostgres({ url: server.url, schema: place.replaceAll('-', '_'), nowMs, connectionsMax: 4 }),
  },
)
