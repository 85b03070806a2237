import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const TESTS = ['packages/redress/test/**/*.test.ts', 'apps/*/test/**/*.test.ts', 'test/**/*.test.ts']

test('docs/testing.md lists exactly the tests that have a small and a full form', () => {
  const page = readFileSync(join(ROOT, 'docs/testing.md'), 'utf8')
  const listed = [...page.matchAll(/^\| `(\S+\.test\.ts)`/gm)].map(([, path]) => path)
  const hasForms = (path: string): boolean =>
    /^import .*\/support\/size\.ts'$/m.test(readFileSync(join(ROOT, path), 'utf8'))
  const found = globSync(TESTS, { cwd: ROOT, exclude: ['**/node_modules/**'] }).filter(hasForms)
  expect(found.toSorted()).toEqual(listed.toSorted())
})
