import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

export interface Worker {
  kill(): Promise<void>
  stop(): Promise<void>
  /** How it ended, where nobody ended it. */
  problems(): string[]
  /** The most memory it ever held. */
  peakMiB(): number
  /** What it has in files without a name: the spool. */
  namelessMiB(): number
}

const COMMAND = join(import.meta.dirname, '../../packages/redress/bin/redress')
const STDERR_CHARS_MAX = 4_000

/** A real `redress worker` on the store of the storm. */
export function startWorker(given: { folder: string; env: Record<string, string>; concurrency: number }): Worker {
  const { folder, env, concurrency } = given
  const store = `sqlite:${join(folder, 'redress.db')}`
  const words = ['worker', '--apps', 'fetchbox', '--store', store, '--concurrency', String(concurrency)]
  const child = spawn(COMMAND, [...words, '--log-level', 'error', '--grace', '5s'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  let isEnding = false
  let ended: string | null = null
  child.stderr.on('data', (part: Buffer) => {
    said = `${said}${part.toString()}`.slice(-STDERR_CHARS_MAX)
  })
  const over = new Promise<void>((resolve) =>
    child.once('close', (code, signal) => {
      ended = signal ?? `exit code ${code}`
      resolve()
    }),
  )
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    isEnding = true
    child.kill(signal)
    await over
  }
  return {
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    problems: () => (ended === null || isEnding ? [] : [`a worker ended by itself (${ended}): ${said}`]),
    peakMiB: () => {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024
    },
    namelessMiB: () => {
      const files = readdirSync(`/proc/${child.pid}/fd`).map((fd) => `/proc/${child.pid}/fd/${fd}`)
      return files.reduce((sum, file) => sum + namelessBytes(file), 0) / 2 ** 20
    },
  }
}

function namelessBytes(file: string): number {
  try {
    const { nlink, size } = statSync(file)
    return nlink === 0 ? size : 0
  } catch {
    // Closed since it was listed.
    return 0
  }
}
