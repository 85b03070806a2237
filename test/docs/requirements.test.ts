import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { taggedTests, tagsIn } from '../../scripts/reference-requirements.ts'
import { SYSTEMS } from '../../scripts/requirements.ts'

const ROOT = join(import.meta.dirname, '../..')
const IDS = SYSTEMS.flatMap(({ requirements }) => Object.keys(requirements))
const TESTS = taggedTests()

test('every requirement is shown by a test of the system that ships', () => {
  const shown = new Set(TESTS.filter(({ file }) => file.startsWith('apps/')).flatMap(({ ids }) => ids))
  expect(IDS.filter((id) => !shown.has(id))).toEqual([])
})

test('every tag in a title names a requirement', () => {
  const known = new Set(IDS)
  expect(TESTS.filter(({ ids }) => ids.some((id) => !known.has(id)))).toEqual([])
})

test('every policy note belongs to a requirement of its system', () => {
  for (const { requirements, settled } of SYSTEMS) {
    expect(Object.keys(settled).filter((id) => requirements[id] === undefined)).toEqual([])
  }
})

test('only single tests carry a tag, at the end of their title', () => {
  const files = [...new Set(TESTS.map(({ file }) => file))]
  const wrong = files.flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .filter((line) => /describe.*\[[PWDEF]\d+( [PWDEF]\d+)*\]/.test(line) || /['"`][PWDEF]\d+ \w+ \w+ /.test(line)),
  )
  expect(wrong).toEqual([])
})

test('a tag is read from every kind of title, and from nothing else', () => {
  // Written without brackets: this file must not show a requirement itself.
  const source = [
    `test('a plain title @W1@', run)`,
    `test("somebody's title @W2 E3@", run)`,
    `test(\`a made title of \${N} @F4@\`, run)`,
    `  async 'a promise of the store @D5@'(bench) {`,
    `test('it\\'s escaped @P6@', run)`,
    `const list = 'an array[7]'`,
  ]
    .join('\n')
    .replaceAll(/@([^@]+)@/g, '[$1]')
  expect(tagsIn('x', source).map(({ title, ids }) => `${title}: ${ids}`)).toEqual([
    'a plain title: W1',
    `somebody's title: W2,E3`,
    `a made title of \${N}: F4`,
    'a promise of the store: D5',
    `it's escaped: P6`,
  ])
})
