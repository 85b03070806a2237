import { engineFailure } from '../core/capture.ts'
import type { Change, DecidedFailure } from '../core/change.ts'
import { RedressError } from '../core/errors.ts'
import { isoTime } from '../core/iso-time.ts'
import { type NotifiedJob, noticesOfFailure } from '../core/notices.ts'
import type { Policy } from '../core/policy.ts'
import type { Status } from '../core/states.ts'
import type { Close, Intervention, JobKey, NewJob, Reclaim, Store } from './store.ts'

/** Where lines go before the state changes; see runtime/journal.ts. An answered `append` is on disk. */
export interface LineLog {
  append(entries: readonly object[]): Promise<void>
  close(): Promise<void>
}

interface Known {
  id: string
  type: string
  worker: string | null
  spent: string | null
  /** For what is to be told of it. */
  job?: NotifiedJob
}

/**
 * Puts a line on disk before each change of a job whose policy says `audit: 'write-ahead'`, whoever makes the change.
 * A change that cannot be logged does not happen; an attempt whose outcome cannot be logged fails (P66, P67).
 */
export function withWriteAhead(
  store: Store,
  log: LineLog,
  tellBroken: (error: unknown) => void = () => undefined,
): Store {
  const watched = new Map<string, Policy>()
  /** What this process has seen of the jobs it holds or looks after: closes carry only keys. */
  const seen = new Map<JobKey, Known>()
  const workers = new Map<number, string>()

  const knownTypes = new Set<string>()
  const refresh = async () => {
    for (const { name, policy } of await store.types()) {
      knownTypes.add(name)
      if (policy.audit === 'write-ahead') watched.set(name, policy)
    }
  }

  const line = async (
    known: Known,
    from: Status | null,
    to: Status,
    failure: DecidedFailure | null,
    more: object = {},
  ) => ({
    ts: isoTime(await store.nowMs()),
    job_id: known.id,
    type: known.type,
    worker_id: known.worker,
    from,
    to,
    ...(failure === null ? {} : failureFields(failure)),
    ...more,
  })

  const logAll = async (lines: readonly Promise<object>[]): Promise<void> => {
    if (lines.length > 0) await log.append(await Promise.all(lines))
  }

  /** Asked before more is claimed: a full disk must not make dispatch failures of a whole queue. */
  let isLogBroken = false
  const isLogWritable = async (): Promise<boolean> => {
    try {
      await log.append([{ ts: isoTime(await store.nowMs()), event: 'log-written-again' }])
      isLogBroken = false
      return true
    } catch {
      return false
    }
  }

  const lineOfClose = (known: Known, change: Change, attempt: number) =>
    line(known, 'processing', change.to, 'failure' in change ? change.failure : null, { attempt })

  const { closeNow } = store
  return {
    ...store,
    // At the last moment nothing can be logged first: those jobs are left to their leases, and so to `reclaim`.
    ...(closeNow === undefined
      ? {}
      : { closeNow: (params) => closeNow({ ...params, closes: params.closes.filter(({ key }) => !seen.has(key)) }) }),

    async register(params) {
      await store.register(params)
      await refresh()
    },

    async enlist(params) {
      await refresh()
      const key = await store.enlist(params)
      workers.set(key, params.id)
      return key
    },

    submit: (params) => announcing(params.jobs, () => store.submit(params)),

    async tickSchedule(params) {
      await logAll(linesOfSubmissions(params.runs.map(({ job }) => job)))
      return store.tickSchedule(params)
    },

    async actOnSchedule(params) {
      const { act } = params
      if (act.kind === 'trigger') await logAll(linesOfSubmissions([act.job]))
      return store.actOnSchedule(params)
    },

    openBatch: (params) => announcing(params.jobs, () => store.openBatch(params)),

    async replayDeadLetter(params) {
      const answer = await announcing([params.job], () => store.replayDeadLetter(params))
      if (answer.skip !== null) await logAll(linesOfRefusals([params.job], answer.skip.code))
      return answer
    },

    async advanceReplay(params) {
      await logAll(
        linesOfSubmissions(params.decided.flatMap(({ decision }) => ('job' in decision ? [decision.job] : []))),
      )
      return store.advanceReplay(params)
    },

    async claim(params) {
      if (watched.size === 0) return store.claim(params)
      const isWritable = !isLogBroken || (await isLogWritable())
      const lanes = isWritable ? params.lanes : params.lanes.filter(({ type }) => !watched.has(type))
      const claimed = await store.claim({ ...params, lanes })
      const worker = workers.get(params.worker) ?? null
      const lines = claimed.leases.flatMap((job) => {
        const { key, id, type, attempt, spent } = job
        if (!watched.has(type)) return []
        const known = { id, type, worker, spent, job }
        seen.set(key, known)
        return [line(known, 'queued', 'processing', null, { attempt })]
      })
      // The worker's name is on disk before it gets the job (P18). If it cannot be, nobody gets it: the lease runs out,
      // and the job is a dispatch failure. Jobs of other types that came with it are not touched by that.
      try {
        await logAll(lines)
        return claimed
      } catch (error) {
        isLogBroken = true
        tellBroken(error)
        const leases = claimed.leases.filter(({ type }) => !watched.has(type))
        if (leases.length === 0) throw error
        return { ...claimed, leases }
      }
    },

    async start(params) {
      const lines = params.attempts.flatMap(({ key, attempt }) => {
        const known = seen.get(key)
        return known === undefined ? [] : [line(known, 'processing', 'processing', null, { attempt, event: 'started' })]
      })
      await logAll(lines)
      return store.start(params)
    },

    async close(params) {
      if (seen.size === 0) return store.close(params)
      const closes = await logOrFail(params.closes)
      const answers = await store.close({ ...params, closes })
      for (const { key } of closes) seen.delete(key)
      return answers
    },

    async stalled(params) {
      const found = await store.stalled(params)
      for (const job of found) {
        const { key, id, type, worker, spent } = job
        if (watched.has(type)) seen.set(key, { id, type, worker, spent, job })
      }
      return found
    },

    async reclaim(params) {
      await logAll(params.reclaims.flatMap((reclaim) => lineOfReclaim(reclaim)))
      const answers = await store.reclaim(params)
      // A reported orphan may come back and be closed here; every other job taken back is nobody's any more.
      for (const [i, { key, change }] of params.reclaims.entries()) {
        if (answers[i] === 'closed' && change.to !== 'orphaned') seen.delete(key)
      }
      return answers
    },

    async intervene(params) {
      const job = await store.job({ id: params.id })
      if (job !== null && job.policy.audit === 'write-ahead') {
        const stood = { id: job.id, type: job.type, worker: job.lease?.worker ?? null, spent: job.spent }
        await logAll([lineOfIntervention(stood, params)])
      }
      return store.intervene(params)
    },

    async stop() {
      await store.stop()
      await log.close()
    },
  }

  function linesOfSubmissions(jobs: readonly NewJob[]): Promise<object>[] {
    return jobs.filter(({ type }) => watched.has(type)).map((job) => line(...lineOfSubmission(job)))
  }

  /** Whoever reads the log must not look for jobs that were announced and then turned away. */
  async function announcing<T>(jobs: readonly NewJob[], submit: () => Promise<T>): Promise<T> {
    // A program that declares nothing, such as the command line, may submit jobs of a type that others declared.
    if (jobs.some(({ type }) => !knownTypes.has(type))) await refresh()
    await logAll(linesOfSubmissions(jobs))
    try {
      return await submit()
    } catch (error) {
      // Of a store that failed, nobody knows what it did.
      const isRefusal = error instanceof RedressError && (error.code === 'BACKLOG_FULL' || error.httpStatus < 500)
      if (isRefusal) await logAll(linesOfRefusals(jobs, error.code))
      throw error
    }
  }

  function linesOfRefusals(jobs: readonly NewJob[], reason: string): Promise<object>[] {
    const refused = jobs.filter(({ type }) => watched.has(type))
    return refused.map(async ({ id, type }) => ({
      ts: isoTime(await store.nowMs()),
      job_id: id,
      type,
      event: 'refused',
      reason,
    }))
  }

  function lineOfReclaim({ key, attempt, change }: Reclaim): Promise<object>[] {
    const known = seen.get(key)
    if (known === undefined) return []
    return change.to === 'orphaned'
      ? [line(known, 'processing', 'processing', null, { attempt, event: 'orphaned' })]
      : [lineOfClose(known, change, attempt)]
  }

  function lineOfIntervention(known: Known, { act, actor, reason, expect }: Intervention): Promise<object> {
    const to = TO_OF_ACT[act.kind] ?? expect.status
    const failure = act.kind === 'mark-failed' ? act.failure : null
    return line(known, expect.status, to, failure, { event: act.kind, actor, reason, attempt: expect.attempt })
  }

  async function logOrFail(closes: readonly Close[]): Promise<readonly Close[]> {
    const lines = closes.flatMap(({ key, change, attempt }) => {
      const known = seen.get(key)
      return known === undefined ? [] : [lineOfClose(known, change, attempt)]
    })
    try {
      await logAll(lines)
      return closes
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      return closes.map((close) => {
        const known = seen.get(close.key)
        return known === undefined
          ? close
          : toldOfUnlogged({ ...close, change: unlogged(close.change, known, why) }, known)
      })
    }
  }

  /** What was to be told of the outcome is told; of a job that failed only by this, what its policy says of failures. */
  function toldOfUnlogged(close: Close, { type, job }: Known): Close {
    const policy = watched.get(type)
    if (close.notices !== undefined || close.change.to !== 'failed' || policy === undefined || job === undefined)
      return close
    return { ...close, notices: noticesOfFailure(job, close.change.failure, policy) }
  }
}

