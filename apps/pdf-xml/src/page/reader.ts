import { isMissing } from '@redress/shared/artifact-stores'
import { type App, type JobView, type Log, RedressError } from 'redress'
import { CODES } from '../codes.ts'
import { CONVERT, type ConvertInput } from '../convert-job.ts'
import { type Files, resultKey } from '../files.ts'
import { GATEWAY } from '../policy.ts'

/** A conversion with everything that its row shows. */
export interface Conversion {
  job: JobView
  input: ConvertInput
  /** null if it is not in the queue. */
  place: Position | null
  /** The cause of the scheduled retry. */
  waitingFor: string | null
  /** null: there is nothing that a retry could be made of. */
  retry: { isAllowed: true } | { isAllowed: false; why: string } | null
  isResultGone: boolean
}

export interface ConversionPage {
  conversions: Conversion[]
  /** Whether a job on this page can still change. */
  isActive: boolean
  nextCursor: string | null
  /** By the store's clock: later changes are not included. */
  timestamp: string
}

interface PageQuery {
  owner: string
  cursor: string | null
  /** Only those that may have changed since then. */
  since?: string | null
  /** A job that is included in any case, on whatever page it is. */
  also?: string | null
}

const PAGE_SIZE = 20
const INPUTS_MAX = 2_000

/** Reads what the page shows. */
export class Conversions {
  readonly #app: App
  readonly #files: Files
  readonly #positions: QueuePositions
  /** An input never changes, and a list does without: each is read once, however often its row is asked for. */
  readonly #inputs = new Map<string, ConvertInput>()

  constructor(app: App, files: Files) {
    this.#app = app
    this.#files = files
    this.#positions = new QueuePositions(app)
  }

  async page({ owner, cursor, since = null, also = null }: PageQuery): Promise<ConversionPage> {
    const asked = { owner, type: CONVERT, limit: PAGE_SIZE }
    const list = await this.#app.perform('jobs.list', cursor === null ? asked : { ...asked, cursor: Number(cursor) })
    const wanted = list.jobs.filter((job) => job.id === also || since === null || mayHaveChangedSince(job, since))
    const other = also === null || list.jobs.some(({ id }) => id === also) ? null : await this.#own(also, owner)
    const jobs = other === null ? wanted : [other, ...wanted]
    return {
      conversions: (await Promise.all(jobs.map((job) => this.#read(job, list.timestamp)))).filter(
        (read) => read !== null,
      ),
      isActive: list.jobs.some(isActive) || (other !== null && isActive(other)),
      nextCursor: list.nextCursor,
      timestamp: list.timestamp,
    }
  }

  async #own(id: string, owner: string): Promise<JobView | null> {
    const job = await this.#app.jobs.find(id)
    return job?.owner === owner && job.type === CONVERT ? job : null
  }

  /** null: its retention was over in this very moment. */
  async #read(row: JobView, now: string): Promise<Conversion | null> {
    const job = { ...row, ...this.#errorOf(row) }
    const input = await this.#inputOf(job.id)
    if (input === null) return null
    const isQueued = job.status === 'queued'
    const isInLine = isQueued && (job.retryAfter === null || job.retryAfter <= now)
    const [place, waitingFor, retry, isResultGone] = await Promise.all([
      isInLine ? this.#positions.positionOf(job.createdAt) : null,
      isQueued && job.attemptCount > 0 ? this.#waitingFor(job.id) : null,
      job.status === 'failed' && input.refused == null ? this.#retryOf(job.id) : null,
      job.status === 'complete' && this.#isResultGone(job.id),
    ])
    return { job, input, place, waitingFor, retry, isResultGone }
  }

  async #inputOf(id: string): Promise<ConvertInput | null> {
    const known = this.#inputs.get(id)
    if (known !== undefined) return known
    const job = await this.#app.jobs.find(id)
    if (job === null) return null
    if (this.#inputs.size >= INPUTS_MAX) this.#inputs.clear()
    const input = job.input as ConvertInput
    this.#inputs.set(id, input)
    return input
  }

  /** One of the ten codes, whatever the engine's code is. */
  #errorOf({ errorCode }: JobView): Partial<JobView> {
    const shown = errorCode === null ? null : this.#app.codes.forOwner(CONVERT, errorCode)
    return shown === null ? {} : { errorCode: shown.code, errorMessage: shown.message }
  }

  /** Only failed jobs show an error (D29). The cause of a scheduled retry is in the history. */
  async #waitingFor(id: string): Promise<string | null> {
    const last = (await this.#app.jobs.failures(id)).failures.at(-1)
    if (last?.to !== 'queued') return null
    return this.#app.codes.forOwner(CONVERT, last.code)?.waiting ?? last.waiting
  }

