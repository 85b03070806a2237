import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { folder } from '../command.ts'

/** A project of a user: files by their path. */
export function project(files: Record<string, string>): string {
  const cwd = folder()
  for (const [path, text] of Object.entries({ 'package.json': '{ "type": "module" }', ...files })) {
    mkdirSync(dirname(join(cwd, path)), { recursive: true })
    writeFileSync(join(cwd, path), text)
  }
  return cwd
}

/** What an installed package consists of. Its entry has only the condition `import`, as many packages do. */
export const installed = (name: string, text: string, redress?: object): Record<string, string> => ({
  [`node_modules/${name}/package.json`]: JSON.stringify({
    name,
    type: 'module',
    exports: { '.': { import: './index.js' } },
    redress,
  }),
  [`node_modules/${name}/index.js`]: text,
})
