import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { App } from '../app/app.ts'
import { RedressError } from '../core/errors.ts'
import type { StoreChoice } from './store-option.ts'

/**
 * Loads the app that a module exports, as `default` or as `app`. An app that does not name its store takes it from the
 * environment, which is how `--data` and `--store` reach it.
 */
export async function loadApp(file: string, { location, isGiven }: StoreChoice): Promise<App> {
  const path = resolve(file)
  if (!existsSync(path)) throw new RedressError('APP_NOT_LOADED', `There is no file ${path}.`)
  if (isGiven) process.env.REDRESS_STORE = location
  let module: { default?: unknown; app?: unknown }
  try {
    module = await import(pathToFileURL(path).href)
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw new RedressError('APP_NOT_LOADED', `${path} cannot be loaded: ${problem}`, {
      cause: error,
      action: 'Mend the module; what it threw is below.',
    })
  }
  const app = [module.default, module.app].find(isApp)
  if (app === undefined) {
    throw new RedressError('APP_NOT_LOADED', `${path} exports no app, neither as default nor as \`app\`.`)
  }
  return app
}

/** By its shape, not its class: the module may have loaded another copy of the package than this command is from. */
function isApp(value: unknown): value is App {
  if (typeof value !== 'object' || value === null) return false
  const { work, stop, types } = value as Partial<Record<keyof App, unknown>>
  return typeof work === 'function' && typeof stop === 'function' && Array.isArray(types)
}
