import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SYSTEMS } from './requirements.ts'

const ROOT = join(import.meta.dirname, '..')
const FOLDERS = ['apps', 'packages/redress/src/store/conformance', 'packages/redress/test', 'test']

export interface TaggedTest {
  file: string
  title: string
  ids: readonly string[]
}

/** Every test whose title ends with the ids of requirements, in the order of files and lines. */
export function taggedTests(): TaggedTest[] {
  return FOLDERS.flatMap(testFiles).flatMap((file) => tagsIn(file, readFileSync(join(ROOT, file), 'utf8')))
}

/** A title is the last text before the tag that begins and ends with the same quote. */
export function tagsIn(file: string, source: string): TaggedTest[] {
  return [...source.matchAll(/(['"`])((?:\\.|(?!\1)[^\\\n])+) \[([A-Z]+\d+(?: [A-Z]+\d+)*)\]\1/g)].map((found) => {
    const [, , title = '', ids = ''] = found
    return { file, title: title.replace(/\\(.)/g, '$1'), ids: ids.split(' ') }
  })
}

function testFiles(folder: string): string[] {
  const isTest = /(^|\/)(test|conformance)\/.*\.ts$/
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((name) => `${folder}/${name}`)
    .filter((path) => isTest.test(path) && !path.includes('node_modules'))
    .toSorted()
}

export function requirementsPage(): string {
  const tests = taggedTests()
  const systems = SYSTEMS.flatMap(({ name, requirements, settled }) => [
    `## ${name}`,
    ...Object.entries(requirements).map(([id, sentence]) => {
      const note = settled[id] === undefined ? '' : ` *Settled by policy: ${settled[id]}.*`
      const shown = tests.filter(({ ids }) => ids.includes(id)).map(({ file, title }) => `- ${title} (\`${file}\`)`)
      return [`**${id}** ${sentence}${note}`, '', ...shown].join('\n')
    }),
  ])
  const head = [
    '# Requirements',
    '<!-- Made by `npm run docs` from scripts/requirements.ts and the titles of the tests. Change those, not this page. -->',
    `Every requirement of the four systems, and the tests that show it. The sources of the systems contradict each other in
places; there each system sets its side by policy, and the requirement names the policy field. In a title, \`%s\` stands for a
case of the test.`,
  ]
  return `${[...head, ...systems].join('\n\n')}\n`
}
