import { type ChildProcess, execFile, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'

/** How a process is kept from the network, by the means that this machine has. */
export interface Isolation {
  /** A command that starts another program without a network; empty where the machine has no such command. */
  command: readonly string[]
  /** Why the network cannot be taken away; null where it can. */
  whyOpen: string | null
}

/**
 * A network namespace of its own has no interface that is up, not even the loopback. Root can have one as it is; others
 * need a user namespace for it.
 */
const WAYS = [
  ['unshare', '--net', '--'],
  ['unshare', '--user', '--net', '--'],
] as const
const TRY_MS_MAX = 10_000

const run = promisify(execFile)

/** Tries each way once: containers and distributions often forbid namespaces, and other systems have none. */
export async function findIsolation(ways: readonly (readonly string[])[] = WAYS): Promise<Isolation> {
  let whyOpen = 'no way is known'
  for (const command of ways) {
    const [name = '', ...words] = command
    // By its full path: the process that it starts has no environment, and so no PATH.
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

/** Starts a module in a process of its own, with an IPC channel, without an environment, and isolated. */
export function forkIsolated(module: string, execArgv: readonly string[], { command }: Isolation): ChildProcess {
  // The program replaces itself by Node: the process keeps its id, and the IPC channel that it was given.
  const [execPath = process.execPath, ...words] = [...command, process.execPath]
  return fork(module, [], {
    cwd: '/',
    env: {},
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    execPath,
    execArgv: [...words, ...execArgv],
  })
}
