import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

interface Manifest {
  version: string
  peerDependencies: Readonly<Record<string, string>>
}

/** The folder of the package, wherever the build has put this module. */
export const PACKAGE = above(import.meta.dirname)

/** A checkout runs its TypeScript as it stands; an installed package holds only what was built from it. */
export const IS_CHECKOUT = import.meta.filename.endsWith('.ts')

function above(folder: string): string {
  const isFound = existsSync(join(folder, 'package.json')) || dirname(folder) === folder
  return isFound ? folder : above(dirname(folder))
}

/** The package.json of Redress itself. */
export function manifest(): Manifest {
  return JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'))
}
