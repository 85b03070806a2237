import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { conformance, promises } from '../../src/store/conformance/index.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'

const folder = mkdtempSync(join(tmpdir(), 'redress-conformance-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

conformance(
  { test },
  {
    name: 'sqlite file',
    open: ({ place, nowMs }) => openSqlite({ path: join(folder, place, 'store.db'), nowMs }),
  },
)

const inMemory = new Map<string, Store>()

conformance(
  { test },
  {
    name: 'sqlite memory',
    // One process and one handle: nobody else can reach this memory.
    open({ place, nowMs }) {
      const store = inMemory.get(place) ?? openSqlite({ path: ':memory:', nowMs })
      inMemory.set(place, store)
      return store
    },
    skip: [
      {
        test: 'what was acknowledged is there after every process has ended',
        reason: 'memory ends with its process',
      },
      { test: 'a lease outlives the process that gave it', reason: 'memory ends with its process' },
      {
        test: 'a breaker stands after every process has ended as it stood before',
        reason: 'memory ends with its process',
      },
    ],
  },
)

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
