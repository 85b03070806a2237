/**
 * Runs tests on sources that have a bug planted in them as they are loaded: one order a line on the input, one verdict
 * a line on the output. One test runner does them all: to start one takes longer than most of the tests.
 */
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createVitest } from 'vitest/node'
import type { PlantedBug } from './planted-bugs.ts'

export interface Order {
  bug: Pick<PlantedBug, 'file' | 'find' | 'replace'> | null
  file: string
  tests: string
}

export interface Tried {
  passed: number
  failed: number
  said: string
  /** How often the text that was to be replaced stood in the file. */
  times: number
}

const ROOT = join(import.meta.dirname, '../..')

let planted: Order['bug'] = null
let times = 0

const vitest = await createVitest(
  'test',
  { root: ROOT, watch: false, maxWorkers: 1, fsModuleCache: false, reporters: [{}], include: ['**/test/**/*.test.ts'] },
  {
    plugins: [
      {
        name: 'planted-bug',
        enforce: 'pre',
        transform(text, id) {
          if (planted === null || id !== join(ROOT, planted.file)) return null
          const { find, replace } = planted
          times = text.split(find).length - 1
          return text.replace(find, () => replace)
        },
      },
    ],
  },
)

async function perform({ bug, file, tests }: Order): Promise<Tried> {
  // What is not asked for again stays as it was read; the file with the bug is read anew, before and after.
  times = 0
  plant(bug)
  vitest.setGlobalTestNamePattern(new RegExp(tests))
  const project = vitest.getRootProject()
  const specifications = [project.createSpecification(join(ROOT, file))]
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications)
  plant(null)
  const tried: Tried = { passed: 0, failed: unhandledErrors.length, said: unhandledErrors.join('\n'), times }
  for (const module of testModules) {
    // The runner also remembers what it ran before.
    if (module.relativeModuleId !== file) continue
    for (const { message } of module.errors()) {
      tried.failed++
      tried.said += `${module.relativeModuleId}: ${message}\n`
    }
    for (const test of module.children.allTests()) {
      const { state, errors } = test.result()
      if (state === 'passed') tried.passed++
      if (state !== 'failed') continue
      tried.failed++
      tried.said += `${test.fullName}: ${errors.map(({ message }) => message).join('; ')}\n`
    }
  }
  return tried
}

function plant(bug: Order['bug']): void {
  const changed = bug ?? planted
  planted = bug
  if (changed !== null) vitest.invalidateFile(join(ROOT, changed.file))
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await perform(JSON.parse(line) as Order))}\n`)
}
await vitest.close()
