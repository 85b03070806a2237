import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { ArtifactStore } from '../../src/artifacts/artifact-store.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import { type Bench, folderBench } from './benches.ts'
import { contentOf, keysOf, refused, sha256, someBytes, streamOf } from './bytes.ts'
import { putElsewhere } from './processes.ts'

const HOUR_MS = 3_600_000

let bench: Bench & { root: string }
let store: ArtifactStore
let outside: string

beforeEach(async () => {
  bench = folderBench()
  store = await bench.open()
  outside = mkdtempSync(join(tmpdir(), 'redress-outside-'))
  writeFileSync(join(outside, 'secret'), 'not yours')
})
afterEach(async () => {
  await bench.stop()
  rmSync(outside, { recursive: true })
})

const inRoot = (...names: string[]) => join(bench.root, ...names)
const sidecars = (folder = '') => readdirSync(inRoot(folder)).filter((name) => /^\..*\.json$/.test(name))

type Method = (this: FileHandle, ...given: unknown[]) => Promise<unknown>

/** Puts itself between the store and one method of every open file. */
async function onFileHandles(
  name: 'sync' | 'stat',
  act: (this: FileHandle, real: Method, ...given: unknown[]) => Promise<unknown>,
): Promise<void> {
  const handle = await open(inRoot('.tmp'), 'r')
  const prototype = Object.getPrototypeOf(handle)
  await handle.close()
  const real: Method = prototype[name]
  prototype[name] = function (this: FileHandle, ...given: unknown[]) {
    return act.call(this, real, ...given)
  }
  onTestFinished(() => {
    prototype[name] = real
  })
}

describe('files beside each other', () => {
  test('a key that is the folder of others cannot be an artifact, nor the other way round', async () => {
    await store.put('a/b', 'x')
    await refused('ARTIFACT_KEY_INVALID', store.put('a', 'y'))
    await refused('ARTIFACT_KEY_INVALID', store.put('a/b/c', 'y'))
    await refused('ARTIFACT_KEY_INVALID', store.put('a/b/c/d', 'y'))
    expect(await keysOf(store)).toEqual(['a/b'])
    expect(bench.leftovers()).toEqual([])
  })

  test('puts and removals in one folder do not trip over the folder coming and going', async () => {
    const comeAndGo = async (key: string) => {
      for (let i = 0; i < 40; i++) {
        await store.put(key, `${i}`)
        await store.remove(key)
      }
    }
    await Promise.all(['a', 'b', 'c', 'd'].map((name) => comeAndGo(`shared/deep/${name}`)))
    expect(await keysOf(store)).toEqual([])
    expect(bench.leftovers()).toEqual([])
  })

  test('only the user who runs the server may read them', async () => {
    await store.put('a/b', 'x')
    expect(statSync(inRoot('a')).mode & 0o777).toBe(0o700)
    expect(statSync(inRoot('a/b')).mode & 0o777).toBe(0o600)
  })

  test('where capitals do not count, a key is not taken for another', async () => {
    await store.put('report', 'x')
    // What such a file system would show: the file of one key under the name of another.
    const [sidecar = ''] = sidecars()
    writeFileSync(inRoot(sidecar), readFileSync(inRoot(sidecar), 'utf8').replace('"report"', '"REPORT"'))
    await refused('ARTIFACT_NOT_FOUND', store.get('report'))
    await refused('ARTIFACT_KEY_INVALID', store.put('report', 'y'))
  })
})

