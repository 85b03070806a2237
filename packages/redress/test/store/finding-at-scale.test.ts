import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { openWithConnection, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { Bench } from '../../src/store/conformance/bench/bench.ts'
import type { JobFilter, NewJob } from '../../src/store/contract/store.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'
import { WALK_MAX } from '../../src/store/scripts/jobs/job-search.ts'
import { sizeOf, waysOf } from '../../src/store/scripts/jobs/job-walks.ts'
import { openTx } from '../../src/store/sqlite/connection/tx.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

/** More than one page may walk over, so that none is found before the walk is cut off. */
const MANY = WALK_MAX + 500

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

const drivers: Record<string, Parameters<typeof Bench.set>[0]> = {
  SQLite: ({ nowMs }) => openSqlite({ path: join(temporaryFolder(), 'redress.db'), nowMs }),
  PostgreSQL: ({ nowMs }) => openPostgres({ url: server.url, schema: 'at_scale', nowMs }),
}

async function submitMany(bench: Bench, count: number, parts: Partial<NewJob>): Promise<void> {
  for (let n = 0; n < count; n += 1_000) {
    const jobs = Array.from({ length: Math.min(1_000, count - n) }, () => bench.newJob(parts))
    await bench.store.submit({ jobs })
  }
}

describe.each(Object.entries(drivers))('on %s', (_, open) => {
  test('where hardly any job fits, a page is cut off and says where to go on; nothing is missed', {
    timeout: 120_000,
  }, async () => {
    const bench = await Bench.set(open, 'at-scale')
    onTestFinished(() => bench.stop())
    // Of this owner there are many, and of this type, but hardly any is both.
    const oldest = await bench.submit({ owner: 'big', type: 'plain' })
    await submitMany(bench, MANY, { owner: 'big', type: 'other' })
    const middle = await bench.submit({ owner: 'big', type: 'plain' })
    await submitMany(bench, MANY, { owner: 'else', type: 'plain' })
    const filter: Omit<JobFilter, 'limit'> = { owner: 'big', type: 'plain' }

    const pages: string[][] = []
    let beforeKey: number | null | undefined
    while (beforeKey !== null) {
      const page = await bench.store.jobPage({ ...filter, limit: 10, ...(beforeKey !== undefined && { beforeKey }) })
      pages.push(page.jobs.map(({ id }) => id))
      beforeKey = page.nextKey
    }
    expect(pages.flat()).toEqual([middle, oldest])
    expect(pages.length).toBeGreaterThan(1)
    expect((await bench.store.jobs({ ...filter, limit: 10 })).map(({ id }) => id)).toEqual([middle, oldest])
    // Whatever has one of the things that are few is found at once.
    const rare = await bench.finished('failed', { owner: 'big', type: 'third' })
    expect(await bench.store.jobPage({ owner: 'big', code: 'BROKEN', limit: 10 })).toMatchObject({
      jobs: [{ id: rare }],
      nextKey: null,
    })
    expect(await bench.store.countJobs({ owner: 'big', max: 1_000 })).toEqual({ count: 1_000, isMore: true })
  })
})

test('SQLite sorts no backlog to find out that it is too long to be sorted', async () => {
  const { database, store } = openWithConnection({ path: ':memory:', nowMs: () => 0 })
  onTestFinished(() => store.stop())
  const tx = openTx({ database, prepare: database.prepare.bind(database) }, { nowMs: () => 0 })
  const statuses = ['queued', 'processing'] as const
  const anything = { types: null, owner: null, code: null, batch: null, orphans: null, keys: null, retriedFrom: null }
  const filter = { statuses, ...anything, createdSinceMs: null, createdBeforeMs: null, sinceKey: 0, beforeKey: 9e15 }
  const ways = waysOf(tx, filter)
  expect(ways.length).toBeGreaterThan(0)
  for (const way of ways) {
    const { text } = sizeOf(way, 1_000)
    const plan = database.prepare(`EXPLAIN QUERY PLAN SELECT ${text}`).all() as { detail: string }[]
    expect(plan.map(({ detail }) => detail).join('\n')).not.toMatch(/ORDER BY|MERGE/)
  }
})
