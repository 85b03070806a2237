import { join } from 'node:path'
import { IS_CHECKOUT, PACKAGE } from '../../runtime/manifest.ts'

/** How to call this command from `cwd`, for lines that a person pastes: only a global installation is on the PATH. */
export function commandName(cwd = process.cwd()): string {
  const checkout = join(PACKAGE, '../..')
  if (IS_CHECKOUT) return cwd === checkout ? 'npx redress' : join(PACKAGE, 'bin/redress')
  return PACKAGE.startsWith(join(cwd, 'node_modules')) ? 'npx redress' : 'redress'
}

/** For a shell: quoted only where it must be. */
export function quoted(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
