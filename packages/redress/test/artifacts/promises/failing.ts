import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { PART_BYTES } from '../benches.ts'
import { contentOf, keysOf, refused, sha256, someBytes, streamOf } from '../bytes.ts'
import type { Place } from './place.ts'

/** A put that fails leaves everything as it was, and tells whose failure it was. */
export function failingPromises(place: Place): void {
  describe('a put that fails', () => {
    beforeEach(() => place.store.put('k', 'what was there before'))
    afterEach(async () => {
      expect((await contentOf(place.store, 'k')).toString()).toBe('what was there before')
      expect(await keysOf(place.store)).toEqual(['k'])
    })

    test.each([100, 2 * PART_BYTES])('rejects with the error of its source, after %i bytes', async (length) => {
      const broken = new Error('the download broke')
      async function* source() {
        yield someBytes(length)
        throw broken
      }
      await expect(place.store.put('k', source())).rejects.toBe(broken)
      await expect(place.store.put('new/place', Readable.from(source()))).rejects.toBe(broken)
    })

    test.each([100, 2 * PART_BYTES])(
      'is stopped by its signal while the source is silent, after %i bytes',
      async (length) => {
        const stop = new AbortController()
        const source = new Readable({ read() {} })
        source.push(someBytes(length))
        const putting = place.store.put('k', source, { signal: stop.signal })
        const isRead = until('the source has nothing more to give', () => source.readableLength === 0)
        void isRead.then(() => stop.abort(new Error('no time left')))
        await expect(putting).rejects.toThrow('no time left')
        expect(source.destroyed).toBe(true)
      },
    )

    test('is not begun when the signal was aborted before', async () => {
      const source = streamOf(someBytes(10))
      await expect(place.store.put('k', source, { signal: AbortSignal.abort('gone') })).rejects.toBe('gone')
      expect(source.destroyed).toBe(true)
    })

    test.each([1000, 2 * PART_BYTES])('is refused at byte %i + 1', async (bytesMax) => {
      const source = streamOf(someBytes(bytesMax + 1))
      await refused('ARTIFACT_TOO_LARGE', place.store.put('k', source, { bytesMax }))
      expect(source.destroyed).toBe(true)
      await place.store.put('fits', streamOf(someBytes(bytesMax)), { bytesMax })
      await place.store.remove('fits')
    })

    test('leaves the stream open if asked, because a refused request still needs its answer', async () => {
      const source = streamOf(someBytes(1_000_000), 1000)
      await refused('ARTIFACT_TOO_LARGE', place.store.put('k', source, { bytesMax: 5000, keepBodyOpen: true }))
      expect(source.destroyed).toBe(false)
      // It can still be drained, as a server does before it answers.
      expect((await buffer(source)).length).toBeGreaterThan(900_000)
    })

    test.each([100, 2 * PART_BYTES])('has another checksum than was announced (%i bytes)', async (length) => {
      const bytes = someBytes(length)
      await refused('ARTIFACT_MISMATCH', place.store.put('k', streamOf(bytes), { sha256: sha256('other') }))
      const stored = await place.store.put('right', streamOf(bytes), { sha256: sha256(bytes) })
      expect((await place.store.head('right')).sha256).toBe(stored.sha256)
      await place.store.remove('right')
    })

    test('was given a stream that was read before', async () => {
      const source = streamOf(someBytes(10))
      await buffer(source)
      await refused('OPTION_INVALID', place.store.put('k', source))
    })

    test('was given a stream that makes text of its bytes', async () => {
      await refused('OPTION_INVALID', place.store.put('k', streamOf(someBytes(10)).setEncoding('latin1')))
    })

    test.each(['', 'gzip\r\nX-Other: 1', 'gz ip', 'x'.repeat(41)])(
      'was given %j as its encoding',
      async (contentEncoding) => {
        await refused('OPTION_INVALID', place.store.put('k', 'x', { contentEncoding }))
      },
    )

    test.each(['', 'text/plain\r\nX-Other: 1', 'x'.repeat(201)])('was given %j as its type', async (contentType) => {
      await refused('OPTION_INVALID', place.store.put('k', 'x', { contentType }))
    })

    test('was given a stream of objects', async () => {
      await refused('OPTION_INVALID', place.store.put('k', Readable.from([{ not: 'bytes' }])))
    })
  })
}
