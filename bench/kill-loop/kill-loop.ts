import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type Chance, seededChance } from 'redress/testing'
import { type Inspection, inspect } from './inspect.ts'
import { LEASE_MS, openWork } from './work.ts'

export interface KillLoopOptions {
  folder: string
  kills: number
  seed: number
  workers?: number
  /** Called now and then with a line for people. */
  say?: (line: string) => void
}

export interface KillLoopReport extends Inspection {
  kills: { workers: number; submitters: number }
  seed: number
  tookMs: number
}

type Role = 'worker' | 'submitter'

const DRAIN_MS_MAX = 120_000
const JOBS_PER_SUBMITTER = 400

/** Several workers and a submitter on one file, killed at random moments and started again; then a look at what is left. */
export async function killLoop({ folder, kills, seed, workers = 3, say }: KillLoopOptions): Promise<KillLoopReport> {
  const startedMs = performance.now()
  const file = join(folder, 'redress.db')
  const acknowledged = join(folder, 'acknowledged.txt')
  const chance = seededChance(seed)
  const report = { workers: 0, submitters: 0 }
  const died: string[] = []
  const env = environment(folder)
  const argsOf = (role: Role) => (role === 'worker' ? [file] : [file, acknowledged, String(JOBS_PER_SUBMITTER)])

  const killAgainAndAgain = async (role: Role): Promise<void> => {
    while (report.workers + report.submitters < kills) {
      const child = start(role, argsOf(role), env)
      await momentToDie(child, chance)
      const end = await kill(child)
      if (end !== null) died.push(`a ${role} ended by itself: ${end}`)
      report[role === 'worker' ? 'workers' : 'submitters']++
      const killed = report.workers + report.submitters
      if (killed % 500 === 0) say?.(`${killed} kills`)
    }
  }
  await Promise.all([...Array(workers).fill('worker'), 'submitter'].map(killAgainAndAgain))

  const { app } = openWork(file)
  const store = await app.store()
  const survivors = [start('worker', [file], env), start('worker', [file], env)]
  const left = await drained(async () => {
    const counts = await store.counts()
    return counts.reduce((sum, { queued, processing }) => sum + queued + processing, 0)
  })
  if (left > 0) died.push(`${left} jobs were not done ${DRAIN_MS_MAX / 1000} s after the last kill`)
  for (const child of survivors) {
    const end = await kill(child)
    if (end !== null) died.push(`a surviving worker ended by itself: ${end}`)
  }
  const inspection = await inspect(store, file, acknowledged)
  await app.stop()
  return {
    ...inspection,
    problems: [...died, ...inspection.problems],
    kills: report,
    seed,
    tookMs: Math.round(performance.now() - startedMs),
  }
}

/** Right after the start, while it opens the store, or in the middle of its work. */
async function momentToDie(child: Child, chance: Chance): Promise<void> {
  const [draw, ms] = [chance(), chance() * 400]
  if (draw < 0.1) return afterMs(ms / 10)
  if (draw < 0.3) return afterMs(ms)
  await Promise.race([child.ready, child.ended])
  await afterMs(ms)
  // Some stand still for longer than their leases first, and wake up as zombies.
  if (draw > 0.93) await standStill(child, LEASE_MS * (1 + chance()))
}

async function standStill({ process: { pid } }: Child, ms: number): Promise<void> {
  if (pid === undefined) return
  process.kill(pid, 'SIGSTOP')
  await afterMs(ms)
  process.kill(pid, 'SIGCONT')
  await afterMs(100)
}

interface Child {
  process: ChildProcess
  /** It has the store open. */
  ready: Promise<void>
  ended: Promise<string>
}

const NODE_OPTIONS = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']

/** Most of a short life would be spent on compiling the same modules again. */
function environment(folder: string): NodeJS.ProcessEnv {
  const env = { ...process.env, NODE_COMPILE_CACHE: join(folder, 'compiled') }
  const modules = pathToFileURL(join(import.meta.dirname, 'work.ts')).href
  spawnSync(process.execPath, [...NODE_OPTIONS, '-e', `import(${JSON.stringify(modules)})`], { env })
  return env
}

function start(role: Role, args: readonly string[], env: NodeJS.ProcessEnv): Child {
  const script = join(import.meta.dirname, `${role}.ts`)
  const child = spawn(process.execPath, [...NODE_OPTIONS, script, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let stderr = ''
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString()
  })
  const ended = new Promise<string>((resolve) =>
    child.once('close', (code, signal) => resolve(`${signal ?? `exit code ${code}`} ${stderr.trim()}`)),
  )
  const ready = new Promise<void>((resolve) => child.stdout.once('data', () => resolve()))
  return { process: child, ready, ended }
}

/** Answers with how the process ended where it was not the kill that ended it. */
async function kill(child: Child): Promise<string | null> {
  child.process.kill('SIGKILL')
  const end = await child.ended
  return end === 'SIGKILL ' ? null : end
}

async function drained(left: () => Promise<number>): Promise<number> {
  const startedMs = performance.now()
  for (;;) {
    const count = await left()
    if (count === 0 || performance.now() - startedMs > DRAIN_MS_MAX) return count
    await afterMs(50)
  }
}

const afterMs = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
