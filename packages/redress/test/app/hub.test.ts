import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { collect, fetchAll } from '../../../../test/support/subscribers.ts'
import { turns } from '../../../../test/support/until.ts'
import { App } from '../../src/app/app.ts'
import type { HubEvent } from '../../src/app/events/hub-events.ts'
import { failureCodes } from '../../src/index.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { TestKit } from '../../src/testing/kit.ts'

const codes = failureCodes({
  GW_5XX: { fault: 'dependency', retry: 'transient', message: 'It kept failing.', waiting: 'We will try again.' },
})

function world() {
  const kit = new TestKit()
  const convert = kit.app.job('convert', {
    codes,
    queue: 'files',
    policy: { retry: { max: 2 } },
    run: ({ ok }: { ok: boolean }, attempt) =>
      ok ? 'done' : attempt.fail('GW_5XX', { detail: 'secret host 10.0.0.7' }),
  })
  return { kit, convert, hub: kit.app.hub }
}

const names = (events: readonly HubEvent[]) => events.map(({ event }) => event)
const ids = (events: readonly HubEvent[]) => events.map(({ id }) => id)

describe('a subscriber', () => {
  test('gets the events of its topics, and no others', async () => {
    const { kit, convert, hub } = world()
    const [one, other] = await convert.submitMany([{ ok: true }, { ok: true }], { owner: 'ann' })
    const mine = hub.subscribe({ topics: [`job:${one?.id}`], after: 0 })
    const anns = hub.subscribe({ topics: ['owner:ann'], after: 0 })
    const nobodys = hub.subscribe({ topics: ['owner:bob', 'job:no-such'], after: 0 })
    await kit.drain()
    const told = await fetchAll(mine)
    expect(names(told)).toEqual(['job.queued', 'job.processing', 'job.complete'])
    expect(told.at(-1)).toMatchObject({
      topics: [`job:${one?.id}`, 'type:convert', 'queue:files', 'owner:ann'],
      data: { jobId: one?.id, type: 'convert', queue: 'files', owner: 'ann', status: 'complete', attempt: 1 },
    })
    const both = await fetchAll(anns)
    expect(both).toHaveLength(6)
    expect(new Set(both.map(({ data }) => (data as { jobId: string }).jobId))).toEqual(new Set([one?.id, other?.id]))
    expect(await fetchAll(nobodys)).toEqual([])
    await kit.stop()
  })

  test('without a position gets the events from now on', async () => {
    const { kit, convert, hub } = world()
    await convert.submit({ ok: true })
    const subscription = hub.subscribe({ topics: ['*'] })
    await subscription.ready
    const { id } = await convert.submit({ ok: true })
    expect(await fetchAll(subscription)).toMatchObject([{ event: 'job.queued', data: { jobId: id } }])
    await kit.stop()
  })

  test('gets failures as the policy shows them, and never the facts for operators', async () => {
    const { kit, convert, hub } = world()
    const shown = kit.app.job('shown', {
      codes,
      policy: { errors: 'latest', retry: { max: 2 } },
      run: (_: object, attempt) => attempt.fail('GW_5XX'),
    })
    const [hidden, open] = [await convert.submit({ ok: false }), await shown.submit({})]
    await kit.drain()
    const told = await fetchAll(hub.subscribe({ topics: ['*'], after: 0 }))
    const of = (id: string, event: string) =>
      told.find((one) => one.event === event && (one.data as { jobId: string }).jobId === id)?.data
    expect(of(hidden.id, 'job.retry')).toMatchObject({ errorCode: null, errorMessage: null })
    expect(of(open.id, 'job.retry')).toMatchObject({ errorCode: 'GW_5XX', errorMessage: 'We will try again.' })
    expect(of(hidden.id, 'job.failed')).toMatchObject({ errorCode: 'GW_5XX', errorMessage: 'It kept failing.' })
    expect(JSON.stringify(told)).not.toMatch(/10\.0\.0\.7|worker-1/)
    await kit.stop()
  })

  test('gets the events of a schedule and of its jobs', async () => {
    const { kit, convert, hub } = world()
    kit.app.schedule('hourly', { cron: '@hourly', job: convert, input: { ok: true } })
    await kit.app.store()
    const subscription = hub.subscribe({ topics: ['schedule:hourly'] })
    await kit.advance('1h')
    await kit.app.schedules.pause('hourly', { actor: 'olga', reason: 'a test' })
    expect(names(await fetchAll(subscription))).toEqual(['job.queued', 'schedule.paused'])
    await kit.stop()
  })

  test('that leaves, or whose signal fires, gets no more events and costs nothing', async () => {
    const { kit, convert, hub } = world()
    const controller = new AbortController()
    const left = hub.subscribe({ topics: ['*'] })
    const aborted = hub.subscribe({ topics: ['*'], signal: controller.signal })
    const collected = collect(aborted)
    await turns()
    await left.return()
    controller.abort()
    await collected.ended
    expect(hub.subscribers).toBe(0)
    await convert.submit({ ok: true })
    await turns()
    expect([collected.events, await left.next()]).toEqual([[], { done: true, value: undefined }])
    expect(hub.subscribe({ topics: ['*'], signal: controller.signal }).isEnded).toBe(true)
    await kit.stop()
  })

  test('gets an end event when the app stops', async () => {
    const { kit, convert, hub } = world()
    const { id } = await convert.submit({ ok: true })
    const { events, ended } = collect(hub.subscribe({ topics: [`job:${id}`], after: 0 }))
    await turns()
    await kit.stop()
    await ended
    expect(events.at(-1)).toEqual({
      id: null,
      topics: [],
      event: 'end',
      data: { reason: 'stopped', after: events.at(-2)?.id },
    })
    expect(await fetchAll(hub.subscribe({ topics: ['*'] }))).toMatchObject([{ event: 'end' }])
  })

  test.each([
    [{ topics: [] }, 'topics must be'],
    [{ topics: ['job'] }, 'topics must be'],
    [{ topics: 'job:1' }, 'topics must be'],
    [{ topics: ['*'], after: 'yesterday' }, 'after must be the id of an event, not "yesterday"'],
    [{ topics: ['*'], after: -1 }, 'after must be'],
    [{ topics: ['*'], after: '1.2.3' }, 'after must be'],
    [{ topics: ['*'], bufferMax: 0 }, 'bufferMax'],
  ])('is refused with %j', (options, problem) => {
    const { hub } = world()
    expect(() => hub.subscribe(options as never)).toThrow(problem)
    expect(hub.subscribers).toBe(0)
  })
})

