import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

export type Role = 'worker' | 'submitter'

export interface Child {
  process: ChildProcess
  /** It has the store open. */
  ready: Promise<void>
  isReady(): boolean
  ended: Promise<string>
}

const NODE_OPTIONS = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
const STDERR_CHARS_MAX = 4_000

/** What the processes run: their files. */
export type Programs = Readonly<Record<Role, string>>

const SOURCES: Programs = {
  worker: join(import.meta.dirname, 'worker.ts'),
  submitter: join(import.meta.dirname, 'submitter.ts'),
}

/** Most of a short life would be spent on compiling the same modules again. */
export function environment(folder: string): NodeJS.ProcessEnv {
  const env = { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') }
  const modules = pathToFileURL(join(import.meta.dirname, 'work.ts')).href
  spawnSync(process.execPath, [...NODE_OPTIONS, '-e', `import(${JSON.stringify(modules)})`], { env })
  return env
}

export function start(
  role: Role,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  programs: Programs = SOURCES,
): Child {
  const words = [...NODE_OPTIONS, programs[role], ...args]
  const child = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let stderr = ''
  child.stderr.on('data', (part: Buffer) => {
    stderr = `${stderr}${part.toString()}`.slice(-STDERR_CHARS_MAX)
  })
  const ended = new Promise<string>((resolve) =>
    child.once('close', (code, signal) => resolve(`${signal ?? `exit code ${code}`} ${stderr.trim()}`)),
  )
  let isReady = false
  const ready = new Promise<void>((resolve) =>
    child.stdout.once('data', () => {
      isReady = true
      resolve()
    }),
  )
  return { process: child, ready, isReady: () => isReady, ended }
}

/** Answers with how the process ended where it was not the kill that ended it. */
export async function kill(child: Child): Promise<string | null> {
  child.process.kill('SIGKILL')
  const end = await child.ended
  return end.startsWith('SIGKILL ') ? null : end
}

/** Stands still, as a process does whose machine sleeps, and wakes up as a zombie. */
export async function standStill({ process: child }: Child, ms: number): Promise<void> {
  child.kill('SIGSTOP')
  await afterMs(ms)
  child.kill('SIGCONT')
  await afterMs(100)
}

/** Waits until nothing is left, or it has not become less for so long; answers with what is left. */
export async function drained(left: () => Promise<number>, msMax: number): Promise<number> {
  let movedMs = performance.now()
  let least = Number.POSITIVE_INFINITY
  for (;;) {
    const count = await left()
    if (count < least) movedMs = performance.now()
    least = Math.min(least, count)
    if (count === 0 || performance.now() - movedMs > msMax) return count
    await afterMs(50)
  }
}

export const afterMs = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
