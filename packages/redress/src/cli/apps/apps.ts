import { dirname, join, resolve } from 'node:path'
import type { App } from '../../app/app.ts'
import { placeOf } from '../../app/store/open-store.ts'
import { RedressError } from '../../core/errors.ts'
import type { AppModule, InstalledApp } from '../../http/app-module.ts'
import type { Log } from '../../runtime/log.ts'
import type { CopiedCount } from '../../store/copy/copy.ts'
import { installedApps, namedApps, SAMPLE } from './installed.ts'
import { loadModule } from './load.ts'

/** The apps to run: the named ones; without names and without an own app, the sample and all installed apps. */
export async function chosenApps(option: unknown, hasOwnApp: boolean): Promise<readonly AppModule[]> {
  const named = namedApps(option)
  if (named !== null) return loadAll(named)
  return hasOwnApp ? [] : loadAll([SAMPLE, ...installedApps().map(({ package: name }) => name)])
}

async function loadAll(names: readonly string[]): Promise<AppModule[]> {
  const loaded = new Map<string, { module: AppModule; from: string }>()
  for (const from of names) {
    const module = await loadModule(from)
    const other = loaded.get(module.name)
    if (other !== undefined) {
      throw new RedressError('OPTION_INVALID', `${other.from} and ${from} are both the app "${module.name}".`, {
        action: 'Name only one of them in --apps.',
      })
    }
    loaded.set(module.name, { module, from })
  }
  return [...loaded.values()].map(({ module }) => module)
}

/** Declares the apps on `app`. */
export async function installApps(modules: readonly AppModule[], app: App, log: Log): Promise<InstalledApp[]> {
  const installed: InstalledApp[] = []
  for (const module of modules) installed.push(await installedBy(module, app, log))
  return installed
}

/** An error of an app is reported as the app's. Without its name, the operator would look for a fault in Redress. */
async function installedBy(module: AppModule, app: App, log: Log): Promise<InstalledApp> {
  const context = { home: homeOf(app, module.name), env: process.env, log }
  let installed: unknown
  try {
    installed = await module.install(app, context)
  } catch (error) {
    if (error instanceof RedressError) throw error
    const problem = error instanceof Error ? error.message : String(error)
    throw new RedressError('APP_NOT_LOADED', `The app "${module.name}" cannot be installed: ${problem}`, {
      cause: error,
      action: 'Correct the app; its error is below.',
    })
  }
  if (typeof installed === 'object' && installed !== null) return installed
  const what = installed === null ? 'null' : typeof installed
  throw new RedressError('APP_NOT_LOADED', `install() of the app "${module.name}" returned ${what}, not an object.`, {
    action: 'Return an InstalledApp; `{}` is enough.',
  })
}

/** Copies the rows that apps keep beside the jobs; only counts them where `to` is null. */
export async function copyAppRows(from: string, to: string | null): Promise<CopiedCount[]> {
  const modules = new Map<string, AppModule>()
  for (const name of [...installedApps().map(({ package: name }) => name), ...(namedApps(undefined) ?? [])]) {
    const module = await loadModule(name)
    modules.set(module.name, module)
  }
  const counts: CopiedCount[] = []
  for (const module of modules.values()) counts.push(...((await module.copyRows?.(from, to)) ?? []))
  return counts
}

/** The folder for the files of an app: beside the store, where the store is a file. */
export const homeOf = (app: App, name: string): string => join(folderOf(app.location), name)

function folderOf(location: string | null): string {
  const place = location === null ? null : placeOf(location)
  return place?.kind === 'file' ? dirname(place.path) : resolve('.redress')
}

/** A store that is not a file has no folder for the lines that some systems write before each change. */
export const failureLogOf = (location: string): string => join(folderOf(location), 'failures.jsonl')
