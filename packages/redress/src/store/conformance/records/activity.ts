import assert from 'node:assert/strict'
import type { Counted, MinuteCount } from '../../../core/job/activity.ts'
import { policy } from '../../../core/policy/policy.ts'
import { HOUR_MS, MINUTE_MS } from '../../../core/text/duration.ts'
import type { ActivityCount } from '../../contract/activity.ts'
import type { Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { topic } from '../promise.ts'

const one = (what: Counted, count = 1, parts: Partial<ActivityCount> = {}): ActivityCount => ({
  ...{ agoMs: 0, type: 'plain', what, count },
  ...parts,
})

async function sums(
  bench: Bench,
  { types = ['plain'], sinceMs = 0, store = bench.store }: { types?: string[]; sinceMs?: number; store?: Store } = {},
): Promise<[number, string, number][]> {
  const found = await store.activity({ types, sinceMs })
  const sorted = found.toSorted(
    (a: MinuteCount, b: MinuteCount) => a.minuteMs - b.minuteMs || (a.what < b.what ? -1 : 1),
  )
  return sorted.map(({ minuteMs, what, count }) => [minuteMs, what, count])
}

export const activity = topic('activity', {
  async 'what processes count is added up, each in the minute in which it was'(bench) {
    const [store, other] = await bench.openMany(2)
    // So that a minute begins just here.
    await bench.clock.advance(MINUTE_MS - (bench.clock.nowMs() % MINUTE_MS))
    const nowMs = bench.clock.nowMs()
    await store.addActivity({
      counts: [one('complete', 2), one('complete', 3, { agoMs: 1 }), one('complete', 4, { agoMs: MINUTE_MS })],
    })
    await (other ?? store).addActivity({ counts: [one('complete', 5), one('fault:caller', 1)] })
    assert.deepEqual(await sums(bench), [
      [nowMs - MINUTE_MS, 'complete', 7],
      [nowMs, 'complete', 7],
      [nowMs, 'fault:caller', 1],
    ])
    await store.addActivity({ counts: [] })
  },

  async 'many processes that count at once lose nothing, and do not wait for each other for ever'(bench) {
    const stores = await bench.openMany(3)
    const counts = ['complete', 'failed', 'wait:7', 'wait:3', 'fault:code'].map((what) => one(what as Counted))
    await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        (stores[i % stores.length] as Store).addActivity({ counts: i % 2 === 0 ? counts : counts.toReversed() }),
      ),
    )
    for (const [, what, count] of await sums(bench)) assert.equal(count, 30, what)
  },

  async 'it is read for the types that are asked for, from a minute on'(bench) {
    const startMs = bench.clock.nowMs()
    await bench.store.addActivity({ counts: [one('complete'), one('failed', 2, { type: 'other' })] })
    await bench.clock.advance(2 * MINUTE_MS)
    await bench.store.addActivity({ counts: [one('complete', 4)] })
    const counts = async (types: string[], sinceMs = 0) =>
      (await sums(bench, { types, sinceMs })).map(([, what, count]) => [what, count])
    assert.deepEqual(await counts(['other']), [['failed', 2]])
    assert.deepEqual(await counts(['plain']), [
      ['complete', 1],
      ['complete', 4],
    ])
    assert.deepEqual(await counts(['plain', 'other'], startMs + MINUTE_MS), [['complete', 4]])
    assert.deepEqual((await counts(['plain', 'other'], startMs)).length, 3, 'the whole minute of that time')
    assert.deepEqual(await counts(['nobody']), [])
    assert.deepEqual(await counts([]), [])
  },

  async 'of types that want no aggregates nothing is kept, whoever counted it, nor of types that nobody declared'(
    bench,
  ) {
    const other = await bench.open()
    await bench.declare('lone', policy({ aggregates: false }), other)
    const counts = ['lone', 'nobody', 'plain'].map((type) => one('complete', 1, { type }))
    await bench.store.addActivity({ counts })
    await bench.declare('lone', policy({ aggregates: true }), other)
    assert.deepEqual(await sums(bench, { types: ['lone', 'nobody'] }), [])
    assert.equal((await sums(bench)).length, 1)
  },

  async 'old counts are removed, so many at a time, and newer ones stay'(bench) {
    for (const what of ['complete', 'failed', 'cancelled'] as const)
      await bench.store.addActivity({ counts: [one(what)] })
    await bench.clock.advance(2 * HOUR_MS)
    await bench.store.addActivity({ counts: [one('complete', 9)] })
    const prune = () => bench.store.pruneActivity({ olderThanMs: HOUR_MS, limit: 2 })
    assert.deepEqual([await prune(), await prune(), await prune()], [2, 1, 0])
    assert.deepEqual(
      (await sums(bench)).map(([, , count]) => count),
      [9],
    )
  },
})
