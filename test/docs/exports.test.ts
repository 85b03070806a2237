import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { redress } from 'redress'
import { expect, test } from 'vitest'
import { ROOT_EXPORTS, SUBPATH_EXPORTS } from '../../scripts/reference-exports.ts'

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
  const subpaths = Object.keys(SUBPATH_EXPORTS).map((name) => `./${name}`)
  expect(Object.keys(manifest.exports).sort()).toEqual(['.', './package.json', ...subpaths].sort())
})

test('redress exports exactly the names that the reference explains', () => {
  expect(exportedBy('index.ts')).toEqual(Object.keys(ROOT_EXPORTS).sort())
})

test.each(Object.entries(SUBPATH_EXPORTS))('redress/%s exports exactly the documented names', (subpath, { names }) => {
  expect(exportedBy(`${subpath}/index.ts`)).toEqual([...names].sort())
})

test('the names of the running modules are those of their sources', async () => {
  for (const file of ['index.ts', ...Object.keys(SUBPATH_EXPORTS).map((subpath) => `${subpath}/index.ts`)]) {
    const running = Object.keys((await import(join(PACKAGE, 'src', file))) as object)
    expect(exportedBy(file)).toEqual(expect.arrayContaining(running))
  }
})

test('every name that a page imports from redress is exported', () => {
  const names = new Map([
    ['redress', exportedBy('index.ts')],
    ...Object.keys(SUBPATH_EXPORTS).map((name) => [`redress/${name}`, exportedBy(`${name}/index.ts`)] as const),
  ])
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

/** Types and values, as the text of the file says. */
function exportedBy(file: string): string[] {
  const text = readFileSync(join(PACKAGE, 'src', file), 'utf8')
  const lists = [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list = '']) => list.split(','))
  const listed = lists
    .map(
      (item) =>
        item
          .trim()
          .replace(/^type /, '')
          .split(' as ')
          .at(-1) ?? '',
    )
    .filter(Boolean)
  const declared = [...text.matchAll(/^export (?:async )?(?:function|const|class|interface|type) (\w+)/gm)]
  return [...listed, ...declared.map(([, name = '']) => name)].sort()
}
