import { defaultServerConditions } from 'vite'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  // 'redress' means src/ here, for what Vite resolves and for what it leaves to Node.
  ssr: { resolve: { conditions: ['redress-source', ...defaultServerConditions] } },
  test: {
    include: ['test/**/*.test.ts', 'src/**/*.test.ts'],
    setupFiles: ['test/support/setup.ts'],
    execArgv: ['--conditions=redress-source', '--disable-warning=ExperimentalWarning'],
    // Real processes, real files: two cores run two of them at a time.
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
})
