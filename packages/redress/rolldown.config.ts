import { defineConfig } from 'rolldown'
import manifest from './package.json' with { type: 'json' }

/** Every name that the package exports, and the command. */
const input = Object.fromEntries(
  [...Object.values(manifest.exports), { 'redress-source': './src/cli/main.ts' }].flatMap((target) => {
    if (typeof target === 'string') return []
    const source = target['redress-source']
    return [[source.slice('./src/'.length, -'.ts'.length), source]]
  }),
)

/** Files that start threads and processes, and those that run in them: each finds the other beside it, by its name. */
const STARTED = ['isolation/pool', 'isolation/child', 'isolation/process-guard']
for (const name of STARTED) input[name] = `./src/${name}.ts`

/**
 * Few files instead of 600: a program that imports redress starts sooner. Packages stay outside, but for zod. It loads 60
 * languages that are not used here, which take more time and memory than the rest of the import.
 */
export default defineConfig({
  input,
  platform: 'node',
  external: (id) => !/^[./]/.test(id) && id !== 'zod',
  output: {
    dir: 'dist',
    format: 'esm',
    chunkFileNames: 'chunks/[name]-[hash].js',
    // Node keeps the text of what it runs in memory. The comments are in the declarations, where editors show them.
    comments: { legal: true, annotation: true, jsdoc: false },
  },
})
