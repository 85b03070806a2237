import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished } from 'vitest'
import { App } from '../../../packages/redress/src/app/app.ts'
import type { PolicyInput } from '../../../packages/redress/src/core/policy/policy.ts'
import { systemClock } from '../../../packages/redress/src/runtime/clock.ts'
import type { JobRow, Store } from '../../../packages/redress/src/store/contract/store.ts'
import { openSqlite } from '../../../packages/redress/src/store/sqlite/store.ts'
import { until } from '../until.ts'
import { type ProgramName, programFile } from './programs.ts'

/** What a process of `fixtures/actor.ts` is told when it starts. */
export interface Setup {
  file: string
  /** Where its jobs are, if not in that file. */
  store?: string
  /** The job types it declares; all of them do what their payload says. */
  types: Record<string, PolicyInput>
  /** Left out: it only submits. */
  worker?: { concurrency?: number; prefetchMax?: number; pollMs?: number; maintenanceMs?: number }
  graceMs?: number
  /** Health probes, by dependency: whether they pass, or never answer. */
  probes?: Record<string, 'pass' | 'hang'>
  /** The schedules it declares, by name. */
  schedules?: Record<string, { cron: string; job: string; input: Act; missed: 'skip' | 'once' | 'all' }>
  /** To be submitted once it is up, one acknowledged line each. */
  submits?: { type: string; input: Act; delayMs?: number }[]
}

/** What a handler does. Durations are real: the processes live in real time. */
export type Act =
  | { do: 'return'; value?: unknown }
  | { do: 'wait-for-signal' }
  | { do: 'ignore-signal' }
  /** `times`: only the first attempts do; the next one answers at once. */
  | { do: 'wait' | 'block'; ms: number; times?: number }
  /** Ends at this moment of the machine's clock, which all processes share. */
  | { do: 'until'; atMs: number; throws?: boolean }
  /** Asks the server on this port of the machine, and ends when it answers. */
  | { do: 'visit'; port: number; key: string }
  | { do: 'exit'; code: number }
  | { do: 'throw-uncaught' }
  | { do: 'reject-unhandled' }
  | { do: 'exhaust-memory' }
  | { do: 'kill-self' }
  /** Its dependency is not well. */
  | { do: 'fail' }

/** What it says on its standard output, one JSON line each. */
export interface Said {
  said:
    | 'probing'
    | 'ready'
    | 'acknowledged'
    | 'refused'
    | 'begun'
    | 'aborted'
    | 'told'
    | 'logged'
    | 'stopping'
    | 'stopped'
  jobId?: string
  attempt?: number
  reason?: string
  answer?: string
  to?: string
  /** Of an error. */
  code?: string
  message?: string
}

export interface Actor {
  child: ChildProcess
  said: readonly Said[]
  stderr(): string
  ended: Promise<{ code: number | null; signal: string | null }>
  kill(signal: NodeJS.Signals): void
  /** Waits until it has said this. */
  says(what: Partial<Said>): Promise<Said>
}

const NODE_OPTIONS = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']

/** A folder of the test's own, removed with everything in it. */
export function scratchFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redress-processes-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'redress.db')
}

/** The test's own view of the file, as one more process on it. */
export function look(file: string): Store & { ended(id: string): Promise<JobRow>; row(id: string): Promise<JobRow> } {
  const store = openSqlite({ path: file, nowMs: systemClock.nowMs })
  onTestFinished(() => store.stop())
  const row = async (id: string): Promise<JobRow> => {
    const found = await store.job({ id })
    if (found === null) throw new Error(`there is no job ${id}`)
    return found
  }
  const ended = (id: string) =>
    until(`job ${id} has ended`, async () => {
      const job = await row(id)
      return job.finishedAtMs !== null && job
    })
  return { ...store, row, ended }
}

/**
 * Stops a process as SIGSTOP does, at a moment when it does not hold the write lock: then nobody could write, which is
 * SQLite's nature and not what the test is about.
 */
export async function pause(actor: Actor, file: string): Promise<void> {
  const database = new DatabaseSync(file, { timeout: 0 })
  await until('it stands still without the write lock', () => {
    actor.kill('SIGSTOP')
    try {
      database.exec('BEGIN IMMEDIATE; ROLLBACK')
      return true
    } catch {
      actor.kill('SIGCONT')
      return false
    }
  })
  database.close()
}

/** A real process. Whatever the test leaves running is killed. */
export function act(setup: Setup, nodeOptions: readonly string[] = []): Actor {
  return program('actor', [JSON.stringify(setup)], setup.file, nodeOptions)
}

/** The same with another program of `fixtures/`. */
export function program(
  script: ProgramName,
  args: readonly string[],
  file: string,
  nodeOptions: readonly string[] = [],
): Actor {
  // In the scratch folder, so that a core file would be removed with it.
  const child = spawn(process.execPath, [...NODE_OPTIONS, ...nodeOptions, programFile(script), ...args], {
    cwd: join(file, '..'),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said: Said[] = []
  let unfinished = ''
  let stderr = ''
  child.stdout.on('data', (part: Buffer) => {
    const lines = (unfinished + part.toString()).split('\n')
    unfinished = lines.pop() ?? ''
    for (const line of lines) said.push(JSON.parse(line) as Said)
  })
  child.stderr.on('data', (part: Buffer) => {
    stderr += part.toString()
  })
  let end: { code: number | null; signal: string | null } | null = null
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.once('close', (code, signal) => {
      end = { code, signal }
      resolve(end)
    }),
  )
  onTestFinished(async () => {
    if (end === null) child.kill('SIGKILL')
    await ended
  })
  const says = (what: Partial<Said>) =>
    until(`the process says ${JSON.stringify(what)}`, () => {
      const found = said.find((line) => Object.entries(what).every(([key, value]) => line[key as keyof Said] === value))
      if (found === undefined && end !== null) {
        throw new Error(`it ended (${end.code ?? end.signal}) without saying ${JSON.stringify(what)}: ${stderr}`)
      }
      return found
    })
  return { child, said, stderr: () => stderr, ended, kill: (signal) => void child.kill(signal), says }
}

/** So many processes that open the file at the same moment; answers with what they said on standard error. */
export async function openAtOnce(file: string, count: number): Promise<string[]> {
  // Long enough for all of them to be up, so that they really meet.
  const args = [...NODE_OPTIONS, programFile('opener'), file, String(systemClock.nowMs() + 1_000)]
  const one = () =>
    new Promise<string>((resolve) => execFile(process.execPath, args, (_error, _out, err) => resolve(err)))
  return Promise.all(Array.from({ length: count }, one))
}

/** Submits from this process, in which nothing works: whoever does the job learns of it from the file. */
export async function submit({ file, types }: Pick<Setup, 'file' | 'types'>, ...acts: Act[]): Promise<string[]> {
  const app = new App({ store: `sqlite:${file}` })
  for (const [name, policy] of Object.entries(types)) app.job(name, { policy, run: () => undefined })
  const [type = ''] = app.types
  const submitted = await app.submitMany(type, acts)
  await app.stop()
  return submitted.map(({ id }) => id)
}
