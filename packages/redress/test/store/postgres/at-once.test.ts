import { afterAll, beforeAll, expect, test } from 'vitest'
import { newJob } from '../../../../../test/support/stores/new-job.ts'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { policy } from '../../../src/core/policy/policy.ts'
import type { NewJob, Store } from '../../../src/store/contract/store.ts'
import { openPostgres } from '../../../src/store/postgres/store.ts'

/** With the database's own clock, which goes on while somebody waits for a lock. */

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

async function openMany(schema: string, count: number): Promise<[Store, ...Store[]]> {
  const open = () => openPostgres({ url: server.url, schema, connectionsMax: 6 })
  const first = await open()
  return [first, ...(await Promise.all(Array.from({ length: count - 1 }, open)))]
}

const TYPES = ['ask', 'call', 'fetch', 'send']
const GATEWAY = { guards: 'gateway', minCalls: 4, cooldown: '1h', halfOpenProbes: 3, probesToClose: 1_000 } as const

async function declare(store: Store): Promise<void> {
  const guarded = policy({ orphan: 'requeue', breaker: GATEWAY })
  await store.register({ types: TYPES.map((name) => ({ name, queue: 'default', policy: guarded })) })
}

const job = (id: string, type: string): NewJob => newJob({ id, type })

test('a breaker that many processes open at once stays open: none of them takes its time for one to come', async () => {
  const stores = await openMany('opening', 4)
  const [store] = stores
  await declare(store)
  const bad = { name: 'gateway', epoch: 1, buckets: [{ agoMs: 0, succeeded: 0, failed: 1 }] }
  await Promise.all(Array.from({ length: 60 }, (_, i) => stores[i % stores.length]?.countCalls({ counts: [bad, bad] })))
  const [breaker] = await store.breakers()
  expect([breaker?.state.status, breaker?.epoch]).toEqual(['open', 2])
  const events = await store.breakerEvents({ name: 'gateway', afterSeq: 0, limit: 10 })
  expect(events.map(({ kind }) => kind)).toEqual(['opened'])
  for (const one of stores) await one.stop()
})

test('while a breaker is tried no more jobs are claimed than may be, however many claim at once', async () => {
  const stores = await openMany('trying', 4)
  const [store] = stores
  await declare(store)
  await store.submit({ jobs: Array.from({ length: 40 }, (_, i) => job(`job-${i}`, TYPES[i % TYPES.length] ?? '')) })
  const bad = { name: 'gateway', epoch: 1, buckets: [{ agoMs: 0, succeeded: 0, failed: 4 }] }
  await store.countCalls({ counts: [bad] })
  const keys = await Promise.all(stores.map((one, i) => one.enlist({ id: `w${i}`, host: 'h', pid: i, types: TYPES })))
  const claimAtOnce = async (): Promise<number> => {
    const claims = await Promise.all(
      stores.map((one, i) => {
        const lanes = [{ type: TYPES[i] ?? '', ttlMs: 60_000 }]
        return one.claim({ worker: keys[i] ?? 0, lanes, max: 2 })
      }),
    )
    return claims.reduce((sum, { leases }) => sum + leases.length, 0)
  }
  expect(await claimAtOnce()).toBe(0)
  expect(await store.tryBreaker({ name: 'gateway', by: { actor: 'olga', reason: 'a test' } })).toBe('jobs')
  let leased = 0
  for (let round = 0; round < 20; round++) leased += await claimAtOnce()
  expect(leased).toBe(3)
  for (const one of stores) await one.stop()
})

test('one cause that many processes tell of at once is one notice', async () => {
  const stores = await openMany('storm', 4)
  const notices = ['a', 'b', 'c'].map((cause) => ({
    ...{ channels: ['ops'], subject: 's', cause, windowMs: 3_600_000 },
    content: { kind: 'test', actor: 'olga', reason: 'a test' } as const,
  }))
  const added = await Promise.all(
    Array.from({ length: 80 }, (_, i) => {
      const order = i % 2 === 0 ? notices : notices.toReversed()
      return (stores[i % stores.length] as Store).addNotices({ notices: [...order, ...order] })
    }),
  )
  expect(added.flat().filter(({ isNew }) => isNew)).toHaveLength(3)
  const found = await stores[0].notices({ limit: 10 })
  expect(found.map(({ repeats }) => repeats)).toEqual([159, 159, 159])
  for (const one of stores) await one.stop()
})
