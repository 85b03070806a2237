/** Puts each of the programs that tests start into one file, with all that it loads: `bundle-programs.ts FOLDER`. */
import { build } from 'vite'
import { PROGRAM_SOURCES, ROOT } from './program-sources.ts'

await build({
  root: ROOT,
  configFile: false,
  logLevel: 'error',
  ssr: { noExternal: true, resolve: { conditions: ['redress-source', 'node'] } },
  build: {
    ssr: true,
    outDir: process.argv[2] ?? 'programs',
    target: 'node24',
    minify: false,
    rollupOptions: { input: PROGRAM_SOURCES },
  },
})
