import { existsSync, statSync } from 'node:fs'
import { dirname, isAbsolute, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getCallSites } from 'node:util'
import { RedressError } from '../core/errors.ts'
import { type Duration, durationMs } from '../core/text/duration.ts'
import { refuseUnknownOptions } from '../core/text/options.ts'
import type { Attempt } from '../worker/attempt/attempt.ts'
import type { IsolatedAttempt } from './isolated-attempt.ts'
import type { Pool } from './pool.ts'

/** Limits of a handler in a thread of its own. */
export interface ThreadOptions {
  /**
   * How much memory the handler may use, in MB, beside what Node itself needs. In a thread it limits the heap, and the
   * Buffers to 64 MB more; what native code allocates is not counted. In a process, all of its memory is counted.
   */
  memoryMb?: number
  /** How long one run may take. The policy's `timeout.attempt` holds as well. */
  timeout?: Duration
  /** How long a handler that is told to stop may go on before it is killed; 1000 when left out. */
  graceMs?: number
  /** How long an idle thread or process waits for the next job before it is ended; 30000 when left out. */
  idleMs?: number
  /** A new thread or process for every attempt, instead of one that has run earlier jobs of the type. */
  fresh?: boolean
}

/** Limits and surroundings of a handler in a process of its own. */
export interface ProcessOptions extends ThreadOptions {
  /** All the process gets, beside PATH, LANG, LC_ALL, TZ, TMPDIR, NODE_ENV and NODE_EXTRA_CA_CERTS. */
  env?: Readonly<Record<string, string>>
  /** Its working folder; that of this process when left out. */
  cwd?: string
  /** Starts Node with `--permission`: the process may do only this, and read the folder of its module. */
  permissions?: ProcessPermissions
}

/** Grants under Node's permission model. Paths are absolute; `*` at the end matches everything below. */
interface ProcessPermissions {
  read?: readonly string[]
  write?: readonly string[]
  /** May use the network. Node 24 cannot restrict it. */
  net?: boolean
  /** May start programs. They are not bound by these permissions. */
  childProcess?: boolean
}

/** The default export of a handler's module. */
// biome-ignore lint/suspicious/noExplicitAny: each module has types of its own
type IsolatedHandler = (input: any, attempt: IsolatedAttempt<any>) => unknown

/** The `run` of a job type whose code is in a module of its own. */
type IsolatedRun<Handler extends IsolatedHandler> = (
  input: Parameters<Handler>[0],
  // biome-ignore lint/suspicious/noExplicitAny: the codes are those of the job type, which is not known here
  attempt: Attempt<any>,
) => Promise<Awaited<ReturnType<Handler>>>

/** A checked declaration. */
export interface Isolation {
  kind: 'thread' | 'process'
  /** Absolute path of the module. */
  file: string
  memoryMb: number | null
  timeoutMs: number | null
  graceMs: number
  idleMs: number
  isFresh: boolean
  env: Readonly<Record<string, string>>
  cwd: string | null
  permissions: Required<ProcessPermissions> | null
}

/**
 * Runs a handler in a worker thread: for work that keeps the processor busy. The default export of the module is the
 * handler. A relative path is relative to the file that calls this function.
 */
export function inThread<Handler extends IsolatedHandler = IsolatedHandler>(
  file: string | URL,
  options: ThreadOptions = {},
): IsolatedRun<Handler> {
  // Here and not in a function of its own: the caller's frame is counted from this one.
  const caller = typeof file === 'string' && !isAbsolute(file) ? getCallSites(2, { sourceMap: false })[1] : undefined
  refuseUnknownOptions('inThread()', options, THREAD_OPTIONS)
  return isolated(checked('inThread', 'thread', file, caller?.scriptName, options))
}

/**
 * Runs a handler in a process of its own: for code that may crash, leak or hang, or that is not trusted with this
 * process. The default export of the module is the handler. A relative path is relative to the file that calls this
 * function.
 */
export function inProcess<Handler extends IsolatedHandler = IsolatedHandler>(
  file: string | URL,
  options: ProcessOptions = {},
): IsolatedRun<Handler> {
  const caller = typeof file === 'string' && !isAbsolute(file) ? getCallSites(2, { sourceMap: false })[1] : undefined
  refuseUnknownOptions('inProcess()', options, PROCESS_OPTIONS)
  return isolated(checked('inProcess', 'process', file, caller?.scriptName, options))
}

const THREAD_OPTIONS = ['memoryMb', 'timeout', 'graceMs', 'idleMs', 'fresh']
const PROCESS_OPTIONS = [...THREAD_OPTIONS, 'env', 'cwd', 'permissions']
const PERMISSIONS = ['read', 'write', 'net', 'childProcess']

/** The threads or processes of one job type. */
export interface Isolated {
  run(input: unknown, attempt: Attempt): Promise<unknown>
  /** For a worker that starts: rejects if the module cannot be loaded. */
  check(type: string): Promise<void>
  /** Ends the idle ones, and all with `everything`. Resolves when they are gone. */
  end(what: 'idle' | 'everything'): Promise<void>
}

const DECLARED = new WeakMap<object, Isolation>()

function isolated<Handler extends IsolatedHandler>(isolation: Isolation): IsolatedRun<Handler> {
  const { run } = pooled(isolation)
  const own = (input: unknown, attempt: Attempt) => run(input, attempt)
  DECLARED.set(own, isolation)
  return own as IsolatedRun<Handler>
}

/** For the app: each job type has threads or processes of its own. Null for a handler of this thread. */
export function isolatedOf(run: unknown): Isolated | null {
  const isolation = typeof run === 'function' ? DECLARED.get(run) : undefined
  return isolation === undefined ? null : pooled(isolation)
}

