import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import { PACKAGE } from '../../runtime/manifest.ts'

/** A package that declares an app in its package.json: `"redress": { "app": "proxx", "commands": ["proxx"] }`. */
export interface InstalledPackage {
  package: string
  /** The name of its AppModule, which is its default export. */
  app: string
  /** The first words of the commands that the app brings. */
  commands: readonly string[]
  description: string
}

/** The apps of this project, that are not installed with Redress: what installs each, and which commands it brings. */
export const SYSTEMS: readonly Pick<InstalledPackage, 'package' | 'app' | 'commands'>[] = [
  { package: '@redress/pdf-xml', app: 'pdf-xml', commands: ['gateway'] },
  { package: '@redress/watermark', app: 'watermark', commands: [] },
  { package: '@redress/fetchbox', app: 'fetchbox', commands: [] },
  { package: '@redress/proxx', app: 'proxx', commands: ['proxx'] },
]

/** The app that is a part of Redress. */
export const SAMPLE = 'sample'

/**
 * The packages with an app that can be found from the current folder, or from Redress itself where it is installed
 * globally: packages of the scope @redress, and dependencies of the project. Only package.json files are read, so that
 * help stays quick.
 */
export function installedApps(cwd = process.cwd()): InstalledPackage[] {
  const found = new Map<string, InstalledPackage>()
  for (const folder of [cwd, PACKAGE]) {
    const places = modulesAbove(folder)
    for (const name of [...inScope(places), ...dependenciesOf(folder)]) {
      const place = places.find((one) => existsSync(join(one, name, 'package.json')))
      const declared = place === undefined ? null : declaredIn(join(place, name), name)
      if (declared !== null && !found.has(name)) found.set(name, declared)
    }
  }
  return [...found.values()].toSorted((a, b) => placeOf(a) - placeOf(b))
}

/** The names in `--apps`, else in $REDRESS_APPS; null if neither is given. */
export function namedApps(option: unknown): readonly string[] | null {
  const given = typeof option === 'string' ? option : process.env.REDRESS_APPS
  if (given === undefined) return null
  const names = given.split(',').flatMap((part) => part.trim() || [])
  if (names.length > 0) return [...new Set(names)]
  if (option === undefined) return null
  throw new RedressError('OPTION_INVALID', '--apps is empty.', {
    action: `Installed are ${[SAMPLE, ...installedApps().map(({ app }) => app)].join(', ')}.`,
  })
}

/** The systems of this project come first, in their order. */
function placeOf({ package: name }: InstalledPackage): number {
  const place = SYSTEMS.findIndex((system) => system.package === name)
  return place === -1 ? SYSTEMS.length : place
}

/** The folders in which Node looks for packages, the nearest first. */
function modulesAbove(folder: string): string[] {
  const here = basename(folder) === 'node_modules' ? folder : join(folder, 'node_modules')
  const rest = dirname(folder) === folder ? [] : modulesAbove(dirname(folder))
  return existsSync(here) ? [here, ...rest] : rest
}

const inScope = (places: readonly string[]): string[] =>
  places
    .map((place) => join(place, '@redress'))
    .filter(existsSync)
    .flatMap((scope) => readdirSync(scope).map((name) => `@redress/${name}`))

/** Of the nearest package.json. */
function dependenciesOf(folder: string): string[] {
  const manifest = readManifest(folder)
  if (manifest === null) return dirname(folder) === folder ? [] : dependenciesOf(dirname(folder))
  return Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.devDependencies })
}

function declaredIn(folder: string, name: string): InstalledPackage | null {
  const manifest = readManifest(folder)
  const { app, commands } = manifest?.redress ?? {}
  if (typeof app !== 'string') return null
  const words = Array.isArray(commands) ? commands.filter((word) => typeof word === 'string') : []
  return { package: name, app, commands: words, description: manifest?.description ?? '' }
}

interface Manifest {
  description?: string
  dependencies?: object
  optionalDependencies?: object
  devDependencies?: object
  redress?: { app?: unknown; commands?: unknown }
}

/** null if it is missing or invalid; loading the package reports an invalid one. */
function readManifest(folder: string): Manifest | null {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
  } catch {
    return null
  }
}
