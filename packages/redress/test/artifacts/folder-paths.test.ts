import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ArtifactStore } from '../../src/artifacts/artifact-store.ts'
import { isKey, keyPart } from '../../src/artifacts/key.ts'
import { type Bench, folderBench } from './benches.ts'
import { contentOf, keysOf, refused } from './bytes.ts'

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

describe('the way out of the folder', () => {
  const piece = fc.constantFrom(
    '..',
    '.',
    '/',
    '\\',
    '\0',
    '~',
    '%2e%2e',
    '%2f',
    'a',
    'b',
    '.tmp',
    ' ',
    '\n',
    'C:',
    '*',
  )
  const text = fc.oneof(
    fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
    fc.array(piece, { maxLength: 5 }).map((pieces) => pieces.join('/')),
    fc.string({ unit: 'binary', maxLength: 30 }),
  )

  test('is not by any text: a path made from a key is the root, a slash and that key', () => {
    fc.assert(
      fc.property(text, (key) => {
        if (isKey(key)) expect(resolve('/root', key)).toBe(`/root/${key}`)
      }),
      { numRuns: 20_000 },
    )
  })

  test('is not by any text: what is accepted is written there and nowhere else', async () => {
    await fc.assert(
      fc.asyncProperty(text, async (key) => {
        try {
          await store.put(key, 'x')
        } catch (error) {
          expect(error).toMatchObject({ code: 'ARTIFACT_KEY_INVALID' })
          return
        }
        expect(key).not.toMatch(/(^|\/)\.|\/\/|^\/|\\/)
        expect(readFileSync(inRoot(key), 'utf8')).toBe('x')
        await store.remove(key)
      }),
      { numRuns: 150 },
    )
    expect(readdirSync(bench.root)).toEqual(['.tmp'])
  })

  test('is not through a symbolic link in place of a folder', async () => {
    symlinkSync(outside, inRoot('linked'))
    mkdirSync(inRoot('deep'))
    symlinkSync(outside, inRoot('deep', 'linked'))
    for (const key of ['linked/secret', 'linked/new', 'linked/new/below', 'deep/linked/secret', 'deep/linked/a/b']) {
      await refused('ARTIFACT_KEY_INVALID', store.put(key, 'x'))
      if (!key.endsWith('below') && !key.endsWith('/a/b')) await refused('ARTIFACT_KEY_INVALID', store.get(key))
      else await refused('ARTIFACT_NOT_FOUND', store.get(key))
      await store.remove(key).catch((error) => expect(error).toMatchObject({ code: 'ARTIFACT_KEY_INVALID' }))
    }
    expect(readdirSync(outside)).toEqual(['secret'])
    expect(await keysOf(store)).toEqual([])
    expect(await keysOf(store, 'linked/')).toEqual([])
  })

  test('is not through a symbolic link in place of an artifact', async () => {
    symlinkSync(join(outside, 'secret'), inRoot('linked'))
    await refused('ARTIFACT_KEY_INVALID', store.get('linked'))
    await refused('ARTIFACT_KEY_INVALID', store.put('linked', 'x'))
    await refused('ARTIFACT_KEY_INVALID', store.remove('linked'))
    expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('not yours')
    expect(await keysOf(store)).toEqual([])
  })

  test('is not through the folder of temporary files', async () => {
    rmSync(inRoot('.tmp'), { recursive: true })
    symlinkSync(outside, inRoot('.tmp'))
    await refused('OPTION_INVALID', bench.open())
    expect(readdirSync(outside)).toEqual(['secret'])
  })

  test('a pipe in place of an artifact does not make a reader wait for ever', async () => {
    execFileSync('mkfifo', [inRoot('pipe')])
    await refused('ARTIFACT_NOT_FOUND', store.get('pipe'))
  })

  test('the folder itself may be reached through a link', async () => {
    symlinkSync(bench.root, join(outside, 'way-in'))
    const other = await bench.open({ url: `file:${join(outside, 'way-in')}` })
    await other.put('a/b', 'x')
    expect((await contentOf(store, 'a/b')).toString()).toBe('x')
  })
})

describe('names from outside', () => {
  test('become parts of keys that are accepted, and differ where the names do, also without regard to capitals', () => {
    const name = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 300 }),
      fc.constantFrom('', '.', '..', 'a', 'A', 'a.', 'é'),
    )
    fc.assert(
      fc.property(name, name, (a, b) => {
        const [one, other] = [keyPart(a), keyPart(b)]
        expect(one).toMatch(/^[a-z0-9_%~-][a-z0-9_%~.-]{0,199}$/)
        expect(one.toLowerCase() === other.toLowerCase()).toBe(a === b)
      }),
      { numRuns: 2000 },
    )
    expect(keyPart('report-1.xml')).toBe('report-1.xml')
    expect(keyPart('\ud800')).not.toBe(keyPart('\ud801'))
  })
})
