import { statfs } from 'node:fs/promises'
import { RedressError } from '../../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../../core/text/options.ts'
import type { Pressure, Usage } from '../artifact-store.ts'
import { SharedSteps } from './place.ts'

/** A limit is exceeded when one of its conditions is. */
interface SpaceLimit {
  /** Free bytes of the file system, without those that are reserved for root. */
  bytesFreeMin?: number | undefined
  percentFreeMin?: number | undefined
  /** Bytes in this folder. They are counted at opening and at each sweep; in between, only changes of this process count. */
  bytesUsedMax?: number | undefined
}

/** How full a disk may become: beyond `soft` it is time to clean up, beyond `hard` writes are refused with STORAGE_FULL. */
export interface SpaceLimits {
  soft?: SpaceLimit | undefined
  hard?: SpaceLimit | undefined
}

const LIMITS = optionNames<SpaceLimits>({ soft: true, hard: true })
const LIMIT = optionNames<SpaceLimit>({ bytesFreeMin: true, percentFreeMin: true, bytesUsedMax: true })
const MEBIBYTE = 2 ** 20
/** The database of jobs is often on the same disk: when artifacts have filled it, failures cannot be recorded either. */
const DEFAULT_LIMITS: SpaceLimits = { soft: { bytesFreeMin: 512 * MEBIBYTE }, hard: { bytesFreeMin: 64 * MEBIBYTE } }

/** While an artifact is written, free space is checked again after this many bytes. */
export const BYTES_BETWEEN_CHECKS = 4 * MEBIBYTE

export interface UnfinishedBytes {
  grow(bytes: number): void
  end(): void
}

interface SpaceOptions {
  root: string
  limits?: SpaceLimits | undefined
  onPressure?: ((pressure: Pressure, usage: Usage) => void) | undefined
}

/** Measures free and used space, and refuses writes beyond the hard limit. */
export class Space {
  readonly countsBytes: boolean
  readonly #root: string
  readonly #looks = new SharedSteps((path) => statfs(path))
  readonly #limits: SpaceLimits
  readonly #onPressure: (pressure: Pressure, usage: Usage) => void
  #bytesStored = 0
  #bytesInFlight = 0
  #lastPressure: Pressure = 'ok'

  constructor({ root, limits = DEFAULT_LIMITS, onPressure = () => undefined }: SpaceOptions) {
    checkLimits(limits)
    this.#root = root
    this.#limits = limits
    this.#onPressure = onPressure
    this.countsBytes = limits.soft?.bytesUsedMax !== undefined || limits.hard?.bytesUsedMax !== undefined
  }

  async usage(): Promise<Usage> {
    const { bsize, blocks, bfree, bavail } = await this.#looks.run(this.#root)
    return {
      bytesUsed: this.countsBytes ? this.#bytesStored + this.#bytesInFlight : null,
      bytesFree: bavail * bsize,
      // Like df: bytes reserved for root are neither free nor used.
      bytesTotal: (blocks - bfree + bavail) * bsize,
    }
  }

  async pressure(): Promise<Pressure> {
    const usage = await this.usage()
    return this.#tell(this.#level(usage, 0), usage)
  }

  /** Throws if `bytesMore` further bytes would exceed the hard limit. */
  async admit(key: string, bytesMore: number): Promise<void> {
    const usage = await this.usage()
    const broken = brokenLimit(this.#limits.hard, usage, bytesMore)
    this.#tell(broken === null ? this.#level(usage, 0) : 'hard', usage)
    if (broken !== null) throw new RedressError('STORAGE_FULL', `${key} was not stored: ${broken}.`)
  }

  /** Counts the bytes of an unfinished artifact as used. Otherwise several writes together could exceed the limit. */
  beginWrite(): UnfinishedBytes {
    let bytesInFlight = 0
    return {
      grow: (bytes) => {
        bytesInFlight += bytes
        this.#bytesInFlight += bytes
      },
      end: () => {
        this.#bytesInFlight -= bytesInFlight
        bytesInFlight = 0
      },
    }
  }

  stored(bytes: number): void {
    this.#bytesStored += bytes
  }

  recounted(bytes: number): void {
    this.#bytesStored = bytes
  }

  #level(usage: Usage, bytesMore: number): Pressure {
    if (brokenLimit(this.#limits.hard, usage, bytesMore) !== null) return 'hard'
    return brokenLimit(this.#limits.soft, usage, bytesMore) === null ? 'ok' : 'soft'
  }

  #tell(pressure: Pressure, usage: Usage): Pressure {
    const isNews = pressure !== this.#lastPressure
    this.#lastPressure = pressure
    if (isNews) this.#onPressure(pressure, usage)
    return pressure
  }
}

function brokenLimit(limit: SpaceLimit | undefined, usage: Usage, bytesMore: number): string | null {
  const { bytesFreeMin = 0, percentFreeMin = 0, bytesUsedMax = Number.POSITIVE_INFINITY } = limit ?? {}
  const bytesFree = (usage.bytesFree ?? Number.POSITIVE_INFINITY) - bytesMore
  const percentFree = (bytesFree / (usage.bytesTotal ?? 1)) * 100
  if (bytesFree < bytesFreeMin) return `it would leave ${bytesFree} bytes free, and ${bytesFreeMin} must stay`
  if (percentFree < percentFreeMin) {
    return `it would leave ${percentFree.toFixed(1)} % of the disk free, and ${percentFreeMin} % must stay`
  }
  const bytesUsed = (usage.bytesUsed ?? 0) + bytesMore
  return bytesUsed > bytesUsedMax ? `artifacts would use ${bytesUsed} bytes of the ${bytesUsedMax} they may` : null
}

function checkLimits(limits: SpaceLimits): void {
  refuseUnknownOptions('limits', limits, LIMITS)
  for (const level of ['soft', 'hard'] as const) {
    refuseUnknownOptions(`limits.${level}`, limits[level], LIMIT)
    for (const [name, value] of Object.entries(limits[level] ?? {})) {
      const isRight = typeof value === 'number' && value >= 0 && (name !== 'percentFreeMin' || value <= 100)
      if (value === undefined || isRight) continue
      throw new RedressError('OPTION_INVALID', `limits.${level}.${name} must be a number from 0 on, not ${value}.`)
    }
  }
}