describe('a subscriber that comes back', () => {
  test('a subscriber that reconnects continues after its last event, without loss or duplicates [W46 W52]', async () => {
    const cuts = fc.array(fc.nat(6), { maxLength: 12 })
    const steps = fc.array(fc.constantFrom('submit', 'submit-bad', 'tick', 'fetch', 'cut'), {
      minLength: 5,
      maxLength: 30,
    })
    await fc.assert(
      fc.asyncProperty(
        steps,
        cuts,
        fc.integer({ min: 4, max: 20 }),
        fc.boolean(),
        async (acts, sizes, bufferMax, hasOther) => {
          const { kit, convert, hub } = world()
          hub.map((event) =>
            event.kind === 'queued' || event.kind === 'failed' ? [mapped(event.seq, 1), mapped(event.seq, 2)] : [],
          )
          const topics = ['type:convert', 'mine:1']
          const got: HubEvent[] = []
          // Somebody who never leaves: then there is a place to join the others at.
          if (hasOther) void collect(hub.subscribe({ topics: ['*'] }))
          let lastId: string | null = '0'
          let subscription = hub.subscribe({ topics, after: lastId, bufferMax })
          const comeBack = async () => {
            await subscription.return()
            subscription = hub.subscribe({ topics, after: lastId, bufferMax })
          }
          const take = async (count: number) => {
            for (let i = 0; i < count; i++) {
              await turns(3)
              if (subscription.waiting === 0) return
              const { value } = await subscription.next()
              // Let go for being slow: the browser comes back by itself.
              if (value.event === 'end') await comeBack()
              else {
                got.push(value)
                lastId = value.id
              }
            }
          }
          const cut = async (n: number) => {
            await take(n)
            await comeBack()
          }
          for (const [i, act] of acts.entries()) {
            if (act === 'submit') await convert.submit({ ok: true })
            else if (act === 'submit-bad') await convert.submit({ ok: false })
            else if (act === 'tick') await kit.tick()
            else if (act === 'fetch') await take(sizes[i % Math.max(1, sizes.length)] ?? 2)
            else await cut(sizes[i % Math.max(1, sizes.length)] ?? 1)
          }
          await kit.drain()
          for (let still = 0; still < 3; ) {
            const before = got.length
            await take(50)
            still = got.length === before ? still + 1 : 0
          }
          const everything = await fetchAll(hub.subscribe({ topics, after: 0, bufferMax: 10_000 }))
          expect(ids(got)).toEqual(ids(everything))
          expect(got).toEqual(everything)
          await kit.stop()
        },
      ),
      { numRuns: 60 },
    )
  })

  const mapped = (seq: number, n: number) => ({ topics: ['mine:1'], event: 'mine', data: { seq, n } })

  test('in the middle of what was made from one event, gets the rest of it', async () => {
    const { kit, convert, hub } = world()
    hub.map(({ seq }) => [mapped(seq, 1), mapped(seq, 2), mapped(seq, 3)])
    await convert.submit({ ok: true })
    const all = await fetchAll(hub.subscribe({ topics: ['*'], after: 0 }))
    expect(ids(all)).toEqual(['2.1', '2.2', '2.3', '2'])
    for (const [i, id] of ids(all).entries()) {
      const rest = await fetchAll(hub.subscribe({ topics: ['*'], after: id }))
      expect(rest).toEqual(all.slice(i + 1))
    }
    await kit.stop()
  })

  test('gets a gap event when unseen events were removed', async () => {
    const kit = new TestKit()
    const job = kit.app.job('short', { policy: { retention: { complete: '1h' } }, run: () => undefined })
    await job.submit({})
    await kit.drain()
    const first = await fetchAll(kit.app.hub.subscribe({ topics: ['*'], after: 0 }))
    await job.submit({}, { delay: '1d' })
    await kit.advance('2h')
    const [gap, ...rest] = await fetchAll(kit.app.hub.subscribe({ topics: ['*'], after: first[0]?.id ?? '' }))
    expect(gap).toEqual({
      id: null,
      topics: [],
      event: 'gap',
      data: { reason: 'removed', after: first[0]?.id, to: first.at(-1)?.id },
    })
    expect(names(rest)).toEqual(['job.queued'])
    const seen = await fetchAll(kit.app.hub.subscribe({ topics: ['*'], after: first.at(-1)?.id ?? '' }))
    expect(names(seen)).toEqual(['job.queued'])
    await kit.stop()
  })

  test('with an id from another store gets a gap event and continues from now', async () => {
    const { kit, convert, hub } = world()
    await convert.submit({ ok: true })
    const subscription = hub.subscribe({ topics: ['*'], after: '900' })
    expect(await fetchAll(subscription)).toMatchObject([
      { event: 'gap', data: { reason: 'unknown', after: '900', to: '2' } },
    ])
    await convert.submit({ ok: true })
    expect(ids(await fetchAll(subscription))).toEqual(['4'])
    await kit.stop()
  })
})

