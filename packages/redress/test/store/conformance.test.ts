import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { IS_LONG } from '../../../../test/support/size.ts'
import { conformance, keep, type OpenStore, promises, type StorePromise } from '../../src/store/conformance/index.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const folder = mkdtempSync(join(tmpdir(), 'redress-conformance-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const inFile: OpenStore = ({ place, nowMs }) => openSqlite({ path: join(folder, place, 'store.db'), nowMs })

/** Memory ends with its process, so it cannot keep these. */
const ONLY_IN_FILE = new Set([
  'what was acknowledged is there after every process has ended',
  'a lease outlives the process that gave it',
  'a breaker stands after every process has ended as it stood before',
])

/** Keeps a promise in memory, where all handles are one; answers how many handles it opened. */
async function keepInMemory(promise: StorePromise, place: string): Promise<number> {
  let handles = 0
  let store: Store | null = null
  await keep(
    promise,
    ({ nowMs }) => {
      handles++
      store ??= openSqlite({ path: ':memory:', nowMs })
      return store
    },
    place,
  )
  return handles
}

// The file matters to promises about several handles. The others are the same statements, and are tried on a file, too,
// in the long run.
for (const [i, promise] of promises.entries()) {
  const place = `promise-${i + 1}`
  test(`sqlite: ${promise.topic}: ${promise.name}`, async () => {
    const handles = ONLY_IN_FILE.has(promise.name) ? Number.POSITIVE_INFINITY : await keepInMemory(promise, place)
    if (IS_LONG || handles > 1) await keep(promise, inFile, place)
  })
}

test('the promises that only a file can keep are promises of the suite', () => {
  const names = new Set(promises.map(({ name }) => name))
  expect([...ONLY_IN_FILE].filter((name) => !names.has(name))).toEqual([])
})

describe('the suite', () => {
  const open = () => openSqlite({ path: ':memory:', nowMs: () => 0 })
  const registered = (skip: { test: string; reason: string }[]): string[] => {
    const names: string[] = []
    conformance({ test: (name) => names.push(name) }, { name: 'mine', open, skip })
    return names
  }

  test('registers every promise, and each has its own sentence', () => {
    expect(registered([])).toHaveLength(promises.length)
    expect(new Set(promises.map(({ name }) => name)).size).toBe(promises.length)
  })

  test('shows a skipped promise with its reason', () => {
    const [first] = promises
    const names = registered([{ test: String(first?.name), reason: 'it is flat' }])
    expect(names[0]).toBe(`mine: ${first?.topic}: ${first?.name} (not promised: it is flat)`)
    expect(names).toHaveLength(promises.length)
  })

  test('refuses to skip what it does not know, or without a reason', () => {
    expect(() => registered([{ test: 'no such sentence', reason: 'why not' }])).toThrow('not the sentence')
    expect(() => registered([{ test: String(promises[0]?.name), reason: ' ' }])).toThrow('does not say why')
  })
})
