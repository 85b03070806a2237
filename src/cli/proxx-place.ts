import { readFileSync } from 'node:fs'
import { redress } from '../app/app.ts'
import { RedressError } from '../core/errors.ts'
import { silentLog } from '../runtime/log.ts'
import { failureLogOf, homeOf } from './apps.ts'
import type { Command } from './commands.ts'
import { currentUser } from './current-user.ts'
import { ownOption, type Parsed, SERVER_OPTIONS, usage } from './parse.ts'
import { chooseStore, refuseMissingStore } from './store-option.ts'
import { chosenServer } from './target.ts'

/** A job as proxx shows it; it is an app's, so that its own words are not ours to import. */
export interface ProxxJob {
  id: string
  status: string
  startedAt: string | null
  worker: string | null
  orphanedAt: string | null
  error: { code: string; message: string; class: string; detail: string; problems: readonly unknown[] } | null
}

interface ProxxProblem {
  code: string
  path: string
  message: string
}

export interface ProxxPlace {
  validate(spec: unknown): Promise<{ problems: ProxxProblem[]; outputs: string[]; estimateBytes: number | null }>
  submit(spec: unknown): Promise<ProxxJob>
  retry(id: string, act: { reason: string; spec?: unknown }): Promise<ProxxJob>
  markFailed(id: string, act: { reason: string }): Promise<ProxxJob>
  orphans(): Promise<ProxxJob[]>
  verify(id: string): Promise<{ clip: number; path: string; isGood: boolean; check: string | null; message: string }[]>
}

/** By the name of the package, as any program would: an app is not part of the engine. */
export async function proxxModule<Module>(): Promise<Module> {
  const name = 'redress/apps/proxx/cli'
  return (await import(name)) as Module
}

interface PlaceMakers {
  localPlace(options: object): Promise<ProxxPlace>
  remotePlace(ask: unknown): ProxxPlace
}

export interface OpenedPlace {
  place: ProxxPlace
  /** What leads another command to the same place. */
  flags: string
  stop(): Promise<void>
}

const ACTOR_OPTION = ownOption('actor TEXT', 'text', 'who acts: kept in the history', { fallback: 'you' })
export const PLACE_OPTIONS = [ACTOR_OPTION, ...SERVER_OPTIONS]

/** The store itself with proxx on it, or a server that has it. Whoever changes nothing needs no store. */
export async function openPlace(command: Command, { values }: Parsed, needsStore = true): Promise<OpenedPlace> {
  const server = chosenServer(values)
  if (server !== null && values.actor !== undefined) {
    throw usage(command, '--actor is for the store itself: a server knows who you are by your token.')
  }
  const { localPlace, remotePlace } = await proxxModule<PlaceMakers>()
  if (server !== null) {
    const { flagsOf, openAsk } = await import('./remote.ts')
    const flags = flagsOf(server.address, values, server.isGiven)
    return { place: remotePlace(openAsk(server.address, values)), flags, stop: async () => undefined }
  }
  const { location, flags } = chooseStore(values)
  if (needsStore) refuseMissingStore(location)
  const app = redress({ store: location, failureLog: failureLogOf(location) })
  const actor = typeof values.actor === 'string' ? values.actor : currentUser()
  const surroundings = { home: homeOf(app, 'proxx'), env: process.env, log: silentLog }
  try {
    const place = await localPlace({ app, actor, isVisit: needsStore, ...surroundings })
    return { place, flags, stop: () => app.stop() }
  } catch (error) {
    await app.stop()
    throw error
  }
}

/** A spec from a file, or from standard input for `-`. What is not JSON is wrong usage: no job is made of it. */
export function readSpecFile(command: Command, path: string): unknown {
  let text: string
  try {
    text = readFileSync(path === '-' ? 0 : path, 'utf8')
  } catch (error) {
    throw new RedressError('USAGE', `${path} cannot be read.`, { cause: error, action: 'Check the path.' })
  }
  try {
    // Some editors put a mark of their own before the first byte.
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw usage(command, `${path} is not JSON: ${error instanceof Error ? error.message : String(error)}.`)
  }
}
