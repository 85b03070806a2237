import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { RedressError } from 'redress'
import type { JobHandler } from './job-handler.ts'

export type Handlers = ReadonlyMap<string, JobHandler>

const SHIPPED = join(import.meta.dirname, 'handlers')
/** A type of job is a file name, a header and a part of keys: what all of them take. */
const TYPE_NAME = /^[a-z][a-z0-9_-]{0,62}$/
const MODULE = /^(.+)\.(?:js|mjs|ts|mts)$/
const FUNCTIONS: readonly string[] = ['buildTasks', 'prepare', 'finalize'] satisfies (keyof JobHandler)[]

/** Those that ship, and those of a folder: a name that both have means the folder's. A broken one stops the start. */
export async function loadHandlers(folder: string | null): Promise<Handlers> {
  const handlers = new Map<string, JobHandler>()
  for (const place of folder === null ? [SHIPPED] : [SHIPPED, folder]) {
    for (const [type, file] of modulesIn(place)) handlers.set(type, await loaded(join(place, file)))
  }
  return handlers
}

function modulesIn(folder: string): [type: string, file: string][] {
  const found = new Map<string, string>()
  for (const file of namesIn(folder)) {
    const type = file.endsWith('.d.ts') || file.endsWith('.d.mts') ? undefined : MODULE.exec(file)?.[1]
    if (type === undefined) continue
    if (!TYPE_NAME.test(type)) {
      throw broken(file, 'is named after no type of job: a small letter, then small letters, digits, _ and -')
    }
    const other = found.get(type)
    if (other !== undefined) throw broken(file, `is of the same type as ${other}`)
    found.set(type, file)
  }
  return [...found]
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort()
  } catch (cause) {
    throw new RedressError('OPTION_INVALID', `FETCHBOX_HANDLERS names ${folder}, which cannot be read.`, { cause })
  }
}

async function loaded(path: string): Promise<JobHandler> {
  let module: Record<string, unknown>
  try {
    module = (await import(pathToFileURL(path).href)) as Record<string, unknown>
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw broken(path, `cannot be loaded: ${why}`, cause)
  }
  const handler = module.default ?? module
  if (typeof handler !== 'object' || handler === null) throw broken(path, 'exports no object with functions')
  const functions = handler as Record<string, unknown>
  const given = FUNCTIONS.filter((name) => functions[name] !== undefined)
  if (given.length === 0) throw broken(path, `exports none of ${FUNCTIONS.join(', ')}`)
  const strange = given.find((name) => typeof functions[name] !== 'function')
  if (strange !== undefined) throw broken(path, `exports ${strange}, which is not a function`)
  return handler as JobHandler
}

function broken(path: string, why: string, cause?: unknown): RedressError {
  return new RedressError('OPTION_INVALID', `The handler ${path} ${why}.`, {
    action: 'Correct it, or take it out of the folder of handlers.',
    ...(cause !== undefined && { cause }),
  })
}