/** The pool is loaded at the first run: a program that only submits needs none of it. */
function pooled(isolation: Isolation): Isolated {
  let pool: Promise<Pool> | null = null
  const load = async () => new (await import('./pool.ts')).Pool(isolation)
  return {
    async run(input, attempt) {
      pool ??= load()
      return (await pool).run(input, attempt)
    },
    async check(type) {
      pool ??= load()
      try {
        await (await pool).check()
      } catch (cause) {
        const why = cause instanceof Error ? cause.message : String(cause)
        throw new RedressError('OPTION_INVALID', `The worker cannot run ${type}: ${why}.`, {
          cause,
          action:
            'The code at the top level of the module must end, and its default export must be a function. Correct the module, then start the worker.',
        })
      }
    },
    async end(what) {
      await (await pool)?.end(what)
    },
  }
}

function checked(
  of: 'inThread' | 'inProcess',
  kind: Isolation['kind'],
  file: string | URL,
  caller: string | undefined,
  options: ProcessOptions,
): Isolation {
  const { memoryMb, timeout, fresh = false, env = {}, cwd, permissions } = options
  const timeoutMs = timeout === undefined ? null : durationMs(timeout, `${of}: timeout`)
  if (timeoutMs === 0) throw invalid(of, 'timeout must be longer than zero')
  if (typeof fresh !== 'boolean') throw invalid(of, `fresh must be true or false; got ${String(fresh)}`)
  if (!isTexts(env)) throw invalid(of, 'env must be an object of texts')
  if (cwd !== undefined && !isFolder(cwd)) throw invalid(of, `cwd is not a folder: ${JSON.stringify(cwd)}`)
  return {
    kind,
    file: moduleFile(of, file, caller),
    // A smaller heap does not even hold Node's own objects.
    memoryMb: memoryMb === undefined ? null : whole(of, 'memoryMb', memoryMb, 16, 1024 * 1024),
    timeoutMs,
    graceMs: whole(of, 'graceMs', options.graceMs ?? 1_000, 0, 3_600_000),
    idleMs: whole(of, 'idleMs', options.idleMs ?? 30_000, 0, 2 ** 31 - 1),
    isFresh: fresh,
    env,
    cwd: cwd === undefined ? null : resolve(cwd),
    permissions: permissions === undefined ? null : checkedPermissions(of, permissions),
  }
}

function checkedPermissions(of: string, permissions: ProcessPermissions): Required<ProcessPermissions> {
  refuseUnknownOptions(`${of}({ permissions })`, permissions, PERMISSIONS)
  const { read = [], write = [], net = false, childProcess = false } = permissions
  for (const [name, paths] of Object.entries({ read, write })) {
    if (!Array.isArray(paths) || !paths.every((path) => typeof path === 'string' && isAbsolute(path))) {
      throw invalid(of, `permissions.${name} must be a list of absolute paths`)
    }
  }
  for (const [name, isAllowed] of Object.entries({ net, childProcess })) {
    if (typeof isAllowed !== 'boolean') throw invalid(of, `permissions.${name} must be true or false`)
  }
  return { read, write, net, childProcess }
}

/** TypeScript is compiled to a file with another ending, and people name either of them. */
const OTHER_ENDINGS: Readonly<Record<string, string>> = {
  '.ts': '.js',
  '.mts': '.mjs',
  '.cts': '.cjs',
  '.js': '.ts',
  '.mjs': '.mts',
  '.cjs': '.cts',
}

function moduleFile(of: string, file: unknown, caller: string | undefined): string {
  const path = pathOf(of, file, caller)
  if (isFile(path)) return path
  const ending = /\.[cm]?[jt]s$/.exec(path)?.[0] ?? ''
  const other = path.slice(0, path.length - ending.length) + (OTHER_ENDINGS[ending] ?? '')
  if (other !== path && isFile(other)) return other
  throw new RedressError('OPTION_INVALID', `${of}: there is no module ${path}.`, {
    action: 'Check the path. A relative path is relative to the file that calls the function.',
  })
}

function pathOf(of: string, file: unknown, caller: string | undefined): string {
  if (file instanceof URL) {
    if (file.protocol === 'file:') return fileURLToPath(file)
    throw invalid(of, `the module must be a file; got ${file.protocol}`)
  }
  if (typeof file !== 'string' || file === '') {
    throw invalid(of, `the first argument must be the path or the URL of a module; got ${String(file)}`)
  }
  if (file.startsWith('file:')) return fileURLToPath(file)
  if (isAbsolute(file)) return file
  const from = caller?.startsWith('file:') ? fileURLToPath(caller.replace(/[?#].*$/, '')) : caller
  if (from !== undefined && isAbsolute(from)) return resolve(dirname(from), file)
  throw new RedressError(
    'OPTION_INVALID',
    `${of}: ${JSON.stringify(file)} is relative, and the calling file is unknown.`,
    {
      action: `Use \`new URL(${JSON.stringify(file)}, import.meta.url)\`.`,
    },
  )
}

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile()
const isFolder = (path: unknown): boolean =>
  typeof path === 'string' && existsSync(path) && statSync(path).isDirectory()

function isTexts(env: unknown): boolean {
  if (typeof env !== 'object' || env === null || Array.isArray(env)) return false
  return Object.entries(env).every(([name, value]) => /^[^=\0]+$/.test(name) && isText(value))
}

const isText = (value: unknown): boolean => typeof value === 'string' && !value.includes('\0')

function whole(of: string, name: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value
  throw invalid(of, `${name} must be a whole number from ${min} to ${max}; got ${String(value)}`)
}

const invalid = (of: string, problem: string) => new RedressError('OPTION_INVALID', `${of}: ${problem}.`)
