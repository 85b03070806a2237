const WORTH_MS = 100
const GROWTH_MAX = 4
/** Payloads that wait for a slot are in memory: with large ones, fewer wait. */
const PAYLOAD_CHARS_MAX = 16 * 1024 * 1024
const GROWTH_MIN_JOBS = 8
/** Guards the first division; a timer cannot tell less than this apart anyway. */
const ELAPSED_MS_MIN = 0.5

/**
 * How many jobs to claim ahead: about as many as the worker got done in the last tenth of a second. Short jobs are
 * fetched by the hundred, because that is where the speed is; long ones are left for workers that have a free slot.
 */
export class Prefetch {
  readonly #max: number
  #size = 0
  #done = 0
  #sinceMonoMs: number | null = null

  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#size
  }

  done(): void {
    this.#done++
  }

  claimed(jobs: number, payloadChars: number, nowMonoMs: number): void {
    if (this.#sinceMonoMs !== null && jobs > 0) {
      const elapsedMs = Math.max(ELAPSED_MS_MIN, nowMonoMs - this.#sinceMonoMs)
      const worth = Math.floor((this.#done / elapsedMs) * WORTH_MS)
      // Grown step by step, so that one quick job does not make a worker hoard five hundred slow ones.
      const allowed = Math.max(GROWTH_MIN_JOBS, this.#size * GROWTH_MAX)
      const affordable = Math.floor((PAYLOAD_CHARS_MAX * jobs) / Math.max(1, payloadChars))
      this.#size = Math.min(this.#max, allowed, worth, affordable)
    }
    this.#done = 0
    this.#sinceMonoMs = nowMonoMs
  }
}