describe('a slow subscriber', () => {
  test('is ended with its position, delays no other subscriber, and loses nothing when it comes back', async () => {
    const { kit, convert, hub } = world()
    const slow = hub.subscribe({ topics: ['*'], bufferMax: 10 })
    const quick = collect(hub.subscribe({ topics: ['*'] }))
    await slow.ready
    await turns()
    for (let i = 0; i < 30; i++) {
      await convert.submit({ ok: true })
      await turns(5)
    }
    expect(quick.events).toHaveLength(30)
    expect(slow.isEnded).toBe(true)
    expect(slow.waiting).toBe(11)
    expect(hub.subscribers).toBe(1)
    const told = collect(slow)
    await told.ended
    const end = told.events.pop()
    expect(end).toEqual({ id: null, topics: [], event: 'end', data: { reason: 'slow', after: told.events.at(-1)?.id } })
    const { after } = (end as HubEvent).data as { after: string }
    const rest = await fetchAll(hub.subscribe({ topics: ['*'], after }))
    expect([...told.events, ...rest]).toEqual(quick.events)
    await kit.stop()
  })

  test('that catches up slowly never has more waiting events than its buffer', async () => {
    const { kit, convert, hub } = world()
    await convert.submitMany(Array(300).fill({ ok: true }))
    const subscription = hub.subscribe({ topics: ['*'], after: 0, bufferMax: 20 })
    const got: (string | null)[] = []
    while (got.length < 300) {
      await turns(3)
      expect(subscription.waiting).toBeLessThanOrEqual(20)
      const { value } = await subscription.next()
      got.push(value.id)
    }
    expect(got).toEqual(Array.from({ length: 300 }, (_, i) => String(2 * (i + 1))))
    await kit.stop()
  })
})

