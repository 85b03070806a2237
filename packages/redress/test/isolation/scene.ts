import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { failureCodes, inProcess, inThread, type PolicyInput, type ProcessOptions, redress, rule } from 'redress'
import { onTestFinished } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { until } from '../../../../test/support/until.ts'
import type { App } from '../../src/app/app.ts'
import type { JobRow, StoredFailure } from '../../src/store/contract/store.ts'
import type { WorkerOptions } from '../../src/worker/options.ts'
import type { Worker } from '../../src/worker/worker.ts'
import type act from './fixtures/acts.ts'
import type { Act } from './fixtures/acts.ts'

export type Kind = 'thread' | 'process'
export const KINDS: readonly Kind[] = ['thread', 'process']

const CODES = failureCodes({
  TOO_LARGE: { fault: 'caller', retry: 'never', message: 'The file is too large.' },
  DISK_FULL: { fault: 'system', retry: 'never', message: 'The disk is full.' },
  SLOW_DOWN: { fault: 'dependency', retry: 'transient', message: 'The service is busy.' },
  DECLINED: { fault: 'caller', retry: 'never', message: 'The card was declined.' },
  UNREACHABLE: { fault: 'dependency', retry: 'never', message: 'The service cannot be reached.' },
})

const CLASSIFY = [
  rule.errno('ENOSPC', 'DISK_FULL'),
  rule.errno('ECONNREFUSED', 'UNREACHABLE'),
  rule.http({ status: 429 }, 'SLOW_DOWN'),
  rule.name('PaymentDeclined', 'DECLINED'),
]

interface IsolationSceneOptions {
  options?: ProcessOptions
  policy?: PolicyInput
  worker?: Partial<WorkerOptions>
}

/** A real app, worker and store, whose handler runs in real threads or processes. */
export class IsolationScene {
  readonly log = keepingLog()
  readonly app: App = redress({ store: 'sqlite::memory:', log: this.log })
  readonly folder = mkdtempSync(join(tmpdir(), 'redress-isolation-'))
  readonly worker: Promise<Worker>

  constructor(kind: Kind, { options = {}, policy = {}, worker = {} }: IsolationSceneOptions = {}) {
    const make = kind === 'thread' ? inThread<typeof act> : inProcess<typeof act>
    this.app.job('act', {
      codes: CODES,
      classify: CLASSIFY,
      policy: { retry: { max: 1 }, ...policy },
      run: make('./fixtures/acts.ts', options),
    })
    this.worker = this.app.work({ pollMs: 20, ...worker })
    onTestFinished(async () => {
      await this.app.stop({ graceMs: 0 })
      rmSync(this.folder, { recursive: true, force: true })
    })
  }

  /** A file that the handler writes when it has begun. */
  get begun(): string {
    return join(this.folder, 'begun')
  }

  /** What the handler wrote there. */
  async hasBegun(): Promise<string> {
    return until('the handler has begun', () => existsSync(this.begun) && readFileSync(this.begun, 'utf8'))
  }

  async submit(input: Act): Promise<string> {
    await this.worker
    return (await this.app.submit('act', input, { owner: 'ann' })).id
  }

  async row(id: string): Promise<JobRow> {
    const row = await (await this.app.store()).job({ id })
    if (row === null) throw new Error(`there is no job ${id}`)
    return row
  }

  async ended(id: string): Promise<JobRow> {
    return until(`job ${id} has ended`, async () => {
      const row = await this.row(id)
      return row.finishedAtMs !== null && row
    })
  }

  /** Runs one job to its end. */
  async run(input: Act): Promise<JobRow> {
    return this.ended(await this.submit(input))
  }

  async result(input: Act): Promise<unknown> {
    const { status, result, id } = await this.run(input)
    if (status !== 'complete') throw new Error(JSON.stringify(await this.failures(id)))
    return result === null ? undefined : JSON.parse(result)
  }

  async failures(id: string): Promise<StoredFailure[]> {
    return (await this.app.store()).failures({ id })
  }

  async failure(input: Act): Promise<StoredFailure> {
    const { id } = await this.run(input)
    const failure = (await this.failures(id)).at(-1)
    if (failure === undefined) throw new Error(`job ${id} has not failed`)
    return failure
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  try {
    // A zombie that no process has reaped is dead.
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return !existsSync('/proc')
  }
}

export const isGone = (pid: number): Promise<boolean> => until(`process ${pid} is gone`, () => !isAlive(pid))

/** How many threads of this process hold a handler. The kernel knows a thread by its name. */
export function handlerThreads(): number {
  const tasks = readdirSync('/proc/self/task')
  return tasks.filter((task) => nameOfTask(task) === 'redress handler').length
}

function nameOfTask(task: string): string {
  try {
    return readFileSync(`/proc/self/task/${task}/comm`, 'utf8').trim()
  } catch {
    // It has just ended.
    return ''
  }
}
