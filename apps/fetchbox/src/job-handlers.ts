import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Log, RedressError } from 'redress'
import type { ResourceView, Snapshot } from './jobs/views.ts'
import type { Requested, Resource } from './requests/manifest.ts'

/** The request that `buildTasks` of a handler gets. */
interface HandledRequest extends Requested {
  type: string
  tenant: string
}

/** Says no, for a reason that the client may read. Not an error of the handler. */
export type Refuse = (reason: string) => never

interface BuildContext {
  refuse: Refuse
}

/** One download that is about to begin. */
interface PreparedTask extends Resource {
  /** Id of the fetchbox job. */
  job: string
  type: string
  tenant: string | null
}

interface PrepareContext {
  refuse: Refuse
  metadata: Readonly<Record<string, unknown>>
  /** Which try of the download this is, from 1. */
  attempt: number
  signal: AbortSignal
}

interface FinalizeContext {
  metadata: Readonly<Record<string, unknown>>
  /** Each resource as it ended, in the order of the manifest. */
  resources(): Promise<readonly ResourceView[]>
  signal: AbortSignal
  log: Log
}

/** A handler adds functions to a job type. Each of them is optional. */
export interface JobHandler {
  /** At ingest, and nothing but a function of its argument: may add, drop and change resources. */
  buildTasks?(request: HandledRequest, context: BuildContext): readonly Resource[] | Promise<readonly Resource[]>
  /** In the worker, before each download: may change where it goes and with what. */
  prepare?(task: PreparedTask, context: PrepareContext): Prepared | undefined | Promise<Prepared | undefined>
  /** Called when all resources have ended. Its return value is shown with the job. */
  finalize?(snapshot: Snapshot, context: FinalizeContext): unknown
}

interface Prepared {
  url?: string
  headers?: Readonly<Record<string, string>>
}

/** Thrown by `refuse`. */
export class HandlerRefusal extends Error {
  override readonly name = 'HandlerRefusal'
}

const REASON_CHARS_MAX = 200

export const refuse: Refuse = (reason) => {
  throw new HandlerRefusal(String(reason).slice(0, REASON_CHARS_MAX))
}

/** Rejects if the handler does not answer within the limit. */
export async function withTimeout<T>(work: T | Promise<T>, limitMs: number): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`it gave no answer within ${limitMs} ms`)), limitMs)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

export type Handlers = ReadonlyMap<string, JobHandler>

const SHIPPED = join(import.meta.dirname, 'handlers')
/** A job type is also a file name, a header value and a part of storage keys. */
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
      throw broken(
        file,
        'has an invalid name: a job type begins with a lowercase letter, followed by lowercase letters, digits, _ and -',
      )
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
