import { describe, expect, test } from 'vitest'
import { collect, fetchAll } from '../../../../test/support/subscribers.ts'
import { turns, until } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import type { HubEvent } from '../../src/app/events/hub-events.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { TestKit } from '../../src/testing/kit.ts'

function world() {
  const kit = new TestKit()
  return { kit, convert: kit.app.job('convert', { run: () => 'done' }), hub: kit.app.hub }
}

const names = (events: readonly HubEvent[]) => events.map(({ event }) => event)
const ids = (events: readonly HubEvent[]) => events.map(({ id }) => id)

describe('a subscriber that is far behind', () => {
  test('gets a gap event and continues from the bound', async () => {
    const { kit, convert, hub } = world()
    await convert.submitMany(Array(30).fill({ ok: true }))
    const told = await fetchAll(hub.subscribe({ topics: ['*'], after: 6, behindMax: 20 }))
    expect(told[0]).toEqual({
      id: null,
      topics: [],
      event: 'gap',
      data: { reason: 'behind', after: '6', to: '40' },
    })
    expect(ids(told.slice(1))).toEqual(Array.from({ length: 10 }, (_, i) => String(42 + 2 * i)))
    const near = await fetchAll(hub.subscribe({ topics: ['*'], after: 40, behindMax: 20 }))
    expect(near).toEqual(told.slice(1))
    expect(() => hub.subscribe({ topics: ['*'], behindMax: -1 })).toThrow('behindMax')
    await kit.stop()
  })

  test('does not block others: pages are read one at a time, each in its own turn', async () => {
    const clock = new VirtualClock()
    const store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
    let turn = 0
    let isOver = false
    const count = (): void => {
      turn++
      if (!isOver) setImmediate(count)
    }
    setImmediate(count)
    const pagesOf: number[] = []
    const watched: Store = {
      ...store,
      feed: (params) => {
        pagesOf.push(turn)
        return store.feed(params)
      },
    }
    const app = new App({ store: watched, clock })
    const job = app.job('any', { run: () => undefined })
    await job.submitMany(Array(3_000).fill({}), { owner: 'bob' })
    const mine = await job.submit({}, { owner: 'ann' })
    const all = Array.from({ length: 10 }, () => collect(app.hub.subscribe({ topics: ['*'], after: 0 })))
    const anns = Array.from({ length: 10 }, () => collect(app.hub.subscribe({ topics: ['owner:ann'], after: 0 })))
    await until('all have caught up', () => [...all, ...anns].every(({ events }) => events.at(-1)?.id === '6002'))
    isOver = true
    // One for subscribers that catch up, and one for those that have caught up.
    const inTurn = Object.values(Object.groupBy(pagesOf, String)).map((pages) => pages?.length ?? 0)
    expect(pagesOf.length).toBeGreaterThan(100)
    expect(Math.max(...inTurn)).toBeLessThanOrEqual(2)
    expect(new Set(all.map(({ events }) => events.length))).toEqual(new Set([3_001]))
    for (const { events } of anns) expect(events).toMatchObject([{ data: { jobId: mine.id } }])
    await app.stop()
  })
})

test('a page of live events for many subscribers is delivered in several turns', async () => {
  const { kit, convert, hub } = world()
  const [events, subscribers] = [400, 50]
  const all = Array.from({ length: subscribers }, () => hub.subscribe({ topics: ['*'], bufferMax: 1_000 }))
  await Promise.all(all.map(({ ready }) => ready))
  await turns(3)
  /** How much the first one had been told at the beginning of each turn. */
  const seen = new Set<number>()
  const [first] = all
  const look = (): void => {
    seen.add(first?.waiting ?? 0)
    if ((first?.waiting ?? events) < events) setImmediate(look)
  }
  await convert.submitMany(Array(events).fill({ ok: true }))
  look()
  await until('all are told', () => all.every(({ waiting }) => waiting === events))
  expect([...seen].filter((waiting) => waiting > 0 && waiting < events)).not.toEqual([])
  await kit.stop()
})

