import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { newJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { until } from '../../../../../test/support/until.ts'
import { type PolicyInput, policy } from '../../../src/core/policy/policy.ts'
import type { Intervention, Store } from '../../../src/store/contract/store.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const GATE = 4711
const CLOCK = '(SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)'
/** The clock of the database, which first waits for the gate: a statement that asks it has its snapshot by then. */
const GATED = `
  CREATE OR REPLACE FUNCTION redress_now() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN
    PERFORM pg_advisory_lock_shared(${GATE}); PERFORM pg_advisory_unlock_shared(${GATE}); RETURN ${CLOCK}; END $$`
const FREE = `
  CREATE OR REPLACE FUNCTION redress_now() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$ BEGIN RETURN ${CLOCK}; END $$`

let places = 0

/** Changes a job while a claim is under way that has seen the job as it was before. */
async function changeDuringClaim(act: Intervention['act'], types: number, input: PolicyInput) {
  const schema = `changing_${++places}`
  const open = async (): Promise<Store> => {
    const store = await openPostgres({ url: server.url, schema })
    onTestFinished(() => store.stop())
    return store
  }
  const [store, other] = [await open(), await open()]
  const names = Array.from({ length: types }, (_, i) => `type-${i}`)
  const declared = names.map((name) => ({ name, queue: 'default', policy: policy(input) }))
  await store.register({ types: declared })
  await other.register({ types: declared })
  const job = newJob({ type: 'type-0', payload: '{"n":1}' })
  await store.submit({ jobs: [job] })
  const worker = await store.enlist({ id: 'w', host: 'here', pid: 1, types: names })
  const lanes = names.map((type) => ({ type, ttlMs: 30_000 }))
  const sql = postgres(server.url, { max: 3, connection: { search_path: schema }, onnotice: () => undefined })
  onTestFinished(() => sql.end())
  const gate = await sql.reserve()
  await gate`SELECT pg_advisory_lock(${GATE})`
  await sql.unsafe(GATED)
  const claim = store.claim({ worker, lanes, max: 5 })
  await until('the claim waits at the gate', async () => {
    const [row] = await sql`SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`
    return row?.n === 1
  })
  await sql.unsafe(FREE)
  const by = { actor: 'olga', reason: 'a test', expect: { status: 'queued', attempt: 0 } } as const
  const answer = await other.intervene({ id: job.id, ...by, act })
  await gate`SELECT pg_advisory_unlock(${GATE})`
  gate.release()
  const first = await claim
  const second = first.leases.length > 0 ? first : await store.claim({ worker, lanes, max: 5 })
  return { answer, leases: second.leases }
}

test.each([
  ['one lane', 1, {}],
  ['several lanes', 3, {}],
  ['lanes with limits', 2, { concurrency: 5 }],
] as const)('a claim over %s never leases a job with an input that was replaced before', async (_, types, input) => {
  const act = { kind: 'replace-input', payload: '{"n":2}' } as const
  const { answer, leases } = await changeDuringClaim(act, types, input)
  expect([answer, leases.map(({ payload }) => payload)]).toEqual(['done', ['{"n":2}']])
})

test('a claim that began before a job was postponed does not lease it', async () => {
  const { answer, leases } = await changeDuringClaim({ kind: 'reschedule', to: { delayMs: 60_000 } }, 1, {})
  expect([answer, leases]).toEqual(['done', []])
})