describe('checksums', () => {
  test('fit the bytes, also when the artifact is replaced between opening it and asking for them', async () => {
    await store.put('k', 'older')
    let isReplaced = false
    await onFileHandles('stat', async function (stat, ...given) {
      const stats = await stat.apply(this, given)
      if (!isReplaced) {
        isReplaced = true
        await store.put('k', 'newer')
      }
      return stats
    })
    const content = await store.get('k', { verify: true })
    expect(content.sha256).toBe(sha256('newer'))
    expect((await buffer(content.body)).toString()).toBe('newer')
  })

  test('come along when the folder is copied, as from a backup', async () => {
    await store.put('a/b', 'x')
    await store.put('a/c', 'y')
    const copy = join(outside, 'copy')
    cpSync(bench.root, copy, { recursive: true })
    const restored = await bench.open({ url: `file:${copy}` })
    expect(await restored.verify('a/b')).toEqual({ verdict: 'intact', bytes: 1, sha256: sha256('x') })
    writeFileSync(join(copy, 'a/c'), 'z')
    expect((await restored.verify('a/c')).verdict).toBe('corrupt')
  })

  test('a file that was cut short is not handed out', async () => {
    await store.put('k', 'whole')
    truncateSync(inRoot('k'), 3)
    await refused('ARTIFACT_CORRUPT', store.get('k'))
    expect((await store.verify('k')).verdict).toBe('corrupt')
  })

  test('a sidecar that a power cut left half-written means that nothing is known', async () => {
    await store.put('k', 'whole')
    const [sidecar = ''] = sidecars()
    truncateSync(inRoot(sidecar), 10)
    expect((await contentOf(store, 'k')).toString()).toBe('whole')
    expect((await store.verify('k')).verdict).toBe('unknown')
  })

  test('sidecars without their artifact are swept when they are old', async () => {
    await store.put('a/k', 'first')
    await store.put('b/gone', 'x')
    cpSync(inRoot('a', sidecars('a')[0] ?? ''), inRoot('a', '.k.1-1.json'))
    rmSync(inRoot('b/gone'))
    const clock = new VirtualClock(Date.now())
    const later = await bench.open({ clock })
    expect(await later.sweep()).toEqual({ removed: 0 })
    await clock.advance(2 * HOUR_MS)
    expect(await later.sweep()).toEqual({ removed: 2 })
    expect((await store.verify('a/k')).verdict).toBe('intact')
    expect(bench.leftovers()).toEqual([])
  })
})

describe('a writer that is killed', () => {
  test('leaves nothing that can be seen, and what it wrote is swept after an hour', async () => {
    await store.put('a/k', 'before')
    const writer = putElsewhere({ url: `file:${bench.root}`, limits: {} }, 'a/k', 8 * 2 ** 20, 'stall')
    expect(await writer.next()).toEqual({ writing: true })
    await writer.kill()

    const [temporary = ''] = readdirSync(inRoot('.tmp'))
    expect(statSync(inRoot('.tmp', temporary)).size).toBeGreaterThan(2 ** 20)
    expect((await contentOf(store, 'a/k', { verify: true })).toString()).toBe('before')
    expect(await keysOf(store)).toEqual(['a/k'])

    // Another process starts: a file written just now may be somebody's, one written an hour ago is nobody's.
    await bench.open()
    expect(existsSync(inRoot('.tmp', temporary))).toBe(true)
    const longAgo = new Date(Date.now() - 1.1 * HOUR_MS)
    utimesSync(inRoot('.tmp', temporary), longAgo, longAgo)
    await bench.open()
    expect(bench.leftovers()).toEqual([])
  })
})

test('a temporary file that is swept under its writer fails the put and nothing else', async () => {
  async function* source() {
    yield someBytes(1000)
    rmSync(inRoot('.tmp', readdirSync(inRoot('.tmp'))[0] ?? ''))
    yield someBytes(1000)
  }
  await refused('STORAGE_FAILED', store.put('a/k', source()))
  expect(await keysOf(store)).toEqual([])
  expect(bench.leftovers()).toEqual([])
})

test('a folder that cannot be made is a failure with its cause', async () => {
  const error = await refused('STORAGE_FAILED', bench.open({ url: `file:${join(outside, 'secret', 'below')}` }))
  expect(error.cause).toMatchObject({ code: 'ENOTDIR' })
})

test('a million bytes in many pieces are read back in many pieces', async () => {
  await store.put('k', streamOf(someBytes(1_000_000), 977))
  expect((await contentOf(store, 'k')).equals(someBytes(1_000_000))).toBe(true)
})

describe('on disk', () => {
  test('are content and checksum before the artifact is seen, and its name before the put is answered', async () => {
    const seen: boolean[] = []
    await onFileHandles('sync', function (sync) {
      seen.push(existsSync(inRoot('a/k')))
      return sync.call(this)
    })
    await store.put('a/k', 'x')
    // Content, checksum, the new folder's name; then the artifact's own.
    expect(seen).toEqual([false, false, false, true])
  })

  test.each([1, 2, 3])('a disk that fails at flush %i leaves nothing to see', async (failing) => {
    let calls = 0
    await onFileHandles('sync', async function (sync) {
      calls++
      if (calls === failing) throw Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO', errno: -5 })
      return sync.call(this)
    })
    const error = await refused('STORAGE_FAILED', store.put('a/k', 'x'))
    expect(error.message).toBe('The file system answered EIO while storing a/k.')
    expect(await keysOf(store)).toEqual([])
    expect(bench.leftovers()).toEqual([])
  })
})
