import { mkdir, readdir, readFile, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { synced } from '@redress/shared/files'
import { RedressError } from 'redress'
import { errnoOf, writeWhole } from '../paths.ts'
import type { ProxxJob } from '../view.ts'

/**
 * `taken` keeps dropped items by job, permanently: a job and its retries use the sources there. A job has its file in
 * exactly one of the last three folders, except during a move.
 */
const FOLDERS = ['pending', 'taken', 'running', 'completed', 'failed'] as const
type FolderName = (typeof FOLDERS)[number]
type Outcome = 'completed' | 'failed'

/** The file of a job, while it runs and as its result. */
export interface Ticket {
  version: 1
  /** Its name when it was dropped. */
  name: string
  jobId: string
  spec: unknown
  /** As it was last seen; null until it is known to have been submitted. */
  job: ProxxJob | null
  /** Why there is no job, if the submission could not even be recorded. */
  refusal: object | null
}

const NAME_BYTES_MAX = 150
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

export class Folders {
  readonly root: string

  constructor(root: string) {
    this.root = root
  }

  path(folder: FolderName, ...names: string[]): string {
    return join(this.root, folder, ...names)
  }

  async make(): Promise<void> {
    for (const name of FOLDERS) await mkdir(this.path(name), { recursive: true })
  }

  /** The names that people see. Hidden ones are of programs that still copy. */
  async dropped(): Promise<string[]> {
    return (await readdir(this.path('pending'))).filter((name) => !name.startsWith('.')).toSorted()
  }

  /** The ids of taken items that have no result yet. */
  async unfinished(): Promise<string[]> {
    const finished = await this.#finished()
    const running = (await readdir(this.path('running'))).flatMap((name) => idIn(name) ?? [])
    const ids = new Set([...(await readdir(this.path('taken'))).filter((name) => UUID.test(name)), ...running])
    return [...ids].filter((id) => !finished.has(id)).toSorted()
  }

  /** Running files of jobs that have a result: the watcher was killed before it could remove them. */
  async clearRunning(): Promise<void> {
    const finished = await this.#finished()
    for (const name of await readdir(this.path('running'))) {
      if (finished.has(idIn(name))) await unlink(this.path('running', name))
    }
  }

  async #finished(): Promise<Set<string | null>> {
    const results = [...(await readdir(this.path('completed'))), ...(await readdir(this.path('failed')))]
    return new Set(results.flatMap((name) => idIn(name) ?? []))
  }

  async ticket(id: string): Promise<Ticket | null> {
    const name = (await readdir(this.path('running'))).find((one) => idIn(one) === id)
    return name === undefined ? null : (JSON.parse(await readFile(this.path('running', name), 'utf8')) as Ticket)
  }

  async writeRunning(ticket: Ticket): Promise<void> {
    await this.#write('running', ticket)
  }

  /** The result is there before the other file goes. */
  async writeResult(outcome: Outcome, ticket: Ticket): Promise<void> {
    await this.#write(outcome, ticket)
    await unlink(this.path('running', fileName(ticket))).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error
    })
  }

  async #write(folder: FolderName, ticket: Ticket): Promise<void> {
    await writeWhole(this.path(folder, fileName(ticket)), `${JSON.stringify(ticket, null, 2)}\n`)
    await synced(this.path(folder))
  }

  /**
   * Allows one watcher per folder. The kernel holds the lock: it ends with the process, so nothing must be cleaned up
   * before the next start.
   */
  lock(): () => void {
    const database = new DatabaseSync(join(this.root, '.proxx-watch.lock'))
    try {
      database.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      database.close()
      throw new RedressError('NOT_READY', `Another process already watches ${this.root}.`, {
        cause: error,
        action: 'Stop it first, or watch another folder.',
      })
    }
    return () => database.close()
  }
}

function fileName({ name, jobId }: Pick<Ticket, 'name' | 'jobId'>): string {
  const short = Buffer.from(name)
    .subarray(0, NAME_BYTES_MAX)
    .toString()
    .replace(/\uFFFD$/, '')
  return `${short}.${jobId}.json`
}

function idIn(name: string): string | null {
  const [, id = ''] = /\.([0-9a-f-]{36})\.json$/.exec(name) ?? []
  return UUID.test(id) ? id : null
}
