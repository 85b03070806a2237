import type { Clock } from '../runtime/clock.ts'
import type { JobKey, NewJob, Store, Submitted } from '../store/contract/store.ts'
import type { Activity } from './activity.ts'
import type { Tally } from './tally.ts'

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
  const made = ({ type, rejected, retriedFrom }: NewJob): void => {
    const of = tally.of(type)
    of.created++
    if (retriedFrom !== null) of.manualRetries++
    if (rejected === null) return
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

    async tickSchedule(params) {
      const answer = await store.tickSchedule(params)
      if (answer === 'taken') for (const { job } of params.runs) made(job)
      return answer
    },

    async actOnSchedule(params) {
      const answer = await store.actOnSchedule(params)
      if (answer === 'done' && params.act.kind === 'trigger') made(params.act.job)
      return answer
    },

    // Counted when it is written; whether the caller's transaction commits is not told to anybody here.
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

    // What this process has counted itself is among what is read.
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
