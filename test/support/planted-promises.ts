import { mkdtempSync, rmSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Store } from '../../packages/redress/src/store/contract/store.ts'
import type { PlantedBug } from './planted-bugs.ts'

/**
 * Keeps the promises of a store whose names match, in a process of its own whose sources have a bug planted in them as
 * they are loaded. A test runner would take longer to start than most of them take to run.
 */
const [tests = '', planted = 'null'] = process.argv.slice(2)
const bug = JSON.parse(planted) as Pick<PlantedBug, 'file' | 'find' | 'replace'> | null
const PROMISE_MS_MAX = 30_000

let times = 0
if (bug !== null) {
  const target = pathToFileURL(join(import.meta.dirname, '../..', bug.file)).href
  registerHooks({
    load(url, context, next) {
      const loaded = next(url, context)
      if (url !== target) return loaded
      const text = Buffer.from(loaded.source as Uint8Array).toString()
      times = text.split(bug.find).length - 1
      return { ...loaded, source: text.replace(bug.find, () => bug.replace) }
    },
  })
}
const { keep, promises } = await import('../../packages/redress/src/store/conformance/index.ts')
const { openSqlite } = await import('../../packages/redress/src/store/sqlite/store.ts')

const folder = mkdtempSync(join(tmpdir(), 'redress-planted-'))
const inMemory = new Map<string, Store>()
const drivers = {
  'sqlite file': ({ place, nowMs }: { place: string; nowMs: () => number }) =>
    openSqlite({ path: join(folder, place, 'store.db'), nowMs }),
  'sqlite memory': ({ place, nowMs }: { place: string; nowMs: () => number }) => {
    const store = inMemory.get(place) ?? openSqlite({ path: ':memory:', nowMs })
    inMemory.set(place, store)
    return store
  },
} as const

const wanted = new RegExp(tests)
const verdict = { times, passed: 0, failed: 0, said: '' }
let stray: unknown = null
process.on('unhandledRejection', (error) => {
  stray = error
})
for (const [driver, open] of Object.entries(drivers)) {
  for (const [i, promise] of promises.entries()) {
    if (!wanted.test(`${driver}: ${promise.topic}: ${promise.name}`)) continue
    try {
      await Promise.race([keep(promise, open, `promise-${i + 1}`), late()])
      if (stray !== null) throw stray
      verdict.passed++
    } catch (error) {
      verdict.failed++
      verdict.said += `${promise.name}: ${error}\n`
      stray = null
    }
  }
}
rmSync(folder, { recursive: true, force: true })
process.stdout.write(JSON.stringify(verdict), () => process.exit(0))

/** One that waits for ever has not been kept. */
function late(): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`not kept within ${PROMISE_MS_MAX} ms`)), PROMISE_MS_MAX).unref()
  })
}
