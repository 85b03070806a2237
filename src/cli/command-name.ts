import { existsSync } from 'node:fs'
import { isAbsolute, join, relative } from 'node:path'

const ROOT = join(import.meta.dirname, '../..')

/** How this command is called from here, for lines that a person pastes: in a checkout nothing is on the PATH. */
export function commandName(cwd = process.cwd()): string {
  if (existsSync(join(ROOT, 'src/cli/main.ts'))) {
    const path = relative(cwd, join(ROOT, 'bin/redress'))
    return path.startsWith('../..') || isAbsolute(path) ? join(ROOT, 'bin/redress') : path
  }
  return ROOT.startsWith(join(cwd, 'node_modules')) ? 'npx redress' : 'redress'
}

/** For a shell: quoted only where it must be. */
export function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
