import { defineConfig } from 'vite'

export default defineConfig({
  root: import.meta.dirname,
  // What is built has a name made from its content, so that a browser may keep it for ever.
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    assetsDir: 'assets',
    target: 'es2023',
    // The policy of the server lets no inline script run, and this one would be inline.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  // For work on the pages: run `redress start` beside `npx vite packages/redress/dashboard`.
  server: {
    proxy: Object.fromEntries(['/api', '/sign-in', '/sign-out'].map((path) => [path, 'http://127.0.0.1:7373'])),
  },
})
