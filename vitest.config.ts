import { join } from 'node:path'
import { defaultServerConditions } from 'vite'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** A file that is begun last must not be the one that takes longest: two cores have to end at about the same time. */
const LONGEST = [
  'postgres/conformance',
  'processes/kill',
  'planted-bugs',
  'processes/postgres-fleet',
  'apps/watermark/media',
  'browser/',
  'http/',
]

/**
 * Tests that share nothing but what they import: they follow each other in the same process, which has loaded the engine
 * already. To load it anew for each file takes longer than most of them.
 */
const TOGETHER = [
  'app',
  'core',
  'dashboard',
  'docs',
  'notify',
  'operations',
  'requirements',
  'runtime',
  'testing',
  'worker',
]
const FOLDERS = TOGETHER.map((folder) => `test/${folder}/**/*.test.ts`)

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const turn = ({ moduleId, project }: TestSpecification) => {
      // Last, and without others between them, for whom the process would have to go.
      if (project.name === 'together') return LONGEST.length + 1
      const place = LONGEST.findIndex((name) => moduleId.includes(`test/${name}`) || moduleId.includes(`store/${name}`))
      return place === -1 ? LONGEST.length : place
    }
    return (await super.sort(files)).toSorted((a, b) => turn(a) - turn(b))
  }
}

export default defineConfig({
  // 'redress' means src/ here, for what Vite resolves and for what it leaves to Node.
  ssr: { resolve: { conditions: ['redress-source', ...defaultServerConditions] } },
  test: {
    projects: [
      {
        extends: true,
        test: { name: 'apart', include: ['test/**/*.test.ts', 'src/**/*.test.ts'], exclude: FOLDERS },
      },
      { extends: true, test: { name: 'together', include: FOLDERS, isolate: false } },
    ],
    setupFiles: ['test/support/setup.ts'],
    // Hundreds of processes are started, and what each loads is compiled once: it is the most of what they cost.
    env: { NODE_COMPILE_CACHE: join(import.meta.dirname, 'node_modules/.cache/compiled') },
    execArgv: ['--conditions=redress-source', '--disable-warning=ExperimentalWarning'],
    // Real processes, real files, a real browser: much of the time is spent waiting for them, on two cores.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
