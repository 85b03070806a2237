import { execFile } from 'node:child_process'
import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { RedressError } from '../core/errors.ts'
import type { CheckedOptions, ProgramLimits } from './options.ts'
import { explain, ProgramFailed } from './program-failed.ts'

const SYSTEM_FOLDERS = ['/usr/bin', '/bin', '/usr/local/bin']

/** What a program needs to find others, to write text and times, and to put its temporary files. */
const INHERITED = ['PATH', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR']

/** Marks every process of one run, so that those that leave its group are found as well. */
const MARK_VARIABLE = 'REDRESS_PROGRAM_RUN'

export function environmentOf(
  given: Readonly<Record<string, string>>,
  mark: string,
  alsoInherited: readonly string[] = [],
): Record<string, string> {
  const env: Record<string, string> = { PATH: SYSTEM_FOLDERS.join(':') }
  for (const name of [...INHERITED, ...alsoInherited]) {
    const value = process.env[name]
    if (value !== undefined && value !== '') env[name] = value
  }
  return { ...env, ...given, [MARK_VARIABLE]: mark }
}

export interface Launch {
  file: string
  args: readonly string[]
  cwd: string
}

/** What to spawn. The program is looked up here: behind a wrapper "not found" would be an exit code like any other. */
export async function launchOf(run: CheckedOptions, path: string): Promise<Launch> {
  const cwd = await workingFolder(run)
  const file = await locate(run, cwd, path)
  const line = [...(await wrappersOf(run.limits)), file, ...run.args]
  return { file: line[0] as string, args: line.slice(1), cwd }
}

async function workingFolder(run: CheckedOptions): Promise<string> {
  const cwd = resolve(run.cwd ?? '.')
  let isFolder: boolean
  try {
    isFolder = (await stat(cwd)).isDirectory()
  } catch (cause) {
    throw new ProgramFailed(run, `was not started: no working folder: ${explain(cause)}`, {
      reason: 'not-started',
      cause,
    })
  }
  if (isFolder) return cwd
  throw new ProgramFailed(run, `was not started: ${cwd} is not a folder`, { reason: 'not-started', code: 'ENOTDIR' })
}

async function locate(run: CheckedOptions, cwd: string, path: string): Promise<string> {
  const { program } = run
  // A relative entry of PATH would let a file in the working folder stand in for a program.
  const folders = path.split(':').filter(isAbsolute)
  const candidates = program.includes('/') ? [resolve(cwd, program)] : folders.map((folder) => join(folder, program))
  let isThere = false
  for (const candidate of candidates) {
    const found = await look(candidate)
    if (found === 'executable') return candidate
    isThere ||= found === 'not executable'
  }
  const message = isThere
    ? 'was not started: it may not be executed'
    : `was not started: there is no such ${program.includes('/') ? 'file' : 'program in PATH'}`
  throw new ProgramFailed(run, message, { reason: 'not-started', code: isThere ? 'EACCES' : 'ENOENT' })
}

async function look(path: string): Promise<'executable' | 'not executable' | 'absent'> {
  try {
    if (!(await stat(path)).isFile()) return 'not executable'
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES' ? 'not executable' : 'absent'
  }
  return access(path, constants.X_OK).then(
    () => 'executable',
    () => 'not executable',
  )
}

/** Programs that take a setting and then become the program they are given. */
export async function wrappersOf(limits: ProgramLimits, folders = SYSTEM_FOLDERS): Promise<string[]> {
  const limitFlags = flagsOf(limits)
  const [setpriv, prlimit] = await Promise.all([
    tool(folders, 'setpriv', ['--pdeathsig', 'KILL']),
    limitFlags.length === 0 ? null : tool(folders, 'prlimit', ['--core=0']),
  ])
  if (limitFlags.length > 0 && prlimit === null) {
    throw new RedressError('OPTION_INVALID', 'runProgram: limits need the program prlimit, which is not installed.', {
      action: 'Install util-linux (Linux only), or take the limits out and bound the program in another way.',
    })
  }
  return [
    // When the worker is killed, what it started must not go on writing to files that the next attempt writes, too.
    ...(setpriv === null ? [] : [setpriv, '--pdeathsig', 'KILL', '--']),
    // No core: the memory of a crashed parser holds the user's file.
    ...(prlimit === null ? [] : [prlimit, '--core=0', ...limitFlags, '--']),
  ]
}

/** A program that handles SIGXCPU, as ffmpeg does, has this long to end in order. */
const CPU_GRACE_SECONDS = 5

function flagsOf({ cpuSeconds, memoryBytes, fileBytes, openFiles, processes }: ProgramLimits): string[] {
  const flags: string[] = []
  if (cpuSeconds !== undefined) flags.push(`--cpu=${cpuSeconds}:${cpuSeconds + CPU_GRACE_SECONDS}`)
  if (memoryBytes !== undefined) flags.push(`--as=${memoryBytes}`)
  if (fileBytes !== undefined) flags.push(`--fsize=${fileBytes}`)
  if (openFiles !== undefined) flags.push(`--nofile=${openFiles}`)
  if (processes !== undefined) flags.push(`--nproc=${processes}`)
  return flags
}

const tools = new Map<string, Promise<boolean>>()

/** Where a tool is that understands the flags: the setpriv of BusyBox knows fewer. Each is tried once. */
async function tool(folders: readonly string[], name: string, flags: readonly string[]): Promise<string | null> {
  for (const folder of folders) {
    const path = join(folder, name)
    let isFit = tools.get(path)
    if (isFit === undefined) {
      isFit = tryTool(path, flags)
      tools.set(path, isFit)
    }
    if (await isFit) return path
  }
  return null
}

function tryTool(path: string, flags: readonly string[]): Promise<boolean> {
  return promisify(execFile)(path, [...flags, '--', '/bin/sh', '-c', ':'], { env: {} }).then(
    () => true,
    ({ code }: { code?: unknown }) => {
      // A machine that is short of processes or memory says nothing about the tool: ask again the next time.
      if (typeof code === 'string' && code !== 'ENOENT' && code !== 'EACCES') tools.delete(path)
      return false
    },
  )
}

/** Whether it was one of the tools that failed, and so the program never began. */
export function neverBegan(launch: Launch, exitCode: number | null, stderrTail: string): string | null {
  const complaint = /^(?:setpriv|prlimit): (.*)/.exec(stderrTail)?.[1]
  const isTool = /\/(?:setpriv|prlimit)$/.test(launch.file)
  return isTool && complaint !== undefined && [1, 126, 127].includes(exitCode ?? 0) ? complaint : null
}
