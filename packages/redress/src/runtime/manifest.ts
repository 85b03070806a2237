import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { RedressError } from '../core/errors.ts'

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

/** Large packages that most installations do not need: optional peers of the package, installed by those who use them. */
const PEERS = {
  'An s3: artifact store': /^@aws-sdk\//,
  OTEL_EXPORTER_OTLP_ENDPOINT: /^@opentelemetry\//,
} as const

/** Loads a module that imports optional peers. If one is not installed, the error names the command that installs it. */
export async function loadPeers<Module>(feature: keyof typeof PEERS, load: () => Promise<Module>): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    if (!isNotInstalled(error)) throw error
    const packages = Object.entries(manifest().peerDependencies)
      .filter(([name]) => PEERS[feature].test(name))
      .map(([name, range]) => `${name}@${range.replace('^', '')}`)
    const message = `${feature} needs ${packages.length === 1 ? 'a package' : 'packages'} that Redress does not bring.`
    throw new RedressError('PACKAGE_MISSING', message, {
      cause: error,
      action: `Run \`npm install ${packages.join(' ')}\`.`,
    })
  }
}

function isNotInstalled(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
}
