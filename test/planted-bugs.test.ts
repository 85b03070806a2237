import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { PLANTED_BUGS, type PlantedBug, SUITE } from './support/planted-bugs.ts'

/**
 * The tests are tested: each planted bug is put into a copy of the sources, and the tests that are there to find it
 * must fail on the copy. Without the bug they pass, so it is the bug they fail on.
 */

const ROOT = join(import.meta.dirname, '..')
// Two runs at once, in two terminals, must not remove each other's copies.
const COPIES = join(ROOT, '.planted', String(process.pid))
const COPIED = ['src', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts']

afterAll(() => rm(COPIES, { recursive: true, force: true }))

interface Verdict {
  passed: number
  failed: number
  said: string
}

interface Copy {
  path: string
  plant(bug: PlantedBug): Promise<void>
  run(files: readonly string[], tests: string): Promise<Verdict>
}

async function copySources(name: string): Promise<Copy> {
  const path = join(COPIES, name)
  await rm(path, { recursive: true, force: true })
  await mkdir(path, { recursive: true })
  for (const each of COPIED) await cp(join(ROOT, each), join(path, each), { recursive: true })
  return {
    path,
    async plant({ file, find, replace }) {
      const text = await readFile(join(path, file), 'utf8')
      expect(text.split(find).length - 1, `"${find}" must stand in ${file} exactly once`).toBe(1)
      await writeFile(
        join(path, file),
        text.replace(find, () => replace),
      )
    },
    async run(files, tests) {
      const report = join(path, 'report.json')
      const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs')
      const options = ['run', ...files, '-t', tests, '--reporter=json', `--outputFile=${report}`]
      // The same for everybody: a random test that finds the bug only on some days would be of no use here.
      const env = { ...process.env, REDRESS_SEED: '1', NO_COLOR: '1' }
      const said = await new Promise<string>((resolve) => {
        execFile(process.execPath, [vitest, ...options], { cwd: path, env }, (_, out, err) => resolve(out + err))
      })
      const { numPassedTests, numFailedTests } = JSON.parse(await readFile(report, 'utf8'))
      return { passed: numPassedTests, failed: numFailedTests, said }
    },
  }
}

async function tryInCopy(bug: PlantedBug, name: string): Promise<Verdict> {
  const copy = await copySources(name)
  await copy.plant(bug)
  return copy.run([bug.caughtBy.file], bug.caughtBy.tests)
}

/** The promises of a store need no test runner and no copy: the bug is planted as the sources are loaded. */
async function keepPromises(tests: string, bug: PlantedBug | null): Promise<Verdict> {
  const script = join(ROOT, 'test/support/planted-promises.ts')
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning', script, tests]
  const env = { ...process.env, REDRESS_SEED: '1' }
  const planted = JSON.stringify(bug)
  const { out, err } = await new Promise<{ out: string; err: string }>((resolve) => {
    execFile(process.execPath, [...options, planted], { cwd: ROOT, env }, (_, out, err) => resolve({ out, err }))
  })
  if (!out.startsWith('{')) throw new Error(`the promises were not tried at all:\n${out}${err}`)
  const { times, ...verdict } = JSON.parse(out) as Verdict & { times: number }
  if (bug !== null) expect(times, `"${bug.find}" must stand in ${bug.file} exactly once`).toBe(1)
  return verdict
}

/** One after another: other files are tried beside this one. */
describe('the tests', () => {
  test('pass where no bug is planted', async () => {
    const [inSuite, elsewhere] = [
      PLANTED_BUGS.filter(({ caughtBy }) => caughtBy.file === SUITE),
      PLANTED_BUGS.filter(({ caughtBy }) => caughtBy.file !== SUITE),
    ]
    const testsOf = (bugs: readonly PlantedBug[]) => bugs.map(({ caughtBy }) => `(${caughtBy.tests})`).join('|')
    const files = [...new Set(elsewhere.map(({ caughtBy }) => caughtBy.file))]
    const verdicts = [
      await keepPromises(testsOf(inSuite), null),
      await (await copySources('none')).run(files, testsOf(elsewhere)),
    ]
    for (const [n, { passed, failed, said }] of verdicts.entries()) {
      expect(failed, said).toBe(0)
      expect(passed).toBeGreaterThanOrEqual([inSuite, elsewhere][n]?.length ?? 0)
    }
  })

  test.each(PLANTED_BUGS.map((bug, i) => ({ ...bug, i })))('notice when $name', async ({ i, ...bug }) => {
    const { file, tests } = bug.caughtBy
    const { passed, failed, said } = await (file === SUITE ? keepPromises(tests, bug) : tryInCopy(bug, String(i + 1)))
    expect(passed + failed, `no test is called "${tests}"\n${said}`).toBeGreaterThan(0)
    expect(failed, `nobody noticed that ${bug.name}`).toBeGreaterThan(0)
  })
})
