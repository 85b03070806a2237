import { buffer } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { PART_BYTES } from '../benches.ts'
import { contentOf, keysOf, refused, sha256, someBytes, streamOf } from '../bytes.ts'
import type { Place } from './place.ts'

/** What can be read, and under which names. */
export function readingPromises(place: Place): void {
  describe('reading', () => {
    test('what is not there is not found, and removing it is no failure', async () => {
      await place.store.put('folder/there', 'x')
      for (const key of ['absent', 'folder', 'folder/there/below', 'folder/absent']) {
        await refused('ARTIFACT_NOT_FOUND', place.store.get(key))
        await refused('ARTIFACT_NOT_FOUND', place.store.head(key))
        await refused('ARTIFACT_NOT_FOUND', place.store.verify(key))
        await place.store.remove(key)
      }
      expect(await keysOf(place.store)).toEqual(['folder/there'])
    })

    test('a removed artifact is gone', async () => {
      await place.store.put('a/b/c', 'x')
      await place.store.remove('a/b/c')
      await refused('ARTIFACT_NOT_FOUND', place.store.get('a/b/c'))
      await place.store.remove('a/b/c')
      expect(await keysOf(place.store)).toEqual([])
    })

    const ranges: [{ start: number; end?: number }, string][] = [
      [{ start: 0, end: 0 }, '0'],
      [{ start: 2, end: 4 }, '234'],
      [{ start: 7 }, '789'],
      [{ start: 8, end: 99 }, '89'],
      [{ start: 0 }, '0123456789'],
    ]
    test.each(ranges)('the range %j', async (range, expected) => {
      await place.store.put('digits', '0123456789')
      const content = await place.store.get('digits', { range })
      expect((await buffer(content.body)).toString()).toBe(expected)
      expect(content).toMatchObject({ bytes: 10, sha256: sha256('0123456789') })
      expect(content.range).toEqual({ start: range.start, end: range.start + expected.length - 1 })
    })

    test.each([{ start: 10 }, { start: 5, end: 4 }, { start: -1 }, { start: 0.5 }])('no range: %j', async (range) => {
      await place.store.put('digits', '0123456789')
      await refused('ARTIFACT_RANGE_INVALID', place.store.get('digits', { range }))
    })

    test('an aborted signal breaks the body off with its reason', async () => {
      await place.store.put('k', streamOf(someBytes(3_000_000)))
      const stop = new AbortController()
      const { body } = await place.store.get('k', { signal: stop.signal })
      const reading = buffer(body)
      stop.abort(new Error('not wanted any more'))
      await expect(reading).rejects.toThrow('not wanted any more')
      await expect(place.store.get('k', { signal: stop.signal })).rejects.toThrow('not wanted any more')
    })

    test.each([1000, 2 * PART_BYTES + 5])(
      '%i bytes of which one has changed are found to be corrupt',
      async (length) => {
        await place.store.put('k', streamOf(someBytes(length)))
        place.bench.corrupt('k')
        expect(await place.store.verify('k')).toMatchObject({ verdict: 'corrupt', bytes: length })
        await refused('ARTIFACT_CORRUPT', contentOf(place.store, 'k', { verify: true }))
      },
    )

    test('about what another program put there nothing is known', async () => {
      place.bench.plant('foreign', 'x')
      expect(await place.store.verify('foreign')).toEqual({ verdict: 'unknown', bytes: 1, sha256: sha256('x') })
      expect((await place.store.head('foreign')).sha256).toBeNull()
      expect((await contentOf(place.store, 'foreign', { verify: true })).toString()).toBe('x')
      await place.store.put('foreign', 'ours')
      expect((await place.store.verify('foreign')).verdict).toBe('intact')
    })
  })

  describe('keys', () => {
    const bad = ['', '/', 'a/', '/a', 'a//b', '.', '..', 'a/../b', '../a', '.tmp/x', 'a/.b', 'a.', 'a\\b', 'a\0b']
    const worse = ['a b', 'ä', 'a\nb', 'C:x', 'a'.repeat(201), 'a/'.repeat(400), '%\u202e', 'a/..', 'a/./b', '~/..']
    test.each([...bad, ...worse])('%j is refused everywhere', async (key) => {
      const source = streamOf(someBytes(10))
      await refused('ARTIFACT_KEY_INVALID', place.store.put(key, source))
      expect(source.destroyed).toBe(true)
      await refused('ARTIFACT_KEY_INVALID', place.store.get(key))
      await refused('ARTIFACT_KEY_INVALID', place.store.head(key))
      await refused('ARTIFACT_KEY_INVALID', place.store.verify(key))
      await refused('ARTIFACT_KEY_INVALID', place.store.remove(key))
    })

    test.each(['a', 'A-1', "r/(1)!$'+,=@~_-.x", 'a/%2e%2e/b', 'a'.repeat(200), '~', '-rf', '100%'])(
      '%j is stored and found under its name',
      async (key) => {
        await place.store.put(key, 'x')
        expect((await contentOf(place.store, key)).toString()).toBe('x')
        expect(await keysOf(place.store)).toEqual([key])
      },
    )
  })
}
