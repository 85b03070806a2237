import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { ArtifactStore } from '../../../src/artifacts/artifact-store.ts'
import { PART_BYTES } from '../benches.ts'
import { contentOf, keysOf, refused, sha256, someBytes, streamOf } from '../bytes.ts'
import type { Place } from './place.ts'

/** What is put is there, whole, and nothing else is. */
export function puttingPromises(place: Place): void {
  describe('putting', () => {
    const text = 'Größe: 12 €\n'
    const forms: [string, () => Parameters<ArtifactStore['put']>[1]][] = [
      ['text', () => text],
      ['bytes', () => Buffer.from(text)],
      ['a stream', () => Readable.from([Buffer.from(text)])],
      ['a stream of text', () => Readable.from([text.slice(0, 3), text.slice(3)])],
      [
        'an async iterable',
        () => ({
          async *[Symbol.asyncIterator]() {
            yield Buffer.from(text)
          },
        }),
      ],
    ]
    test.each(forms)('%s comes back byte for byte, with its length, checksum and type', async (_, body) => {
      const stored = await place.store.put('a/b/report.txt', body(), { contentType: 'text/plain; charset=utf-8' })
      expect(stored).toEqual({ key: 'a/b/report.txt', bytes: Buffer.byteLength(text), sha256: sha256(text) })
      const { body: content, modifiedAtMs, ...head } = await place.store.get('a/b/report.txt')
      expect((await buffer(content)).toString()).toBe(text)
      expect(head).toEqual({
        ...stored,
        contentType: 'text/plain; charset=utf-8',
        contentEncoding: null,
        range: null,
      })
      expect(Math.abs(modifiedAtMs - Date.now())).toBeLessThan(60_000)
      expect(await place.store.head('a/b/report.txt')).toEqual({
        ...stored,
        contentType: head.contentType,
        contentEncoding: null,
        modifiedAtMs,
      })
    })

    test.each([0, 1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 2 * PART_BYTES + 12_345])(
      'a stream of %i bytes is stored whole',
      async (length) => {
        const bytes = someBytes(length)
        const stored = await place.store.put('large', streamOf(bytes))
        expect(stored).toEqual({ key: 'large', bytes: length, sha256: sha256(bytes) })
        expect(bytes.equals(await contentOf(place.store, 'large', { verify: true }))).toBe(true)
        expect(await place.store.verify('large')).toEqual({ verdict: 'intact', bytes: length, sha256: stored.sha256 })
        expect(await place.store.head('large')).toMatchObject({ bytes: length, contentType: null })
      },
    )

    test.each([10, PART_BYTES + 1])('%i encoded bytes keep their encoding and are not decoded', async (length) => {
      const bytes = gzipSync(someBytes(length))
      await place.store.put('packed', streamOf(bytes), { contentType: 'text/plain', contentEncoding: 'gzip' })
      expect(await place.store.head('packed')).toMatchObject({ bytes: bytes.byteLength, contentEncoding: 'gzip' })
      const { body, contentEncoding } = await place.store.get('packed', { verify: true })
      expect([contentEncoding, bytes.equals(await buffer(body))]).toEqual(['gzip', true])
      const part = await place.store.get('packed', { range: { start: 1, end: 4 } })
      expect([part.contentEncoding, bytes.subarray(1, 5).equals(await buffer(part.body))]).toEqual(['gzip', true])
    })

    test('a source may use the memory of its chunks again', async () => {
      const memory = Buffer.alloc(100_000)
      async function* reusing() {
        for (let i = 0; i < 150; i++) yield memory.fill(i)
      }
      await place.store.put('reused', reusing())
      const content = await contentOf(place.store, 'reused')
      expect([0, 1, 75, 149].map((i) => content[i * 100_000 + 99_999])).toEqual([0, 1, 75, 149])
    })

    test('another handle on the same place sees what was answered', async () => {
      await place.store.put('shared', 'x')
      const other = await place.bench.open()
      expect((await contentOf(other, 'shared')).toString()).toBe('x')
      await other.close()
    })

    test('a second put replaces the first, content, checksum and type together', async () => {
      await place.store.put('k', 'first', { contentType: 'text/plain' })
      await place.store.put('k', 'the second')
      const head = await place.store.head('k')
      expect(head).toMatchObject({ bytes: 10, sha256: sha256('the second'), contentType: null })
      expect((await contentOf(place.store, 'k', { verify: true })).toString()).toBe('the second')
    })

    test('of many puts to one key at once one wins whole, and readers never see a mixture', async () => {
      const handles = await Promise.all([place.bench.open(), place.bench.open(), place.bench.open()])
      const versions = Array.from({ length: 12 }, (_, i) => someBytes(50_000 + 10_000 * i, i))
      await place.store.put('contested', versions[0] as Buffer)
      let isOver = false
      const reading = (async () => {
        for (let reads = 0; !isOver || reads < 3; reads++) {
          // A wrong pairing of bytes and checksum makes this fail.
          const content = await contentOf(place.store, 'contested', { verify: true })
          expect(versions.some((version) => version.equals(content))).toBe(true)
        }
      })()
      const putting = versions.map((bytes, i) => (handles[i % 3] as ArtifactStore).put('contested', streamOf(bytes)))
      await Promise.all(putting).finally(() => {
        isOver = true
      })
      await reading
      expect(await place.store.verify('contested')).toMatchObject({ verdict: 'intact' })
      expect(await keysOf(place.store)).toEqual(['contested'])
      // The losers' checksums lie beside the winner until they are old.
      await place.store.sweep({ olderThanMs: -60_000 })
      await Promise.all(handles.map((handle) => handle.close()))
    })
  })

  describe('ifAbsent', () => {
    test('refuses what is there, before anything of the source is read', async () => {
      await place.store.put('k', 'mine')
      const source = new Readable({
        read() {
          throw new Error('nobody should have asked')
        },
      })
      await refused('ARTIFACT_EXISTS', place.store.put('k', source, { ifAbsent: true }))
      expect((await contentOf(place.store, 'k')).toString()).toBe('mine')
    })

    test.each([100, PART_BYTES + 100])('of many at once exactly one succeeds (%i bytes)', async (length) => {
      const outcomes = await Promise.allSettled(
        Array.from({ length: 6 }, (_, i) => place.store.put('k', streamOf(someBytes(length, i)), { ifAbsent: true })),
      )
      const won = outcomes.filter((outcome) => outcome.status === 'fulfilled')
      const lost = outcomes.filter((outcome) => outcome.status === 'rejected')
      expect(won).toHaveLength(1)
      expect(lost.map(({ reason }) => reason.code)).toEqual(Array(5).fill('ARTIFACT_EXISTS'))
      expect((await place.store.verify('k')).sha256).toBe(won[0]?.value.sha256)
    })
  })
}
