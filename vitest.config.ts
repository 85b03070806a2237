import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultServerConditions } from 'vite'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files that take longest are begun first, so that all processes end at about the same time. Those that mostly wait come
 * before those that compute: while they wait, the cores work for the others.
 */
const LONGEST = [
  'postgres/conformance',
  'processes/postgres-fleet',
  'postgres/silence',
  'processes/full-disk',
  'pdf-xml/test/waiting',
  'processes/exit',
  'proxx/test/day',
  'storm',
  'planted-bugs',
  'processes/kill',
  'page',
  'watermark/test/media',
  'browser/',
  'processes/',
  'http/',
]

const TESTS = ['packages/redress/{src,test}/**/*.test.ts', 'apps/*/test/**/*.test.ts', 'test/**/*.test.ts']

/** `npm run test:long`: only the tests that have a small form in `npm test`, in full, with figures of what they did. */
const IS_LONG = process.env.REDRESS_LONG === '1'
const hasSmallForm = (path: string): boolean => /^import .*\/support\/size\.ts'$/m.test(readFileSync(path, 'utf8'))
const longTests = (): string[] => globSync(TESTS, { cwd: import.meta.dirname }).filter(hasSmallForm)

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const turn = ({ moduleId }: TestSpecification) => {
      const place = LONGEST.findIndex((name) => moduleId.includes(name))
      return place === -1 ? LONGEST.length : place
    }
    return (await super.sort(files)).toSorted((a, b) => turn(a) - turn(b))
  }
}

export default defineConfig({
  // 'redress' means packages/redress/src/ here, for what Vite resolves and for what it leaves to Node.
  ssr: { resolve: { conditions: ['redress-source', ...defaultServerConditions] } },
  test: {
    include: IS_LONG ? longTests() : TESTS,
    ...(IS_LONG && { reporters: ['verbose'] }),
    // Files follow each other in the same process, which has loaded the engine already: loading it anew takes longer
    // than most of them. A file takes back what it sets for the whole process.
    isolate: false,
    restoreMocks: true,
    unstubEnvs: true,
    globalSetup: ['test/support/run/setup-run.ts'],
    setupFiles: ['test/support/setup.ts'],
    // Hundreds of processes are started, and what each loads is compiled once: it is the most of what they cost.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/compiled') },
    execArgv: ['--conditions=redress-source', '--disable-warning=ExperimentalWarning'],
    // Real processes, real files, a real browser: much of the time is spent waiting for them, on two cores.
    maxWorkers: 4,
    // A bound for a machine that hangs, not a measure of speed.
    expect: { poll: { timeout: 30_000 } },
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
