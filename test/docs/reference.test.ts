import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CATALOG } from '../../packages/redress/src/operations/catalog.ts'
import { PAGES } from '../../scripts/reference.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

test.each(Object.entries(PAGES))('%s says what the tables say (else run: npm run docs)', (path, make) => {
  expect(read(path)).toBe(make())
})

test('the reference has no page that nothing makes', () => {
  const pages = readdirSync(join(ROOT, 'docs/reference')).map((name) => `docs/reference/${name}`)
  const made = Object.keys(PAGES).filter((path) => path.startsWith('docs/reference/'))
  expect(pages.sort()).toEqual(made.sort())
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