  /** E20: `admitRetry` of the job type is called for one job at a time. */
  async #retryOf(id: string): Promise<Conversion['retry']> {
    const action = (await this.#app.jobs.find(id))?.actions.find(({ name }) => name === 'retry')
    if (action?.allowed) return { isAllowed: true }
    const [, code = 'EXPIRED', why = ''] = /^([A-Z_0-9]+): (.*)$/s.exec(action?.why ?? '') ?? []
    if (code === 'EXPIRED') return { isAllowed: false, why: CODES.EXPIRED.message }
    return { isAllowed: false, why: Object.hasOwn(CODES, code) ? why : 'It cannot be retried at the moment.' }
  }

  async #isResultGone(id: string): Promise<boolean> {
    try {
      await this.#files.results.head(resultKey(id))
      return false
    } catch (error) {
      if (isMissing(error)) return true
      // A store that cannot be asked has not lost anything: the download says how it is.
      return false
    }
  }
}

const isActive = ({ status }: JobView): boolean => status === 'queued' || status === 'processing'

const mayHaveChangedSince = (job: JobView, since: string): boolean =>
  isActive(job) || (job.finishedAt ?? job.queuedAt) >= since

/** The position in the queue, or only the length of the queue if that is too long to count positions. */
export type Position = { before: number } | { length: number; isMore: boolean }

interface Snapshot {
  length: number
  isMore: boolean
  /** When each of them was created; null for a long line. */
  created: readonly string[] | null
  freshUntilMs: number
}

const PLACES_MAX = 200
const FRESH_MS_MIN = 500
/** Counting takes the longer the more wait: never more than a twentieth of the time. */
const FRESH_TIMES = 20

/** Positions in the queue. All readers share one snapshot, so that many open pages do not slow the store. */
export class QueuePositions {
  readonly #app: App
  #snapshot: Promise<Snapshot> | null = null
  #freshUntilMs = 0

  constructor(app: App) {
    this.#app = app
  }

  async positionOf(createdAt: string): Promise<Position> {
    if (this.#snapshot === null || performance.now() > this.#freshUntilMs) {
      this.#freshUntilMs = Number.POSITIVE_INFINITY
      this.#snapshot = this.#look()
      this.#snapshot.then(
        ({ freshUntilMs }) => {
          this.#freshUntilMs = freshUntilMs
        },
        () => {
          this.#snapshot = null
        },
      )
    }
    const { created, length, isMore } = await this.#snapshot
    return created === null ? { length, isMore } : { before: created.filter((other) => other < createdAt).length }
  }

  async #look(): Promise<Snapshot> {
    const startedMs = performance.now()
    const waiting = { type: CONVERT, status: 'queued' } as const
    const { count, isMore } = await this.#app.perform('jobs.count', waiting)
    const isShort = count < PLACES_MAX && !isMore
    const created = isShort
      ? (await this.#app.perform('jobs.list', { ...waiting, limit: PLACES_MAX })).jobs.map((job) => job.createdAt)
      : null
    const nowMs = performance.now()
    return {
      ...{ length: count, isMore, created },
      freshUntilMs: nowMs + Math.max(FRESH_MS_MIN, FRESH_TIMES * (nowMs - startedMs)),
    }
  }
}

/** The state of the service, shown in a banner above all conversions. */
export interface Service {
  /** How the gateway is: called, waited for, or given up for now. */
  gateway: 'called' | 'held' | 'failing-fast'
  /** Whether there is room for files, and whether the upload store can be reached. */
  uploads: 'taken' | 'full' | 'away'
}

export async function serviceNow(app: App, files: Files, log: Log): Promise<Service> {
  const [{ breakers }, uploads] = await Promise.all([app.perform('breakers.list', {}), uploadsNow(files, log)])
  const breaker = breakers.find(({ name }) => name === GATEWAY)
  const isCalled = breaker === undefined || breaker.status === 'closed'
  const gateway = isCalled ? 'called' : breaker.mode === 'fail-fast' ? 'failing-fast' : 'held'
  return { gateway, uploads }
}

/** An unreachable upload folder must not keep visitors from downloading finished XML. */
async function uploadsNow({ uploads }: Files, log: Log): Promise<Service['uploads']> {
  try {
    return (await uploads.pressure()) === 'hard' ? 'full' : 'taken'
  } catch (error) {
    if (!(error instanceof RedressError)) throw error
    log.error({ event: 'uploads_away', err: error }, 'the upload store cannot be reached')
    return 'away'
  }
}
