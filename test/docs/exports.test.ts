import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { redress } from 'redress'
import { expect, test } from 'vitest'
import { apiReference } from '../../scripts/reference-api.ts'
import { SUBPATHS } from '../../scripts/reference-exports.ts'

const PACKAGE = join(import.meta.dirname, '../../packages/redress')
const ROOT = join(PACKAGE, '../..')
/** The changelog names what is gone, too. */
const PAGES = globSync(['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', '*/*/README.md', 'docs/**/*.md'], {
  cwd: ROOT,
  exclude: ['node_modules/**'],
})
const read = (page: string): string => readFileSync(join(ROOT, page), 'utf8')
const manifest = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as { exports: Record<string, unknown> }

test('the package exports the root, the documented subpaths and nothing else', () => {
  const subpaths = Object.keys(SUBPATHS).map((name) => `./${name}`)
  expect(Object.keys(manifest.exports).sort()).toEqual(['.', './package.json', ...subpaths].sort())
})

test('the reference has every name that a running module exports', async () => {
  for (const [subpath, entries] of Object.entries(apiReference())) {
    const running = Object.keys((await import(join(PACKAGE, 'src', subpath, 'index.ts'))) as object)
    expect(entries.map(({ name }) => name)).toEqual(expect.arrayContaining(running))
  }
})

test('every name that a page imports from redress is exported', () => {
  const names = new Map(
    Object.entries(apiReference()).map(([subpath, entries]) => [
      subpath === '' ? 'redress' : `redress/${subpath}`,
      entries.map(({ name }) => name),
    ]),
  )
  const imports = PAGES.flatMap((page) =>
    [...read(page).matchAll(/^import (?:type )?\{([^}]*)\} from '(redress(?:\/[\w-]+)?)'/gm)].flatMap(
      ([, list = '', from = '']) =>
        list.split(',').map((name) => ({
          page,
          from,
          name:
            name
              .trim()
              .replace(/^type /, '')
              .split(' as ')[0] ?? '',
        })),
    ),
  )
  expect(imports.length).toBeGreaterThan(20)
  expect(imports.filter(({ from, name }) => !names.get(from)?.includes(name))).toEqual([])
})

test('every method of an app that a page names exists', () => {
  const app = redress({ store: 'sqlite::memory:' }) as unknown as Record<string, Record<string, unknown>>
  const named = PAGES.flatMap((page) =>
    [...read(page).matchAll(/\bapp\.(?!(?:test\.)?[tj]s\b)([a-z]\w*)(?:\.([a-z]\w*))?(?=[(`])/g)].map(
      ([text, one = '', two]) => ({
        page,
        text,
        one,
        two,
      }),
    ),
  )
  const isThere = ({ one, two }: { one: string; two: string | undefined }): boolean =>
    app[one] !== undefined && (two === undefined || app[one][two] !== undefined)
  expect(named.length).toBeGreaterThan(50)
  expect(named.filter((name) => !isThere(name))).toEqual([])
})
