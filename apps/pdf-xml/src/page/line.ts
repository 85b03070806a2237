import type { App } from 'redress'
import { CONVERT } from '../convert.ts'

/** Where a conversion stands among all that wait: its place, or how long the line is where that is too long to count. */
export type Place = { before: number } | { length: number; isMore: boolean }

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

/** The line of all who wait. Everybody who looks shares one look, so that a long line does not become longer by being looked at. */
export class Line {
  readonly #app: App
  #snapshot: Promise<Snapshot> | null = null
  #freshUntilMs = 0

  constructor(app: App) {
    this.#app = app
  }

  async placeOf(createdAt: string): Promise<Place> {
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