describe('the store gives a subscriber only', () => {
  /** What each page was asked for. */
  function asking() {
    const clock = new VirtualClock()
    const store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
    const asked: unknown[] = []
    const app = new App({
      store: {
        ...store,
        feed: (params) => {
          asked.push(params.only)
          return store.feed(params)
        },
      },
      clock,
    })
    return { app, asked, job: app.job('any', { run: () => undefined }) }
  }

  test('events that can match its topics, and all events if that is unknown', async () => {
    const { app, asked, job } = asking()
    await job.submit({}, { owner: 'ann' })
    await fetchAll(app.hub.subscribe({ topics: ['owner:ann', 'batch:b:1'], after: 0 }))
    expect(asked).toMatchObject([
      { owners: ['ann'], batches: ['b:1'], subjects: ['owner:ann', 'batch:b:1'] },
      undefined,
    ])
    asked.length = 0
    for (const topic of ['*', 'campaign:9']) await fetchAll(app.hub.subscribe({ topics: [topic], after: 0 }))
    expect(new Set(asked)).toEqual(new Set([undefined]))
    await app.stop()
  })

  test('an event that a mapper publishes on a topic of another event is dropped, live and while catching up', async () => {
    const { kit, convert, hub } = world()
    hub.map((event) => (event.seq === 1 ? [{ topics: ['owner:bob'], event: 'strange', data: 1 }] : []))
    hub.map((event) => [{ topics: ['owner:ann', `job:${(event as { jobId: string }).jobId}`], event: 'own', data: 1 }])
    const live = hub.subscribe({ topics: ['owner:ann', 'owner:bob'] })
    await live.ready
    await convert.submit({ ok: true }, { owner: 'ann' })
    expect(names(await fetchAll(live))).toEqual(['own', 'job.queued'])
    const later = hub.subscribe({ topics: ['owner:ann', 'owner:bob'], after: 0 })
    expect(names(await fetchAll(later))).toEqual(['own', 'job.queued'])
    await kit.stop()
  })
})

describe('when the app stops, everything committed before is delivered', () => {
  const open = () => {
    const app = new App({ store: 'sqlite::memory:' })
    return { app, job: app.job('any', { run: () => undefined }) }
  }

  test('to subscribers that have caught up', async () => {
    const { app, job } = open()
    const subscription = app.hub.subscribe({ topics: ['*'] })
    await subscription.ready
    await turns()
    await job.submitMany(Array(600).fill({}))
    await app.stop()
    const { events, ended } = collect(subscription)
    await ended
    expect(names(events).filter((name) => name === 'job.queued')).toHaveLength(600)
    expect(events.at(-1)).toMatchObject({ event: 'end', data: { reason: 'stopped', after: '1200' } })
  })

  test('to subscribers that still catch up, as far as their buffer allows', async () => {
    const { app, job } = open()
    await job.submitMany(Array(900).fill({}))
    const roomy = app.hub.subscribe({ topics: ['*'], after: 0, bufferMax: 10_000 })
    const narrow = app.hub.subscribe({ topics: ['*'], after: 0, bufferMax: 20 })
    await app.stop()
    const all = collect(roomy)
    const some = collect(narrow)
    await Promise.all([all.ended, some.ended])
    expect(all.events).toHaveLength(901)
    const last = some.events.at(-2)?.id
    expect(some.events.at(-1)).toMatchObject({ event: 'end', data: { reason: 'stopped', after: last } })
    expect(some.events.length).toBeLessThanOrEqual(21)
  })

  test('including the last records of workers, while the store is still open', async () => {
    const { app, job } = open()
    const seen: unknown[] = []
    const subscription = app.hub.subscribe({ topics: ['*'] })
    const reader = (async () => {
      for await (const { event, data } of subscription) {
        if (event === 'job.complete') seen.push((await app.jobs.find((data as { jobId: string }).jobId))?.status)
      }
    })()
    await subscription.ready
    const worker = await app.makeWorker()
    await job.submitMany(Array(20).fill({}))
    await worker.tick()
    await app.stop()
    await reader
    expect(seen).toEqual(Array(20).fill('complete'))
  })

  test('and a subscriber that never comes to an end does not keep the app', async () => {
    const { app, job } = open()
    const { promise, resolve } = Promise.withResolvers<void>()
    const subscription = app.hub.subscribe({ topics: ['*'], after: 0 })
    const reader = (async () => {
      for await (const _ of subscription) await promise
    })()
    await job.submit({})
    await until('it is at work', () => subscription.isIterated && subscription.waiting === 0)
    await job.submit({})
    await app.stop()
    resolve()
    await reader
  })
})
