import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'

const SRC = join(import.meta.dirname, '../../src')

/** What importing a module loads at once, and not by `await import(...)`: modules of ours by path, packages by name. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen
  seen.add(file)
  const code = stripTypeScriptTypes(readFileSync(join(SRC, file), 'utf8'))
  const imports = code.matchAll(/^(?:import|export)\s(?:[^'"`(=]*?from\s)?'([^']+)'/gm)
  for (const [, name = ''] of imports) {
    if (name.startsWith('.')) loadedBy(join(dirname(file), name), seen)
    else seen.add(name)
  }
  return seen
}

const packagesIn = (loaded: Set<string>): string[] =>
  [...loaded].filter((name) => !name.endsWith('.ts') && !name.startsWith('node:')).sort()

test('importing redress loads no HTTP server, S3 client, mailer, tracing, database client or logger', () => {
  const loaded = loadedBy('index.ts')
  expect(packagesIn(loaded)).toEqual(['croner', 'zod'])
  expect(loaded.size).toBeGreaterThan(50)
})

test.each(['operations/table.ts', 'worker/worker.ts', 'http/server.ts', 'store/postgres/store.ts', 'cli/main.ts'])(
  'importing redress does not load %s',
  (file) => {
    expect(readFileSync(join(SRC, file), 'utf8')).not.toBe('')
    expect([...loadedBy('index.ts')]).not.toContain(file)
  },
)

test.each([
  ['artifacts/index.ts', []],
  ['programs/index.ts', []],
  ['sse/index.ts', []],
  ['notify/index.ts', ['zod']],
])('importing %s loads only these packages: %j', (file, packages) => {
  expect(packagesIn(loadedBy(file))).toEqual(packages)
})
