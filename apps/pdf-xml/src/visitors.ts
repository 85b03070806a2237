import type { FastifyRequest } from 'fastify'
import type { App } from 'redress'
import { clientAddress } from 'redress/http'
import { CONVERT, type ConvertInput } from './convert-job.ts'
import type { Refused } from './receive.ts'
import { type Settings, UPLOAD_BYTES_MAX } from './settings.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000
/** The address that was idle for longest is removed first. */
const ADDRESSES_MAX = 10_000
/** Each upload scans the visitor's own files, so their number is bounded. */
const FILES_MAX = 1_000
const BUSY_MS = 30_000
const RECENT_MS = 10 * 60_000
/** The lowest priority of a visitor's file. The bound keeps a busy day from delaying a file forever. */
const PRIORITIES = 10

/** A visitor's permission to send one file. */
export interface UploadPermit {
  /** The limit key of the conversion: visitors of one address share the parser as one. */
  limitKey: string
  /** Lower for each recent file of the same address: the files of visitors who send few go first. */
  priority: number
  /** Called when the size of the file is known. */
  refuse(bytes: number): Refused | null
  /** Called when the upload is over; `bytes` is the stored size. */
  end(bytes: number): void
}

/** One upload. While the file arrives, it counts with its maximum size. */
interface Entry {
  owner: string
  atMs: number
  bytes: number
}

/** Recent uploads from an address. */
interface Meter {
  uploads: Entry[]
}

/**
 * The quotas of visitors who have not signed in. A visitor is a cookie, and a request without one is a new visitor.
 * So addresses are counted as well; IPv6 addresses by their /64 network. Each visitor's files, their turn in the
 * parser and the backlog are counted in the store, over all processes. Uploads per address are counted in the memory
 * of each process.
 */
export class VisitorLimits {
  readonly #app: App
  readonly #settings: Settings
  readonly #meters = new Map<string, Meter>()
  /** Uploads that are not jobs yet, in order of arrival. */
  readonly #arriving = new Set<Entry>()
  /** A keyed hash of an address: limit keys do not reveal addresses. */
  readonly #nameOf: (address: string) => string

  constructor(app: App, settings: Settings, nameOf: (address: string) => string) {
    this.#app = app
    this.#settings = settings
    this.#nameOf = nameOf
  }

