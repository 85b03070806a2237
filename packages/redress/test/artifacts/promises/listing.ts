import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { VirtualClock } from '../../../src/runtime/clock.ts'
import { PART_BYTES } from '../benches.ts'
import { contentOf, keysOf, refused, someBytes, streamOf } from '../bytes.ts'
import type { Place } from './place.ts'

/** What is there, in order, and how it goes again. */
export function listingPromises(place: Place): void {
  describe('listing', () => {
    const names = ['a', 'a-b', 'a/b', 'a/b/c', 'a/c', 'a0', 'ab/x', 'ab/y/z', 'b/1', 'b/10', 'b/2', 'zz']
    // 'a' cannot be both a file and a folder.
    const tree = names.filter((key) => !['a', 'a/b'].includes(key))

    test('gives keys in the order of their bytes, by prefix, page by page', async () => {
      await Promise.all(tree.map((key) => place.store.put(key, key)))
      const inOrder = [...tree].sort()
      expect(await keysOf(place.store)).toEqual(inOrder)
      const cases = fc.record({
        prefix: fc.constantFrom('', 'a', 'a/', 'a/b/', 'ab/y', 'b', 'b/1', 'c', 'b/10', 'zz/'),
        after: fc.constantFrom('', ...names, 'a/', 'b/1z', '\u007f'),
        limit: fc.integer({ min: 1, max: 12 }),
      })
      await fc.assert(
        fc.asyncProperty(cases, async ({ prefix, after, limit }) => {
          const { artifacts, next } = await place.store.list({ prefix, after, limit })
          const wanted = inOrder.filter((key) => key.startsWith(prefix) && key > after)
          expect(artifacts.map(({ key }) => key)).toEqual(wanted.slice(0, limit))
          expect(next).toBe(wanted.length > limit ? wanted[limit - 1] : null)
        }),
        { numRuns: 60 },
      )
    })

    test('tells length and time', async () => {
      await place.store.put('k', 'four')
      const { artifacts } = await place.store.list()
      expect(artifacts).toEqual([{ key: 'k', bytes: 4, modifiedAtMs: expect.any(Number) }])
      expect(Math.abs((artifacts[0]?.modifiedAtMs ?? 0) - Date.now())).toBeLessThan(60_000)
    })

    test('refuses prefixes that no key can have', async () => {
      for (const prefix of ['../', '/', 'a/../', '.', 'a//']) {
        await refused('ARTIFACT_KEY_INVALID', place.store.list({ prefix }))
      }
      await refused('OPTION_INVALID', place.store.list({ limit: 0 }))
    })
  })

  describe('retention', () => {
    const DAY_MS = 86_400_000

    test('removes what is old, in bounded steps, and keeps what is asked for', async () => {
      const clock = new VirtualClock(Date.now())
      const aged = await place.bench.open({ clock })
      for (let i = 0; i < 7; i++) await place.store.put(`sources/${i}`, 'xx')
      await place.store.put('results/1', 'x')
      expect(await aged.removeOlderThan({ olderThanMs: DAY_MS })).toEqual({ removed: 0, bytesRemoved: 0, next: null })
      await clock.advance(2 * DAY_MS)

      const steps: number[] = []
      for (let after: string | null = ''; after !== null; ) {
        const options = { prefix: 'sources/', olderThanMs: DAY_MS, limit: 3, after }
        const step = await aged.removeOlderThan({ ...options, keep: async ({ key }) => key === 'sources/4' })
        expect(step.bytesRemoved).toBe(2 * step.removed)
        steps.push(step.removed)
        after = step.next
      }
      expect(steps).toEqual([3, 2, 1])
      expect(await keysOf(place.store)).toEqual(['results/1', 'sources/4'])
      await aged.close()
    })

    test('spares an artifact that was stored anew while others were being removed', async () => {
      const clock = new VirtualClock(Date.now() + 2 * DAY_MS)
      const aged = await place.bench.open({ clock })
      await place.store.put('k', 'old')
      const step = await aged.removeOlderThan({
        olderThanMs: DAY_MS,
        async keep() {
          await place.store.put('k', 'fresh')
          return false
        },
      })
      expect(step.removed).toBe(0)
      expect((await contentOf(place.store, 'k')).toString()).toBe('fresh')
      await aged.close()
    })

    test.each([Number.NaN, -1, undefined as never])('an age of %j removes nothing', async (olderThanMs) => {
      await place.store.put('k', 'x')
      await refused('OPTION_INVALID', place.store.removeOlderThan({ olderThanMs }))
      expect(await keysOf(place.store)).toEqual(['k'])
    })

    test('sweeping touches nothing that can be seen', async () => {
      await place.store.put('a/b', 'x')
      await place.store.put('large', streamOf(someBytes(PART_BYTES + 1)))
      await place.store.sweep({ olderThanMs: -60_000 })
      expect((await place.store.verify('a/b')).verdict).toBe('intact')
      expect((await place.store.verify('large')).verdict).toBe('intact')
    })
  })
}