describe('events of the app itself', () => {
  test('are made from those of the store, with the input of the job when it is asked for', async () => {
    const { kit, convert, hub } = world()
    let reads = 0
    hub.map(async (event) => {
      if (event.subject !== null || event.kind !== 'failed') return []
      reads++
      return [
        { topics: ['customer:9'], event: 'broken', data: { input: await event.input(), why: event.failure?.message } },
      ]
    })
    const subscription = hub.subscribe({ topics: ['customer:9'] })
    await subscription.ready
    await convert.submitMany([{ ok: false }, { ok: true }])
    await kit.drain()
    const told = await fetchAll(subscription)
    expect(told).toMatchObject([
      { topics: ['customer:9'], event: 'broken', data: { input: { ok: false }, why: 'It kept failing.' } },
    ])
    expect(reads).toBe(1)
    await kit.stop()
  })

  test('are left out when a mapper throws, and the others go on', async () => {
    const errors: object[] = []
    const log = {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (o: object) => void errors.push(o),
    }
    const kit = new TestKit({ log: log as never })
    kit.app.hub.map(() => {
      throw new Error('a mistake')
    })
    kit.app.hub.map(({ seq }) => [{ topics: ['mine:1'], event: 'mine', data: seq }])
    kit.app.job('any', { run: () => undefined })
    const subscription = kit.app.hub.subscribe({ topics: ['*'], after: 0 })
    await kit.app.submit('any', {})
    expect(names(await fetchAll(subscription))).toEqual(['mine', 'job.queued'])
    expect(errors).toMatchObject([{ err: { message: 'a mistake' } }])
    await kit.stop()
  })
})

describe('the store is asked', () => {
  /** Counts the pages that are read. */
  function counted() {
    const clock = new VirtualClock()
    const path = `${temporaryFolder()}/store.db`
    const open = () => openSqlite({ path, nowMs: () => clock.nowMs() })
    const store = open()
    let pages = 0
    let listeners = 0
    const watched: Store = {
      ...store,
      feed: (params) => {
        pages++
        return store.feed(params)
      },
      onCommit: (listener) => {
        listeners++
        const forget = store.onCommit(listener)
        return () => {
          listeners--
          forget()
        }
      },
    }
    const app = new App({ store: watched, clock })
    const job = app.job('any', { run: () => undefined })
    return { clock, app, job, other: open(), pages: () => pages, listeners: () => listeners }
  }

  test('the store is not read without a subscriber, nor after the last one has left [W34]', async () => {
    const { clock, app, job, other, pages, listeners } = counted()
    await job.submit({})
    await clock.advance(10_000, turns)
    expect([pages(), listeners()]).toEqual([0, 0])
    const subscription = app.hub.subscribe({ topics: ['*'] })
    await turns()
    await clock.advance(1_000, turns)
    expect(pages()).toBeGreaterThan(3)
    expect(listeners()).toBe(1)
    await subscription.return()
    const before = pages()
    await job.submit({})
    await clock.advance(10_000, turns)
    expect([pages(), listeners()]).toEqual([before, 0])
    await other.stop()
    await app.stop()
  })

  test('once for all, however many have caught up', async () => {
    const { clock, app, job, other, pages } = counted()
    const subscriptions = Array.from({ length: 50 }, () => app.hub.subscribe({ topics: ['*'] }))
    await turns()
    const before = pages()
    await job.submit({})
    await turns()
    await clock.advance(250, turns)
    expect(pages() - before).toBeLessThanOrEqual(3)
    for (const subscription of subscriptions) expect(await fetchAll(subscription)).toHaveLength(1)
    await other.stop()
    await app.stop()
  })

  test('at once about what this process commits, and soon about others', async () => {
    const { clock, app, job, other } = counted()
    const subscription = app.hub.subscribe({ topics: ['*'] })
    await subscription.ready
    await turns()
    await job.submit({})
    expect(await fetchAll(subscription)).toHaveLength(1)
    const { actor, reason } = { actor: 'olga', reason: 'a test' }
    const [row] = await other.jobs({ limit: 1 })
    const expected = { status: 'queued', attempt: 0 } as const
    await other.intervene({ id: String(row?.id), actor, reason, expect: expected, act: { kind: 'cancel' } })
    await turns()
    expect(subscription.waiting).toBe(0)
    await clock.advance(250, turns)
    expect(names(await fetchAll(subscription))).toEqual(['job.cancelled'])
    await other.stop()
    await app.stop()
  })

  test('again when it did not answer', async () => {
    const clock = new VirtualClock()
    const store = openSqlite({ path: ':memory:', nowMs: () => clock.nowMs() })
    let isDown = true
    const flaky: Store = {
      ...store,
      feed: (params) => (isDown ? Promise.reject(new Error('no answer')) : store.feed(params)),
    }
    const app = new App({ store: flaky, clock })
    const job = app.job('any', { run: () => undefined })
    const subscription = app.hub.subscribe({ topics: ['*'], after: 0 })
    await job.submit({})
    await clock.advance(1_000, turns)
    isDown = false
    await clock.advance(250, turns)
    expect(await fetchAll(subscription)).toHaveLength(1)
    isDown = true
    await job.submit({})
    await turns()
    isDown = false
    await clock.advance(250, turns)
    expect(await fetchAll(subscription)).toHaveLength(1)
    await app.stop()
  })
})
