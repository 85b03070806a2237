import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, test } from 'vitest'
import { PLANTED_BUGS, type PlantedBug, SUITE } from './support/planted-bugs.ts'
import type { Order, Tried } from './support/planted-tests.ts'
import { did, IS_LONG } from './support/size.ts'

/**
 * The tests are tested: each planted bug is put into the sources as they are loaded, and the tests that are there to
 * find it must fail. Without the bug they pass, so it is the bug they fail on.
 */

const ROOT = join(import.meta.dirname, '..')
const NODE_OPTIONS = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
// The same for everybody: a random test that finds the bug only on some days would be of no use here.
const env = { ...process.env, REDRESS_SEED: '1', NO_COLOR: '1' }

const runner = spawn(process.execPath, [...NODE_OPTIONS, join(ROOT, 'test/support/planted-tests.ts')], {
  cwd: ROOT,
  env,
  stdio: ['pipe', 'pipe', 'inherit'],
})
const verdicts = createInterface({ input: runner.stdout })[Symbol.asyncIterator]()

afterAll(async () => {
  runner.stdin.end()
  if (runner.exitCode === null) await once(runner, 'exit')
})

const tried = (file: string, tests: string, bug: PlantedBug | null): Promise<Tried> =>
  file === SUITE ? keepPromises(tests, bug) : runTests({ bug, file, tests })

async function runTests(order: Order): Promise<Tried> {
  runner.stdin.write(`${JSON.stringify(order)}\n`)
  const { done, value } = await verdicts.next()
  if (done === true) throw new Error('the test runner ended before it had answered')
  return JSON.parse(value) as Tried
}

/** The promises of a store need no test runner. */
async function keepPromises(tests: string, bug: PlantedBug | null): Promise<Tried> {
  const script = join(ROOT, 'test/support/planted-promises.ts')
  const options = [...NODE_OPTIONS, script, tests, JSON.stringify(bug)]
  const { out, err } = await new Promise<{ out: string; err: string }>((resolve) => {
    execFile(process.execPath, options, { cwd: ROOT, env }, (_, out, err) => resolve({ out, err }))
  })
  if (!out.startsWith('{')) throw new Error(`the promises were not tried at all:\n${out}${err}`)
  return JSON.parse(out) as Tried
}

/** All bugs in the long run; otherwise the first of each layer, so that every one has its own. */
const layerOf = ({ file }: PlantedBug): string | undefined => /\/src\/(store\/)?\w+/.exec(file)?.[0]
const planted = IS_LONG
  ? PLANTED_BUGS
  : [...Map.groupBy(PLANTED_BUGS, layerOf).values()].flatMap((bugs) => bugs.slice(0, 1))

test('the sources have one place for each planted bug', () => {
  const placesOf = ({ file, find }: PlantedBug) => readFileSync(join(ROOT, file), 'utf8').split(find).length - 1
  expect(PLANTED_BUGS.filter((bug) => placesOf(bug) !== 1).map(({ name, file }) => `${file}: ${name}`)).toEqual([])
})

/** One after another: other files are tried beside this one. */
describe('the tests', () => {
  // The short run has all of these tests anyway.
  const byFile = IS_LONG ? [...Map.groupBy(planted, ({ caughtBy }) => caughtBy.file)] : []

  test.each(byFile)('pass where no bug is planted: %s', async (file, bugs) => {
    const tests = bugs.map(({ caughtBy }) => `(${caughtBy.tests})`).join('|')
    const { passed, failed, said } = await tried(file, tests, null)
    expect(failed, said).toBe(0)
    expect(passed).toBeGreaterThanOrEqual(bugs.length)
  })

  test.each(planted)('notice when $name', async (bug) => {
    const { file, tests } = bug.caughtBy
    const { passed, failed, said, times } = await tried(file, tests, bug)
    expect(times, `"${bug.find}" must stand in ${bug.file} exactly once`).toBe(1)
    expect(passed + failed, `no test is called "${tests}"\n${said}`).toBeGreaterThan(0)
    did({ planted: bug.name, failed })
    expect(failed, `nobody noticed that ${bug.name}`).toBeGreaterThan(0)
  })
})
