import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'

const REDRESS = join(import.meta.dirname, '../../packages/redress/bin/redress')
/** Seldom: each question is answered by the process that is measured. */
const LOOK_AGAIN_MS = 500
/** Linux counts processor time in these, whatever its own clock does. */
const TICKS_PER_SECOND = 100

/** Processor time in seconds. */
export interface Processor {
  /** Of the process itself. */
  own: number
  /** Of the programs that it has run to their end. */
  programs: number
}

export function processorOf(pid: number): Processor {
  // The name of the process may have anything in it, also spaces; what follows it has none.
  const [, rest = ''] = /^.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? []
  const ticks = rest.split(' ').map(Number)
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = ticks.slice(11, 15)
  return { own: (user + system) / TICKS_PER_SECOND, programs: (childUser + childSystem) / TICKS_PER_SECOND }
}

/** What the API says of an output. */
export interface Output {
  source: string
  path: string
  width: number
  height: number
  durationMs: number
  frames: number
  fingerprint: { sha256: string; streams: string[] }
}

/** What the API says of a job, as far as it is looked at here. */
export interface Job {
  id: string
  status: string
  finishedAt: string | null
  spec: { sources: string[] }
  error: { code: string; clip: number | null; detail: string } | null
  outputs: Output[]
}

interface ServerOptions {
  data: string
  concurrency: number
  /** Further processes that only work, on the same store. */
  workers?: number
  env?: Readonly<Record<string, string>>
}

/** `redress start --apps proxx`, and those who work beside it. */
export class Server {
  readonly pid: number
  readonly #url: string
  readonly #children: readonly ChildProcess[]

  private constructor(url: string, children: readonly ChildProcess[]) {
    this.#url = url
    this.#children = children
    this.pid = children[0]?.pid as number
  }

  static async start({ data, concurrency, workers = 0, env = {} }: ServerOptions): Promise<Server> {
    mkdirSync(data, { recursive: true })
    const all = ['--apps', 'proxx', '--data', data, '--concurrency', String(concurrency), '--log-level', 'error']
    const run = (words: string[]) =>
      spawn(REDRESS, [...words, ...all], {
        env: { ...process.env, PROXX_FREE_MB: '0', ...env },
        // Each failure is in the report of the run; here it would be said twice.
        stdio: ['ignore', 'pipe', 'ignore'],
      })
    const first = run(['start', '--no-auth', '--port', '0', '--json'])
    const ended = once(first, 'exit').then(([code]) => {
      throw new Error(`redress start ended with ${code}`)
    })
    const [line] = await Promise.race([once(createInterface({ input: first.stdout }), 'line'), ended])
    ended.catch(() => undefined)
    const others = Array.from({ length: workers }, () => run(['worker', '--json']))
    return new Server((JSON.parse(line as string) as { url: string }).url, [first, ...others])
  }

  /** The names of those that there are. */
  async profiles(): Promise<string[]> {
    const { profiles } = (await (await fetch(`${this.#url}/proxx/profiles`)).json()) as { profiles: { name: string }[] }
    return profiles.map(({ name }) => name)
  }

  async submit(spec: object): Promise<Job> {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${this.#url}/proxx/jobs`, { method: 'POST', headers, body: JSON.stringify(spec) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`a job was refused with ${answer.status}: ${text}`)
    return JSON.parse(text) as Job
  }

  /** The job when it has ended, however it did. */
  async ended(id: string): Promise<Job> {
    for (;;) {
      const job = (await (await fetch(`${this.#url}/proxx/jobs/${id}`)).json()) as Job
      if (job.finishedAt !== null) return job
      await setTimeout(LOOK_AGAIN_MS)
    }
  }

  async stop(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGTERM')
      await once(child, 'exit')
    }
  }
}
