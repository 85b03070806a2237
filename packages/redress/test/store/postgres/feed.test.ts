import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { startPostgres, type TestPostgres } from '../../../../../test/support/stores/postgres.ts'
import { openContext } from '../../../src/store/postgres/store.ts'
import * as scripts from '../../../src/store/scripts/feed.ts'
import { toEventNumber } from '../../../src/store/scripts/history.ts'

type Context = Awaited<ReturnType<typeof openContext>>

const openFeed = ({ scripts: context, wakes }: Context) => scripts.openFeed(context, wakes.onCommit)

let server: TestPostgres
let context: Context
let schemas = 0
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())
beforeEach(async () => {
  context = await openContext({ url: server.url, schema: `feed_${++schemas}`, connectionsMax: 20 })
})
afterEach(() => context.stop())

const add = (tx: Parameters<Parameters<Context['write']>[1]>[0], name: string) =>
  context.history.subjectEvent(tx, `queue:${name}`, 0, 'paused', null)

/** Writes an event, and stays open until it is let go. */
function held(name: string) {
  let letGo: (isCommit: boolean) => void = () => undefined
  const going = new Promise<boolean>((resolve) => {
    letGo = resolve
  })
  let began = (): void => undefined
  const begun = new Promise<void>((resolve) => {
    began = resolve
  })
  const ended = context
    .write('holding', async (tx) => {
      await add(tx, name)
      began()
      if (!(await going)) throw new Error('undone')
    })
    .catch(() => undefined)
  return {
    begun,
    async end(isCommit: boolean) {
      letGo(isCommit)
      await ended
    },
  }
}

const subjects = async (afterSeq = 0): Promise<string[]> => {
  const { events } = await openFeed(context).feed({ afterSeq, limit: 100 })
  return events.map(({ subject }) => String(subject).replace('queue:', ''))
}

test('an event waits for those with lower numbers, whether they are committed or undone', async () => {
  const feed = openFeed(context)
  await context.write('adding', (tx) => add(tx, 'a'))
  const first = held('b')
  await first.begun
  await context.write('adding', (tx) => add(tx, 'c'))
  const second = held('d')
  await second.begun
  await context.write('adding', (tx) => add(tx, 'e'))
  expect(await subjects()).toEqual(['a'])
  expect(await feed.lastSeq()).toBe(2)
  await first.end(true)
  expect(await subjects()).toEqual(['a', 'b', 'c'])
  expect(await feed.lastSeq()).toBe(6)
  await second.end(false)
  expect(await subjects()).toEqual(['a', 'b', 'c', 'e'])
  const undone = held('f')
  await undone.begun
  await undone.end(false)
  expect(await feed.lastSeq()).toBe(10)
})

test('what a savepoint undid holds nothing back, and what follows in its transaction does', async () => {
  const undone = await context.sql.reserve()
  await undone`BEGIN`
  await undone`SAVEPOINT here`
  await undone`INSERT INTO events (job, at, kind, attempt, subject) VALUES (0, 0, 'paused', 0, 'queue:undone')`
  await undone`ROLLBACK TO here`
  await context.write('adding', (tx) => add(tx, 'a'))
  expect(await subjects()).toEqual(['a'])
  await undone`INSERT INTO events (job, at, kind, attempt, subject) VALUES (0, 0, 'paused', 0, 'queue:b')`
  await context.write('adding', (tx) => add(tx, 'c'))
  expect(await subjects()).toEqual(['a'])
  await undone`COMMIT`
  undone.release()
  expect(await subjects()).toEqual(['a', 'b', 'c'])
})

test('another schema of the same database holds nothing back', async () => {
  const other = await openContext({ url: server.url, schema: `feed_${++schemas}` })
  const mine = held('mine')
  await mine.begun
  await other.write('adding', (tx) => other.history.subjectEvent(tx, 'queue:theirs', 0, 'paused', null))
  expect((await openFeed(other).feed({ afterSeq: 0, limit: 10 })).events).toHaveLength(1)
  await mine.end(true)
  await other.stop()
})

test('however many write at once, who reads on from the last number misses none', async () => {
  const feed = openFeed(context)
  let isWriting = true
  const writers = Array.from({ length: 12 }, async (_, w) => {
    for (let i = 0; i < 40; i++) {
      await context
        .write('adding', async (tx) => {
          await add(tx, `${w}.${i}.first`)
          await tx`SELECT pg_sleep(${((w * 7 + i * 13) % 11) / 1_000})`
          await add(tx, `${w}.${i}.second`)
          if ((w + i) % 5 === 0) throw new Error('undone')
        })
        .catch(() => undefined)
    }
  })
  const readers = Array.from({ length: 3 }, async (_, r) => {
    const read: number[] = []
    for (let afterSeq = 0; ; ) {
      const wasWriting = isWriting
      const { events, nextSeq } = await feed.feed({ afterSeq, limit: 1 + r * 20 })
      read.push(...events.map(({ seq }) => seq))
      afterSeq = nextSeq
      if (events.length === 0 && !wasWriting) return read
    }
  })
  await Promise.all(writers)
  isWriting = false
  const all = await context.sql<{ seq: number }[]>`SELECT seq FROM events ORDER BY seq`
  expect(all).toHaveLength(12 * 40 * 2 * 0.8)
  for (const read of await Promise.all(readers)) expect(read).toEqual(all.map(({ seq }) => toEventNumber(seq)))
})

test('the number of a lock has 32 bits, that of an event more', async () => {
  const start = 2 ** 32 * 5 - 2
  await context.sql`SELECT setval('events_seq_seq', ${start})`
  await context.write('adding', (tx) => add(tx, 'a'))
  const one = held('b')
  await one.begun
  for (const name of ['c', 'd', 'e']) await context.write('adding', (tx) => add(tx, name))
  expect(await openFeed(context).lastSeq()).toBe(toEventNumber(start + 1))
  await one.end(true)
  expect(await openFeed(context).lastSeq()).toBe(toEventNumber(start + 5))
  expect(await subjects()).toEqual(['a', 'b', 'c', 'd', 'e'])
})
