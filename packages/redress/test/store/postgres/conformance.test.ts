import { afterAll, afterEach, beforeAll, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { RecycledSchemas } from '../../../../../test/support/stores/postgres-schemas.ts'
import { conformance } from '../../../src/store/conformance/index.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
let schemas: RecycledSchemas
beforeAll(async () => {
  server = await startPostgres()
  schemas = new RecycledSchemas(server.url)
})
afterEach(() => schemas.giveBack())
afterAll(async () => {
  await schemas.stop()
  await server.stop()
})

conformance(
  { test },
  {
    name: 'postgres',
    // A schema of its own for each promise; a handle has its own pool, as a process has.
    open: ({ place, nowMs }) => openPostgres({ url: server.url, schema: schemas.of(place), nowMs, connectionsMax: 4 }),
  },
)
