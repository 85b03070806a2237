import type { DeadLetter } from '../core/job/change.ts'
import type { Clock } from '../runtime/clock.ts'
import type { CloseAnswer, JobKey, NewJob, Reclaim, Store, Submitted } from '../store/contract/store.ts'
import type { AttemptReport } from '../worker/options.ts'
import type { Activity, ActivityTally } from './activity.ts'

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
  loopBlockedSeconds = 0
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
  readonly blocked = (type: string, ms: number): void => {
    this.of(type).loopBlockedSeconds += ms / 1000
  }
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

const SEEN_MAX = 10_000
/** A store that counts already, for another app of this process: what goes through both is counted for all once. */
const TALLIED = Symbol('tallied')

/**
 * Counts what this process makes durable beside the outcomes of its workers: submissions, what maintenance takes back,
 * what people do. After the answer, so that what was refused is not counted.
 */
export function withTally(store: Store, tally: Tally, clock: Clock, activity: Activity): Store {
  const forAll = TALLIED in store ? null : tally.activity
  /** Reclaims carry only keys. */
  const typesSeen = new Map<JobKey, string>()

  const created = (jobs: readonly NewJob[], submitted: readonly Submitted[]): void => {
    for (const [i, job] of jobs.entries()) if (submitted[i]?.isNew) made(job)
  }
  const made = ({ type, rejected, retriedFrom, imported }: NewJob): void => {
    const of = tally.of(type)
    of.created++
    if (retriedFrom !== null) of.manualRetries++
    // An imported failure happened elsewhere, perhaps long ago: an alert on it would be wrong.
    if (rejected === null || imported !== undefined) return
    of.gaveUp(rejected.code, 'none')
    forAll?.failed(type, rejected.fault)
    activity.sendSoon()
  }
  const timed = async <T>(what: string, call: Promise<T>): Promise<T> => {
    const beganMs = clock.monoMs()
    const answer = await call
    tally.wrote(what, clock.monoMs() - beganMs)
    return answer
  }

  const { submitIn } = store
  const tallied: Store & { [TALLIED]: true } = {
    ...store,
    [TALLIED]: true,

    async submit(params) {
      const submitted = await timed('submit', store.submit(params))
      created(params.jobs, submitted)
      return submitted
    },

    close: (params) => timed('close', store.close(params)),

    async openBatch(params) {
      const opened = await store.openBatch(params)
      if (opened.isNew) created(params.jobs, opened.jobs)
      return opened
    },

    async replayDeadLetter(params) {
      const replayed = await store.replayDeadLetter(params)
      if (replayed.job !== null) made(params.job)
      return replayed
    },

    async advanceReplay(params) {
      const answer = await store.advanceReplay(params)
      const jobs = params.decided.flatMap(({ decision }) => ('job' in decision ? [decision.job] : []))
      // Fewer went than were prepared: which ones is seen by what is there now.
      const went = answer.submitted === jobs.length ? jobs : await present(jobs)
      for (const job of went.slice(0, answer.submitted)) made(job)
      return answer
    },

    async tickSchedules(params) {
      const answers = await store.tickSchedules(params)
      for (const [i, { runs }] of params.ticks.entries()) {
        if (answers[i] === 'taken') for (const { job } of runs) made(job)
      }
      return answers
    },

    async actOnSchedule(params) {
      const answer = await store.actOnSchedule(params)
      if (answer === 'done' && params.act.kind === 'trigger') made(params.act.job)
      return answer
    },

    // Counted when it is written; whether the caller's transaction commits is not known here.
    ...(submitIn !== undefined && {
      submitIn(params) {
        const answer = submitIn(params)
        if (!(answer instanceof Promise)) {
          created(params.jobs, answer)
          return answer
        }
        return answer.then((submitted) => {
          created(params.jobs, submitted)
          return submitted
        })
      },
    }),

    async stalled(params) {
      const found = await store.stalled(params)
      if (typesSeen.size > SEEN_MAX) typesSeen.clear()
      for (const { key, type } of found) typesSeen.set(key, type)
      return found
    },

    async reclaim(params) {
      const answers = await store.reclaim(params)
      for (const [i, { key, change }] of params.reclaims.entries()) {
        const type = typesSeen.get(key)
        if (type !== undefined) {
          tally.tookBack(type, answers[i], change)
          if (answers[i] === 'closed') forAll?.ended(type, change)
        }
        typesSeen.delete(key)
      }
      return answers
    },

    async intervene(params) {
      const job = await store.job({ id: params.id })
      const answer = await store.intervene(params)
      if (answer !== 'done' || job === null) return answer
      const of = tally.of(job.type)
      const { act } = params
      if (act.kind === 'retry-in-place') of.manualRetries++
      else if (act.kind === 'mark-failed') {
        of.gaveUp(act.failure.code, act.deadLetter)
        forAll?.failed(job.type, act.failure.fault)
      } else if (act.kind === 'cancel') {
        of.cancelled++
        forAll?.cancelled(job.type)
      }
      activity.sendSoon()
      return answer
    },

    // The counts of this process are sent first, so that they are among the rows that are read.
    async activity(params) {
      await activity.send().catch(() => undefined)
      return store.activity(params)
    },

    async stop() {
      await activity.send().catch(() => undefined)
      return store.stop()
    },
  }
  return tallied

  async function present(jobs: readonly NewJob[]): Promise<NewJob[]> {
    const rows = await Promise.all(jobs.map(({ id }) => store.job({ id })))
    return jobs.filter((_, i) => rows[i] !== null)
  }
}
