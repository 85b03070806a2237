import { lstat } from 'node:fs/promises'
import type { EventView, JobView } from 'redress'
import type { Caller } from 'redress/http'
import { shownTo } from '../access.ts'
import type { Proxx } from '../operations.ts'
import { errnoOf, isWithin, realPath } from '../paths.ts'
import { TYPE } from '../policy.ts'
import { clipsOf } from '../spec/naming.ts'
import { profileOf } from '../spec/profiles.ts'
import { readSpec } from '../spec/spec.ts'
import { type ClipPosition, clipPositionOf } from '../trace.ts'
import type { ProxxJob } from '../view.ts'

export { type ClipPosition, positionByProgress } from '../trace.ts'

export const FILTERS = ['pending', 'processing', 'complete', 'failed', 'orphaned'] as const
type Filter = (typeof FILTERS)[number]

/** The filter of the list. */
export interface Choice {
  status: Filter | null
  profile: string | null
  cursor: string | null
}

export interface Row {
  job: ProxxJob
  standing: ClipPosition | null
}

export interface Rows {
  rows: Row[]
  nextCursor: string | null
}

export interface Listed {
  orphans: Rows
  jobs: Rows
}

/** A file of a failed job that is there now. */
interface LeftFile {
  clip: number
  path: string
  bytes: number
  /** A file with the final name of an output: delivered by the job, or made by someone else. */
  isNamed: boolean
}

export interface Detail extends Row {
  events: readonly EventView[]
  retries: readonly { id: string; status: string; createdAt: string }[]
  /** For the job that a retry would make. */
  newId: string
  /** The leftover files of failed jobs and orphans; null if the directory is not visible from this machine. */
  left: readonly LeftFile[] | null
}

const ROWS_WANTED = 20
/** No store has an index for the profile, so the search is limited to this many pages of jobs. */
const PAGES_LOOKED_THROUGH_MAX = 10
const RETRIES_SHOWN_MAX = 100

interface EnginePage {
  jobs: readonly JobView[]
  nextCursor: string | null
}

/** Reads what pages show, for whom they are. */
export class Reader {
  readonly #proxx: Proxx

  constructor(proxx: Proxx) {
    this.#proxx = proxx
  }

  async list(caller: Caller, choice: Choice): Promise<Listed> {
    const { status, cursor } = choice
    const isOrphansOnly = status === 'orphaned'
    const orphans = await this.#orphans(caller, choice, isOrphansOnly ? cursor : null)
    if (isOrphansOnly) return { orphans, jobs: { rows: [], nextCursor: null } }
    const asked = { type: TYPE, limit: ROWS_WANTED, ...(status !== null && { status: engineStatus(status) }) }
    const ask = (after: object) => this.#ask(caller, 'jobs.list', { ...asked, ...after })
    // Orphans are listed before the jobs.
    const fits = (job: ProxxJob) => job.orphanedAt === null && fitsProfile(job, choice)
    return { orphans, jobs: await this.#through(caller, ask, fits, cursor) }
  }

  /** Owners may not ask for all orphans: theirs are found among their own. */
  #orphans(caller: Caller, choice: Choice, cursor: string | null): Promise<Rows> {
    const asked = { type: TYPE, limit: ROWS_WANTED }
    const ask = (after: object) =>
      caller.role === 'owner'
        ? this.#ask(caller, 'jobs.list', { ...asked, status: 'processing', ...after })
        : this.#ask(caller, 'orphans.list', { ...asked, ...after })
    return this.#through(caller, ask, (job) => job.orphanedAt !== null && fitsProfile(job, choice), cursor)
  }

  async #ask(caller: Caller, name: 'jobs.list' | 'orphans.list', asked: object): Promise<EnginePage> {
    return (await this.#proxx.app.performAs(caller, name, { ...asked })) as EnginePage
  }

  async #through(
    caller: Caller,
    ask: (after: object) => Promise<EnginePage>,
    fits: (job: ProxxJob) => boolean,
    from: string | null,
  ): Promise<Rows> {
    const rows: Row[] = []
    let cursor = from
    for (let pages = 0; pages < PAGES_LOOKED_THROUGH_MAX; pages++) {
      const { jobs, nextCursor } = await ask(cursor === null ? {} : { cursor })
      const views = await Promise.all(jobs.map(({ id }) => this.#proxx.files.view(id)))
      for (const view of views) if (view !== null && fits(view)) rows.push(await this.row(caller, view))
      cursor = nextCursor
      if (cursor === null || rows.length >= ROWS_WANTED) break
    }
    return { rows, nextCursor: cursor }
  }

  async row(caller: Caller, job: ProxxJob): Promise<Row> {
    return { job: shownTo(caller, job), standing: await this.#standing(job) }
  }

  async detail(caller: Caller, job: ProxxJob): Promise<Detail> {
    const { app } = this.#proxx
    const { id } = job
    const asked = { type: TYPE, retriedFrom: id, limit: RETRIES_SHOWN_MAX }
    const [{ events }, { jobs }] = (await Promise.all([
      app.performAs(caller, 'jobs.events', { id }),
      app.performAs(caller, 'jobs.list', asked),
    ])) as [{ events: EventView[] }, EnginePage]
    const retries = jobs.map((one) => ({
      id: one.id,
      status: one.status === 'queued' ? 'pending' : one.status,
      createdAt: one.createdAt,
    }))
    return { ...(await this.row(caller, job)), events, retries, newId: app.newId(), left: await this.#left(job) }
  }

  /** A failure records its own clip and stage, unless a person marked the job as failed. */
  async #standing({ id, status, startedAt, progress, spec, error }: ProxxJob): Promise<ClipPosition | null> {
    const isAsked = status === 'processing' || error?.code === 'MARKED_FAILED'
    if (!isAsked || startedAt === null) return null
    return clipPositionOf(this.#proxx.settings.jobs, { id, progress, spec })
  }

  /** P23: shows the leftover files and does not touch them. */
  async #left(job: ProxxJob): Promise<LeftFile[] | null> {
    const { spec } = readSpec(job.spec)
    const profile = profileOf(job.profile ?? {})
    const isOver = job.status === 'failed' || job.orphanedAt !== null
    if (!isOver || !job.executionAttempted || spec === null || profile === null) return []
    const directory = await realPath(spec.output.directory)
    const { roots } = this.#proxx.settings
    if (directory === null || (roots !== null && !(await isWithin(directory, roots)))) return null
    const found: LeftFile[] = []
    for (const { number: clip, partial, target } of clipsOf(spec, profile, job.id, directory)) {
      const partBytes = await sizeOf(partial)
      if (partBytes !== null) found.push({ clip, path: partial, bytes: partBytes, isNamed: false })
      const bytes = await sizeOf(target)
      if (bytes !== null) found.push({ clip, path: target, bytes, isNamed: true })
    }
    return found
  }
}

const engineStatus = (status: Filter): string => (status === 'pending' ? 'queued' : status)

const fitsProfile = (job: ProxxJob, { profile }: Choice): boolean => profile === null || job.profile?.name === profile

async function sizeOf(path: string): Promise<number | null> {
  try {
    return (await lstat(path)).size
  } catch (error) {
    // Whatever keeps us from seeing it, there is nothing to show.
    if (['ENOENT', 'ENOTDIR', 'EACCES', 'ENAMETOOLONG'].includes(errnoOf(error))) return null
    throw error
  }
}
