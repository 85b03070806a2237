import type { DeadLetter } from '../core/job/change.ts'
import type { CloseAnswer, Reclaim } from '../store/contract/store.ts'
import type { AttemptReport } from '../worker/options.ts'
import type { ActivityTally } from './activity-tally.ts'

/** In seconds. From a handler that does nothing to an encoder that works for hours. */
export const DURATION_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200]
/** Stages are named by code, and code can make up names; more than this share one. */
const STAGES_MAX = 100
const CODES_MAX = 500
const REST = 'others'

/** How often something took how long. Plain numbers: it is asked for each job. */
export class Durations {
  readonly counts: number[] = new Array(DURATION_BOUNDS.length + 1).fill(0)
  sum = 0

  add(seconds: number): void {
    let i = 0
    while (i < DURATION_BOUNDS.length && seconds > (DURATION_BOUNDS[i] as number)) i++
    this.counts[i] = (this.counts[i] as number) + 1
    this.sum += seconds
  }
}

export type ByCode = Map<string, number>

/** What this process has counted of one job type. */
export class TypeTally {
  created = 0
  completed = 0
  cancelled = 0
  manualRetries = 0
  leasesLost = 0
  reclaimed = 0
  readonly failed: ByCode = new Map()
  readonly retried: ByCode = new Map()
  readonly deadLetters: ByCode = new Map()
  readonly processing = new Durations()
  readonly stages = new Map<string, Durations>()

  ended(report: AttemptReport): void {
    // Counted as a lost lease, by `lost`.
    if (report.answer === 'lost') return
    if (report.ranMs !== null) this.processing.add(report.ranMs / 1000)
    const { change } = report
    if (change.to === 'complete') this.completed++
    else if (change.to === 'failed') this.gaveUp(change.failure.code, change.deadLetter)
    else if (change.to === 'cancelled') this.cancelled++
    else if (change.cause === 'retry' && change.failure !== null) count(this.retried, change.failure.code)
  }

  gaveUp(code: string, deadLetter: DeadLetter): void {
    count(this.failed, code)
    if (deadLetter !== 'none') count(this.deadLetters, code)
  }

  tried(stage: string, ms: number): void {
    let durations = this.stages.get(stage)
    if (durations === undefined) {
      const name = this.stages.size < STAGES_MAX ? stage : REST
      durations = this.stages.get(name) ?? new Durations()
      this.stages.set(name, durations)
    }
    durations.add(ms / 1000)
  }
}

/** Codes come from taxonomies, so there are few; the bound is for a program that declares types without end. */
function count(by: ByCode, code: string): void {
  const name = by.has(code) || by.size < CODES_MAX ? code : REST
  by.set(name, (by.get(name) ?? 0) + 1)
}

/** The counters of one process. Each durable change is counted once, in the process that made it. */
export class Tally {
  readonly types = new Map<string, TypeTally>()
  readonly writes = new Map<string, Durations>()
  /** The same by the minute, for all processes together. */
  readonly activity: ActivityTally

  constructor(activity: ActivityTally) {
    this.activity = activity
  }

  of(type: string): TypeTally {
    let tally = this.types.get(type)
    if (tally === undefined) {
      tally = new TypeTally()
      this.types.set(type, tally)
    }
    return tally
  }

  readonly ended = (report: AttemptReport): void => {
    this.of(report.type).ended(report)
    if (report.answer === 'closed') this.activity.ended(report.type, report.change)
  }
  readonly lost = ({ type }: { type: string }): void => void this.of(type).leasesLost++
  readonly tried = (type: string, stage: string, ms: number): void => this.of(type).tried(stage, ms)

  wrote(what: string, ms: number): void {
    let durations = this.writes.get(what)
    if (durations === undefined) {
      durations = new Durations()
      this.writes.set(what, durations)
    }
    durations.add(ms / 1000)
  }

  /** Taken back by maintenance, for instance from a worker that died. */
  tookBack(type: string, answer: CloseAnswer | undefined, change: Reclaim['change']): void {
    if (answer !== 'closed') return
    const tally = this.of(type)
    if (change.to === 'queued') tally.reclaimed++
    else if (change.to === 'cancelled') tally.cancelled++
    else if (change.to === 'failed') tally.gaveUp(change.failure.code, change.deadLetter)
  }
}