  /** Called before the file is read. */
  async admit(request: FastifyRequest, owner: string): Promise<UploadPermit | Refused> {
    const limits = this.#settings.visitors
    const nowMs = await (await this.#app.store()).nowMs()
    const address = clientAddress(request)
    const meter = this.#meterOf(address, nowMs)
    const tooOften = refusedAddress(meter, limits, nowMs)
    if (tooOften !== null) return tooOften
    // Counted before the first `await`, so that concurrent uploads cannot exceed the quota.
    const entry = { owner, atMs: nowMs, bytes: sizeOf(request) }
    meter.uploads.push(entry)
    this.#arriving.add(entry)
    const end = (bytes: number) => {
      entry.bytes = bytes
      this.#arriving.delete(entry)
    }
    try {
      const refused = (await this.#refusedBacklog(entry)) ?? (await this.#refusedOwner(entry))
      const keptBytes = await this.#keptBytes(entry)
      const refuse = (bytes: number) =>
        isOver(keptBytes + bytes, limits.keptBytesMax) ? tooMuchKept(this.#settings) : null
      const early = refused ?? refuse(1)
      if (early === null) {
        const others = meter.uploads.filter(({ atMs }) => atMs > nowMs - RECENT_MS).length - 1
        const priority = -Math.min(others, PRIORITIES)
        return { limitKey: `address-${this.#nameOf(address)}`, priority, refuse, end }
      }
      meter.uploads = meter.uploads.filter((one) => one !== entry)
      end(0)
      return early
    } catch (error) {
      end(0)
      throw error
    }
  }

  #meterOf(address: string, nowMs: number): Meter {
    const meter = this.#meters.get(address) ?? { uploads: [] }
    meter.uploads = meter.uploads.filter(({ atMs }) => atMs > nowMs - DAY_MS)
    this.#meters.delete(address)
    if (this.#meters.size >= ADDRESSES_MAX) this.#meters.delete(this.#meters.keys().next().value as string)
    this.#meters.set(address, meter)
    return meter
  }

  /** Uploads that began before this one and are not jobs yet. */
  #before(entry: Entry): Entry[] {
    const all = [...this.#arriving]
    return all.slice(0, all.indexOf(entry))
  }

  #ownBefore(entry: Entry): Entry[] {
    return this.#before(entry).filter(({ owner }) => owner === entry.owner)
  }

  async #refusedBacklog(entry: Entry): Promise<Refused | null> {
    const { backlogMax } = this.#settings.visitors
    if (backlogMax === 0) return null
    const store = await this.#app.store()
    const { count } = await store.countJobs({ type: CONVERT, status: 'queued', max: backlogMax })
    if (count + this.#before(entry).length < backlogMax) return null
    return {
      kind: 'refused',
      status: 503,
      code: 'BACKLOG_FULL',
      retryAfterMs: BUSY_MS,
      message: `${backlogMax} files or more wait to be converted, so no more are taken from visitors.`,
      action: 'Send it again in a while, or sign in.',
    }
  }

  async #refusedOwner(entry: Entry): Promise<Refused | null> {
    const { owner, atMs } = entry
    const { uploadsPerHour } = this.#settings.visitors
    const recent = await this.#jobsOf(owner, atMs - HOUR_MS)
    if (!isOver(recent.length + this.#ownBefore(entry).length + 1, uploadsPerHour)) return null
    return tooMany(
      `You have sent ${uploadsPerHour} files in an hour, which is the limit.`,
      (recent.at(-1)?.createdAtMs ?? atMs) + HOUR_MS - atMs,
    )
  }

  async #keptBytes(entry: Entry): Promise<number> {
    const { owner, atMs } = entry
    const jobs = await this.#jobsOf(owner, atMs - this.#settings.uploads.keepDays * DAY_MS)
    const arriving = this.#ownBefore(entry)
    if (jobs.length + arriving.length >= FILES_MAX) return Number.POSITIVE_INFINITY
    const kept = jobs.map(({ payload }) => (JSON.parse(payload) as ConvertInput).bytes)
    return [...kept, ...arriving.map(({ bytes }) => bytes)].reduce((sum, bytes) => sum + bytes, 0)
  }

  /** The newest first. */
  async #jobsOf(owner: string, createdSinceMs: number) {
    const store = await this.#app.store()
    return store.jobs({ owner, type: CONVERT, createdSinceMs, limit: FILES_MAX })
  }
}

/** 0 disables the limit. */
const isOver = (value: number, max: number): boolean => max > 0 && value > max

/** No larger file is accepted, and a form is hardly larger than its file. */
function sizeOf({ headers }: FastifyRequest): number {
  const bytes = Number(headers['content-length'] ?? UPLOAD_BYTES_MAX)
  return Number.isFinite(bytes) ? Math.min(bytes, UPLOAD_BYTES_MAX) : UPLOAD_BYTES_MAX
}

function refusedAddress({ uploads }: Meter, limits: Settings['visitors'], nowMs: number): Refused | null {
  const { addressUploadsPerHour, addressBytesPerDay } = limits
  const recent = uploads.filter(({ atMs }) => atMs > nowMs - HOUR_MS)
  const [first] = recent
  if (first !== undefined && isOver(recent.length + 1, addressUploadsPerHour)) {
    return tooMany(
      `Your address has sent ${addressUploadsPerHour} files in an hour, which is the limit.`,
      first.atMs + HOUR_MS - nowMs,
    )
  }
  const bytes = uploads.reduce((sum, upload) => sum + upload.bytes, 0)
  const [oldest] = uploads
  if (oldest === undefined || addressBytesPerDay === 0 || bytes < addressBytesPerDay) return null
  return tooMany(
    `Your address has sent ${inMb(addressBytesPerDay)} in a day, which is the limit.`,
    oldest.atMs + DAY_MS - nowMs,
  )
}

const tooMany = (message: string, retryAfterMs: number): Refused => ({
  kind: 'refused',
  status: 429,
  code: 'TOO_MANY_REQUESTS',
  message,
  action: 'Send it again when Retry-After has passed, or sign in.',
  retryAfterMs,
})

const tooMuchKept = ({ visitors: { keptBytesMax }, uploads: { keepDays } }: Settings): Refused => ({
  kind: 'refused',
  status: 507,
  code: 'QUOTA_EXCEEDED',
  message: `Your files would take more than ${inMb(keptBytesMax)}, or are more than ${FILES_MAX}, which is the limit.`,
  action: `Files are removed ${keepDays} days after they were sent. Come back then, or sign in.`,
})

const inMb = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MB`
