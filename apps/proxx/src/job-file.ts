import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { App, Log } from 'redress'
import { errnoOf, writeWhole } from './paths.ts'
import { TYPE } from './policy.ts'
import { clipPositionOf, folderOf } from './trace.ts'
import { type ProxxJob, viewProxxJob } from './view.ts'

const RECONCILED_MAX = 1_000

/**
 * P5: each job as a JSON file beside its log. The store decides; the file is a copy. It is written whole or not at
 * all, after the line in the failure log and after the store (P66). The process that made the change and every
 * process that hears of it write it.
 */
export class JobFiles {
  readonly #app: App
  readonly #folder: string
  readonly #log: Log
  /** Two writers of one process must not overtake each other. */
  readonly #writing = new Map<string, Promise<void>>()
  #following: AbortController | null = null
  #followed: Promise<void> = Promise.resolve()

  constructor(app: App, folder: string, log: Log) {
    this.#app = app
    this.#folder = folder
    this.#log = log
  }

  pathOf(id: string): string {
    return join(folderOf(this.#folder, id), 'job.json')
  }

  /** The current job, as its file shows it; null if there is none. */
  async view(id: string): Promise<ProxxJob | null> {
    const job = await this.#app.jobs.find(id)
    if (job === null || job.type !== TYPE) return null
    const view = viewProxxJob(job, (await this.#app.jobs.failures(id)).failures)
    const { error, startedAt } = view
    // Marked as failed by a process that does not know proxx.
    if (error === null || startedAt === null || error.class !== 'execution' || error.clip !== null) return view
    const standing = await clipPositionOf(this.#folder, view)
    return standing === null ? view : { ...view, error: { ...error, clip: standing.clip, stage: standing.stage } }
  }

  async write(id: string): Promise<void> {
    const before = this.#writing.get(id) ?? Promise.resolve()
    const writing = before.catch(() => undefined).then(() => this.#write(id))
    this.#writing.set(id, writing)
    try {
      await writing
    } finally {
      if (this.#writing.get(id) === writing) this.#writing.delete(id)
    }
  }

  async #write(id: string): Promise<void> {
    const view = await this.view(id)
    if (view === null) return
    // P44: a retry leaves the file of the failed job unchanged, byte for byte.
    if (view.retriedAs !== null && (await this.#statusInFile(id)) === view.status) return
    const path = this.pathOf(id)
    await mkdir(folderOf(this.#folder, id), { recursive: true })
    await writeWhole(path, `${JSON.stringify(view, null, 2)}\n`)
  }

  /** From now on the files follow the store, whichever process changes it. Earlier changes are caught up first. */
  follow(): void {
    if (this.#following !== null) return
    this.#following = new AbortController()
    this.#followed = this.#follow(this.#following.signal)
  }

  async stop(): Promise<void> {
    this.#following?.abort()
    await this.#followed
    await Promise.allSettled(this.#writing.values())
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let after: string | null = null
    while (!signal.aborted) {
      const subscription = this.#app.hub.subscribe({ topics: [`type:${TYPE}`], after, signal })
      await subscription.ready
      // Between two subscriptions nothing is missed; before the first, much may have happened.
      if (after === null) await this.#catchUp()
      for await (const { id, event, data } of subscription) {
        after = id ?? after
        const { jobId, reason } = data as { jobId?: unknown; reason?: unknown }
        if (event === 'end' && reason === 'stopped') return
        // The subscription ended because this side was slow. The next one continues from the same event.
        if (event === 'end') break
        if (typeof jobId === 'string') await this.#writeOrSay(jobId)
      }
    }
  }

  async #catchUp(): Promise<void> {
    try {
      const { jobs } = await this.#app.jobs.list({ type: TYPE, limit: RECONCILED_MAX })
      for (const { id, status } of jobs) {
        const shown = status === 'queued' ? 'pending' : status
        if ((await this.#statusInFile(id)) !== shown) await this.#writeOrSay(id)
      }
    } catch (error) {
      this.#log.error({ err: error }, 'job files could not be updated')
    }
  }

  async #statusInFile(id: string): Promise<unknown> {
    try {
      return (JSON.parse(await readFile(this.pathOf(id), 'utf8')) as { status?: unknown }).status
    } catch (error) {
      if (errnoOf(error) === 'ENOENT' || error instanceof SyntaxError) return null
      throw error
    }
  }

  async #writeOrSay(id: string): Promise<void> {
    try {
      await this.write(id)
    } catch (error) {
      this.#log.error(
        { err: error, job_id: id },
        'a job file could not be written; the store and the failure log are correct',
      )
    }
  }
}
