import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { redress } from 'redress'
import { expect, test } from 'vitest'
import { CATALOG } from '../../packages/redress/src/operations/catalog.ts'
import { PAGES } from '../../scripts/reference.ts'
import { apiReference } from '../../scripts/reference-api.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

test.each(Object.entries(PAGES))('%s says what the tables say (else run: npm run docs)', (path, make) => {
  expect(read(path)).toBe(make())
})

test('the reference has no page that nothing makes', () => {
  const pages = globSync('docs/reference/**/*.md', { cwd: ROOT })
  const made = Object.keys(PAGES).filter((path) => path.startsWith('docs/reference/'))
  expect(pages.sort()).toEqual(made.sort())
})

test('every exported name and every method of an app and of a job type has a comment', () => {
  const reference = apiReference()
  const silent = Object.entries(reference).flatMap(([subpath, entries]) =>
    entries.filter(({ comment }) => comment === '').map(({ name }) => `${subpath}: ${name}`),
  )
  const methods = ['App', 'JobType'].flatMap((name) => {
    const { text = '' } = reference['']?.find((entry) => entry.name === name) ?? {}
    return [...text.matchAll(/^- `(.*)`$/gm)].map(([, member]) => `${name}: ${member}`)
  })
  expect([...silent, ...methods]).toEqual([])
})

test('every operation is in the reference of the commands, with its route', () => {
  const text = read('docs/reference/commands.md')
  for (const { cli, http } of Object.values(CATALOG)) {
    expect(text).toContain(`redress ${cli} [options]`)
    expect(text).toContain(http)
  }
})

test('every link between the documents leads somewhere', () => {
  const pages = globSync(['*.md', 'packages/*/README.md', 'apps/*/README.md', 'docs/**/*.md'], { cwd: ROOT })
  const broken = pages.flatMap((path) =>
    [...read(path).matchAll(/\]\(([^)#\s]+)(#[^)]*)?\)/g)]
      .map((link) => link[1] as string)
      .filter((target) => !/^https?:/.test(target))
      .filter((target) => !existsSync(join(ROOT, path, '..', target)))
      .map((target) => `${path} -> ${target}`),
  )
  expect(broken).toEqual([])
})

test('every link to a heading leads to one', () => {
  const pages = globSync(['*.md', 'packages/*/README.md', 'apps/*/README.md', 'docs/**/*.md'], { cwd: ROOT })
  const broken = pages.flatMap((path) =>
    [...read(path).matchAll(/\]\(([^)#\s]*)#([^)\s]+)\)/g)]
      .filter(([, target = '']) => !/^https?:/.test(target))
      .filter(([, target = '', anchor = '']) => !anchorsOf(target === '' ? path : join(path, '..', target)).has(anchor))
      .map(([, target, anchor]) => `${path} -> ${target}#${anchor}`),
  )
  expect(broken).toEqual([])
})

test('the guide to operations in a program lists exactly the methods of an app', () => {
  const rows = [...read('docs/guides/jobs/operations.md').matchAll(/^\| `app\.(\w+)`[^|]*\| (.*) \|$/gm)]
  const listed = Object.fromEntries(
    rows.map(([, subject = '', names = '']) => [subject, (names.match(/\w+(?=`)/g) ?? []).sort()]),
  )
  const app = redress({ store: 'sqlite::memory:' }) as unknown as Record<string, object>
  const subjects = Object.keys(app).filter((name) => !['metrics', 'hub', 'duties'].includes(name))
  expect(listed).toEqual(Object.fromEntries(subjects.map((name) => [name, Object.keys(app[name] as object).sort()])))
})

/** As GitHub names the headings of a page. */
function anchorsOf(path: string): Set<string> {
  const headings = [...read(path).matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => text)
  const seen = new Map<string, number>()
  return new Set(
    headings.map((text) => {
      const anchor = text
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-')
      const before = seen.get(anchor) ?? 0
      seen.set(anchor, before + 1)
      return before === 0 ? anchor : `${anchor}-${before}`
    }),
  )
}