const TO_OF_ACT: Partial<Record<Intervention['act']['kind'], Status>> = {
  'retry-in-place': 'queued',
  'mark-failed': 'failed',
  cancel: 'cancelled',
}

function lineOfSubmission(job: NewJob): [Known, null, Status, DecidedFailure | null] {
  const known = { id: job.id, type: job.type, worker: null, spent: null }
  return [known, null, job.rejected === null ? 'queued' : 'failed', job.rejected]
}

/** The six fields of a failure line (P65), with what an operator needs besides. */
function failureFields({ stage, owner, code, fault, message, detail, context, decision }: DecidedFailure): object {
  return {
    class: stage,
    owner,
    code,
    fault,
    reason: `${code}: ${message}`,
    detail,
    context,
    decision: decision.because,
  }
}

/** Whatever the attempt came to, it could not be logged: it is failed, and says why (P67). */
function unlogged(change: Change, { type, spent }: Known, why: string): Change {
  if (change.to === 'failed') {
    const { failure } = change
    return { ...change, failure: { ...failure, context: { ...failure.context, failureLog: why } } }
  }
  const failure = engineFailure({ code: 'LOG_FAILED', stage: 'execution', type, detail: why })
  const decision = {
    because: 'its outcome could not be written to the failure log, so it does not count as done',
    rule: 'audit = write-ahead',
    budget: { name: 'retry.max', before: 0, after: 0, max: 0 },
  }
  return { to: 'failed', spent, failure: { ...failure, decision }, deadLetter: 'none', isPermanent: false }
}
