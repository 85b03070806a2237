import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { PLANTED_BUGS, type PlantedBug } from './support/planted-bugs.ts'

/**
 * The tests are tested: each planted bug is put into a copy of the sources, and the tests that are there to find it
 * must fail on the copy. Without the bug they pass, so it is the bug they fail on.
 */

const ROOT = join(import.meta.dirname, '..')
// Two runs at once, in two terminals, must not remove each other's copies.
const COPIES = join(ROOT, '.planted', String(process.pid))
const COPIED = ['src', 'test', 'package.json', 'tsconfig.json', 'vitest.config.ts']
const AT_ONCE_MAX = 2

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

/** Runs are begun in the order of the table, a few at a time. */
const queue: (() => Promise<void>)[] = []
let running = 0
function whenThereIsRoom<T>(run: () => Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const next = (): void => {
      running--
      void queue.shift()?.()
    }
    const begin = async (): Promise<void> => {
      running++
      await run().then(resolve, reject).finally(next)
    }
    if (running < AT_ONCE_MAX) void begin()
    else queue.push(begin)
  })
}

describe.concurrent('the tests', () => {
  test('pass where no bug is planted', async () => {
    const files = [...new Set(PLANTED_BUGS.map(({ caughtBy }) => caughtBy.file))]
    const tests = PLANTED_BUGS.map(({ caughtBy }) => `(${caughtBy.tests})`).join('|')
    const { passed, failed, said } = await whenThereIsRoom(async () => (await copySources('none')).run(files, tests))
    expect(failed, said).toBe(0)
    expect(passed).toBeGreaterThanOrEqual(PLANTED_BUGS.length)
  })

  test.each(PLANTED_BUGS.map((bug, i) => ({ ...bug, i })))('notice when $name', async ({ i, ...bug }) => {
    const { file, tests } = bug.caughtBy
    const { passed, failed, said } = await whenThereIsRoom(async () => {
      const copy = await copySources(String(i + 1))
      await copy.plant(bug)
      return copy.run([file], tests)
    })
    expect(passed + failed, `no test is called "${tests}"\n${said}`).toBeGreaterThan(0)
    expect(failed, `nobody noticed that ${bug.name}`).toBeGreaterThan(0)
  })
})
