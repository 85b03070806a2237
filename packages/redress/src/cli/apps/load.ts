import { existsSync, statSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { extname, isAbsolute, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { App } from '../../app/app.ts'
import { RedressError } from '../../core/errors.ts'
import { nearest } from '../../core/text/names.ts'
import type { AppModule } from '../../http/app-module.ts'
import { PACKAGE } from '../../runtime/manifest.ts'
import type { StoreChoice } from '../target/store-option.ts'
import { installedApps, SAMPLE, SYSTEMS } from './installed.ts'

/**
 * Loads the app that a module exports, as `default` or as `app`. An app that does not name its store takes it from the
 * environment, which is how `--data` and `--store` reach it.
 */
export async function loadApp(file: string, { location, isGiven }: StoreChoice): Promise<App> {
  if (isGiven) process.env.REDRESS_STORE = location
  const path = existingFile(file)
  const app = (await exportsOf(path, pathToFileURL(path).href)).find(isApp)
  if (app !== undefined) return app
  throw new RedressError('APP_NOT_LOADED', `${path} exports no app, neither as default nor as \`app\`.`)
}

/** Loads what stands in `--apps`: the name of an installed app, the name of a package, or a file. */
export async function loadModule(name: string): Promise<AppModule> {
  if (name === SAMPLE) return (await import('./sample.ts')).sample
  const { shown, url } = isFile(name) ? fileAt(name) : packageNamed(name)
  const exported = await exportsOf(shown, url)
  const module = exported.find(isModule)
  if (module !== undefined) return module
  if (exported.some(isApp)) {
    throw new RedressError('APP_NOT_LOADED', `${shown} exports an app made by redress(), not an AppModule.`, {
      action: `Give it with --app: \`redress start --app ${name}\`.`,
    })
  }
  const misnamed = exported.find(isModuleButForItsName)
  if (misnamed !== undefined) {
    throw new RedressError(
      'APP_NOT_LOADED',
      `${shown} exports an AppModule with the name ${JSON.stringify(misnamed.name)}.`,
      {
        action: 'Use a name of letters, digits, ".", "_" and "-" that begins with a letter or a digit.',
      },
    )
  }
  throw new RedressError('APP_NOT_LOADED', `${shown} exports no AppModule, neither as default nor as \`app\`.`, {
    action: 'Export an object with `name` and `install(app, context)`; see the guide on the server.',
  })
}

interface Source {
  /** For messages. */
  shown: string
  url: string
}

const EXTENSIONS: ReadonlySet<string> = new Set(['.ts', '.mts', '.cts', '.js', '.mjs', '.cjs'])

/** Not a name of a package: './app.ts', '/srv/app.js', 'app.ts'. */
const isFile = (name: string): boolean => name.startsWith('.') || isAbsolute(name) || EXTENSIONS.has(extname(name))

function fileAt(name: string): Source {
  const path = existingFile(name)
  return { shown: path, url: pathToFileURL(path).href }
}

function existingFile(file: string): string {
  const path = resolve(file)
  if (!existsSync(path)) {
    throw new RedressError('APP_NOT_LOADED', `There is no file ${path}.`, { action: 'Check the path.' })
  }
  if (!statSync(path).isDirectory()) return path
  throw new RedressError('APP_NOT_LOADED', `${path} is a folder, not a file.`, { action: 'Name the file in it.' })
}

/** The name that an installed package gives to its app wins over a package of that name: `proxx` is `@redress/proxx`. */
function packageNamed(name: string): Source {
  const installed = installedApps()
  const known = installed.find(({ app }) => app === name)?.package ?? name
  // The project's own first; Redress may be installed globally, with its apps beside it.
  const url = resolvedFrom(process.cwd(), known) ?? resolvedFrom(PACKAGE, known)
  if (url !== null) return { shown: known, url }
  const names = [SAMPLE, ...installed.map(({ app }) => app)]
  const meant = nearest(name, [...names, ...SYSTEMS.map(({ app }) => app)])
  const wanted = SYSTEMS.find(({ app }) => app === meant)?.package ?? name
  const found = `Installed are ${names.join(', ')}.`
  // A misspelt name must not lead to a package of that name, which may be anybody's.
  const asked = meant === null || meant === name ? '' : `Did you mean ${meant}? `
  const install = `Run \`npm install ${wanted}\`. ${found}`
  throw new RedressError('PACKAGE_MISSING', `The app ${JSON.stringify(name)} is not installed.`, {
    action:
      meant !== null && names.includes(meant) ? asked.trim() : PACKAGE_NAME.test(wanted) ? asked + install : found,
  })
}

const PACKAGE_NAME = /^(@[a-z0-9._-]+\/)?[a-z0-9._-]+$/

/** The address that `import(name)` in a module of that folder would load; null where the package is not installed. */
function resolvedFrom(folder: string, name: string): string | null {
  const parentURL = pathToFileURL(join(folder, 'any.js')).href
  const hooks = registerHooks({ resolve: (specifier, context, next) => next(specifier, { ...context, parentURL }) })
  try {
    return import.meta.resolve(name)
  } catch (error) {
    const code = (error as { code?: string }).code
    if (code === 'ERR_MODULE_NOT_FOUND' || code === 'ERR_INVALID_MODULE_SPECIFIER') return null
    if (code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') {
      throw new RedressError('APP_NOT_LOADED', `${name} cannot be loaded: its package.json exports no main entry.`, {
        cause: error,
        action: 'Add `"exports": { ".": FILE }` to its package.json. FILE must export an AppModule as default.',
      })
    }
    throw new RedressError('APP_NOT_LOADED', `${name} cannot be loaded: ${(error as Error).message}`, {
      cause: error,
      action: 'Correct the package.json of that package, or install it again.',
    })
  } finally {
    hooks.deregister()
  }
}

async function exportsOf(shown: string, url: string): Promise<unknown[]> {
  try {
    const module = (await import(url)) as { default?: unknown; app?: unknown }
    return [module.default, module.app]
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw new RedressError('APP_NOT_LOADED', `${shown} cannot be loaded: ${problem}`, {
      cause: error,
      action: actionFor(error, url),
    })
  }
}

const OUTSIDE_A_MODULE = /^Cannot use import statement outside a module|^Unexpected token 'export'/

function actionFor(error: unknown, url: string): string {
  const { code, message } = error as { code?: string; message?: string }
  const [, missing] = /^Cannot find package '([^']+)'/.exec(message ?? '') ?? []
  if (code === 'ERR_MODULE_NOT_FOUND' && missing !== undefined) return `Run \`npm install ${missing}\`.`
  // `npm init -y` writes "type": "commonjs", and then Node does not accept `import` in a .ts or .js file.
  if (error instanceof SyntaxError && OUTSIDE_A_MODULE.test(error.message)) {
    return 'Run `npm pkg set type=module`, or give the file the ending .mts or .mjs.'
  }
  // Node tells only its own terminal in which file and line of JavaScript a syntax error is.
  if (error instanceof SyntaxError && code === undefined) {
    return `Run \`node ${fileURLToPath(url)}\` to see the file and the line, and correct it.`
  }
  return 'Correct the module; its error is below.'
}

// Both by shape, not by class: the module may have loaded another copy of the package than this command is from.

function isApp(value: unknown): value is App {
  if (typeof value !== 'object' || value === null) return false
  const { work, stop, types } = value as Partial<Record<keyof App, unknown>>
  return typeof work === 'function' && typeof stop === 'function' && Array.isArray(types)
}

/** The name becomes a folder. */
const MODULE_NAME = /^[a-z0-9][a-z0-9._-]*$/i

const isModule = (value: unknown): value is AppModule => isModuleButForItsName(value) && MODULE_NAME.test(value.name)

function isModuleButForItsName(value: unknown): value is AppModule {
  if (typeof value !== 'object' || value === null) return false
  const { name, install } = value as Partial<Record<keyof AppModule, unknown>>
  return typeof name === 'string' && typeof install === 'function'
}
