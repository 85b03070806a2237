import { type ChildProcess, execFile, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** How a process is isolated from the network on this machine. */
export interface Isolation {
  /** A command that starts another program without a network; empty if the machine has no such command. */
  command: readonly string[]
  /** Why isolation is not possible; null if it is. */
  whyOpen: string | null
}

/**
 * A new network namespace has no active interface, not even the loopback. Root can create one directly; other users
 * also need a user namespace.
 */
const WAYS = [
  ['unshare', '--net', '--'],
  ['unshare', '--user', '--net', '--'],
] as const
const TRY_MS_MAX = 10_000

const run = promisify(execFile)

/** Tries each method once: containers and distributions often forbid namespaces, and other systems have none. */
export async function findIsolation(ways: readonly (readonly string[])[] = WAYS): Promise<Isolation> {
  let whyOpen = 'no way is known'
  for (const command of ways) {
    const [name = '', ...words] = command
    // The full path, because the new process has no environment and so no PATH.
    const program = found(name)
    if (program === null) {
      whyOpen = `there is no program ${name} in PATH`
      continue
    }
    try {
      await run(program, [...words, process.execPath, '--version'], { timeout: TRY_MS_MAX })
      return { command: [program, ...words], whyOpen: null }
    } catch (error) {
      const { code, stderr } = error as { code?: unknown; stderr?: string }
      whyOpen = stderr?.trim().split('\n', 1)[0] || `${command.join(' ')} failed (${String(code)})`
    }
  }
  return { command: [], whyOpen }
}

function found(program: string): string | null {
  const folders = (process.env.PATH ?? '/usr/bin:/bin').split(delimiter)
  return folders.map((folder) => join(folder, program)).find((path) => existsSync(path)) ?? null
}

/** Starts a module in a separate, isolated process with an IPC channel and without an environment. */
export function forkIsolated(module: string, execArgv: readonly string[], { command }: Isolation): ChildProcess {
  // The program replaces itself with Node (exec), so the process keeps its id and its IPC channel.
  const [execPath = process.execPath, ...words] = [...command, process.execPath]
  return fork(module, [], {
    cwd: '/',
    env: {},
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execPath,
    execArgv: [...words, ...execArgv],
  })
}
