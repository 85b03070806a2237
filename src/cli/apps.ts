import { dirname, join, resolve } from 'node:path'
import type { App } from '../app/app.ts'
import { placeOf } from '../app/open-store.ts'
import { RedressError } from '../core/errors.ts'
import { nearest } from '../core/nearest.ts'
import type { AppModule, InstalledApp } from '../http/app-module.ts'
import type { Log } from '../runtime/log.ts'
import type { CopiedCount } from '../store/copy/copy.ts'

/** The systems that ship with Redress. */
const SHIPPED = ['pdf-xml', 'watermark', 'fetchbox', 'proxx'] as const
const SAMPLE = 'sample'

/** What can stand in `--apps`; all of it is served where nothing is said. */
export const APP_NAMES: readonly string[] = [SAMPLE, ...SHIPPED]

/** Which systems are wanted. Somebody who brings an app of their own gets only that, unless they ask for more. */
export function chosenApps(given: unknown, hasOwnApp: boolean): readonly string[] {
  if (typeof given !== 'string') return hasOwnApp ? [] : APP_NAMES
  const names = given.split(',').flatMap((part) => part.trim() || [])
  for (const name of names) {
    if (APP_NAMES.includes(name)) continue
    const like = nearest(name, APP_NAMES)
    throw new RedressError('OPTION_INVALID', `There is no app ${JSON.stringify(name)} to serve.`, {
      action: `${like === null ? '' : `Did you mean ${like}? `}Known are ${APP_NAMES.join(', ')}; an app of your own goes with --app FILE.`,
    })
  }
  if (names.length > 0) return [...new Set(names)]
  throw new RedressError('OPTION_INVALID', '--apps names no app.', { action: `Known are ${APP_NAMES.join(', ')}.` })
}

/** Declares the systems on the app. Each is loaded only when it is wanted. */
export async function installApps(names: readonly string[], app: App, log: Log): Promise<InstalledApp[]> {
  const installed: InstalledApp[] = []
  for (const name of names) {
    if (name === SAMPLE) {
      const { declareSample } = await import('./sample.ts')
      declareSample(app)
    } else {
      const module = await moduleOf(name)
      installed.push(await module.install(app, { home: homeOf(app, name), env: process.env, log }))
    }
  }
  return installed
}

/** The rows that apps keep beside the jobs, brought along with them; only counted where `to` is null. */
export async function copyAppRows(from: string, to: string | null): Promise<CopiedCount[]> {
  const counts: CopiedCount[] = []
  for (const name of SHIPPED) counts.push(...((await (await moduleOf(name)).copyRows?.(from, to)) ?? []))
  return counts
}

/** By the name of the package, as any program would: an app is not part of the engine. */
async function moduleOf(name: string): Promise<AppModule> {
  return ((await import(`redress/apps/${name}`)) as { default: AppModule }).default
}

/** Where the files of an app lie: beside the store's own where it is a file. */
export const homeOf = (app: App, name: string): string => join(folderOf(app.location), name)

function folderOf(location: string | null): string {
  const place = location === null ? null : placeOf(location)
  return place?.kind === 'file' ? dirname(place.path) : resolve('.redress')
}

/** A store that is no file has no folder of its own for the lines that some systems write before each change. */
export const failureLogOf = (location: string): string => join(folderOf(location), 'failures.jsonl')
