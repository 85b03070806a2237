import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const PAGES = ['*.md', 'packages/redress/README.md', 'apps/*/README.md', 'docs/**/*.md']
const SOURCES = [
  'packages/*/{src,test,bin,dashboard/src}/**/*',
  'apps/*/{src,test,bin}/**/*',
  '{test,bench,scripts,examples}/**/*',
]
/** Each page says which of these its paths are relative to. */
const BASES = ['', 'packages/redress', 'packages/redress/src', 'packages/redress/src/store/postgres']

const filesIn = (patterns: string[]): string[] =>
  globSync(patterns, { cwd: ROOT, exclude: ['**/node_modules/**', '**/dist/**'] })
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** `src/core/errors.ts`, `apps/proxx/`: no address, no absolute path, no file beside the reader's own program. */
function pathsIn(text: string): string[] {
  const quoted = [...text.matchAll(/`([^`\n]+)`/g)].map(([, path = '']) => path)
  const isFile = (path: string) => /^\w[\w-]*(\/[\w@.-]+)+\.(tsx?|mjs|js|md|proto|jsonc?)$/.test(path)
  const isFolder = (path: string) =>
    /^(src|packages|apps|test|docs|bench|scripts|examples|store)(\/[\w@.-]+)*\/$/.test(path)
  return quoted.filter((path) => (isFile(path) || isFolder(path)) && !/\/(NAME|JOB)\b/.test(path))
}

test('every file and folder that a page names exists', () => {
  const missing = filesIn(PAGES)
    .filter((page) => page !== 'CHANGELOG.md')
    .flatMap((page) =>
      pathsIn(read(page))
        .filter((path) => !BASES.some((base) => existsSync(join(ROOT, base, path))))
        .map((path) => `${page}: ${path}`),
    )
  expect(missing).toEqual([])
})

test('every page of docs/ that the sources name exists', () => {
  const missing = filesIn(SOURCES)
    .filter((file) => /\.(tsx?|mjs|js)$/.test(file))
    .flatMap((file) =>
      (read(file).match(/\bdocs\/[\w/-]+\.md\b/g) ?? [])
        .filter((page) => !existsSync(join(ROOT, page)))
        .map((page) => `${file}: ${page}`),
    )
  expect(missing).toEqual([])
})

test('paths are found in code spans, and nothing else is taken for one', () => {
  const text =
    '`src/core/errors.ts`, `apps/proxx/` and `README.md`, but not `./my-app.ts`, `/srv/app.js`, `apps/NAME/` or src/plain.ts'
  expect(pathsIn(text)).toEqual(['src/core/errors.ts', 'apps/proxx/'])
})
