import { engineFailure } from '../../core/failure/capture.ts'
import type { Change, DecidedFailure } from '../../core/job/change.ts'
import type { Status } from '../../core/job/states.ts'
import { type NotifiedJob, noticesOfFailure } from '../../core/notice/notice.ts'
import type { Policy } from '../../core/policy/policy.ts'
import { isoTime } from '../../core/text/duration.ts'
import type { Close, CloseAnswer, Intervention, JobKey, NewJob, Reclaim, Store, Submitted } from '../contract/store.ts'
import { type AheadLine, openCorrections, type SetTimer, type Untrue } from './corrections.ts'

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
  /** For its notices. */
  job?: NotifiedJob
}

/**
 * Writes a line to disk before each change of a job whose policy has `audit: 'write-ahead'`.
 * A change that cannot be logged does not happen; an attempt whose outcome cannot be logged fails (P66, P67). A line whose
 * change the store then refuses is followed by a correction.
 */
export function withWriteAhead(
  store: Store,
  log: LineLog,
  tellBroken: (error: unknown) => void = () => undefined,
  setTimer: SetTimer = noTimer,
  queuedAs: (type: string) => string | undefined = () => undefined,
): Store {
  const watched = new Map<string, Policy>()
  /** The jobs that this process holds or reclaims: closes carry only keys. */
  const seen = new Map<JobKey, Known>()
  const workers = new Map<number, string>()
  /** Jobs that expired while they waited, as they were last looked for. */
  const expiring = new Map<JobKey, Known>()

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
  ): Promise<AheadLine> => ({
    ts: isoTime(await store.nowMs()),
    job_id: known.id,
    type: known.type,
    worker_id: known.worker,
    from: from === null ? null : nameOf(from, known.type),
    to: nameOf(to, known.type),
    ...(failure === null ? {} : failureFields(failure)),
    ...more,
  })

  const nameOf = (status: Status, type: string): string => (status === 'queued' ? (queuedAs(type) ?? status) : status)

  /** Checked before each claim: a full disk must not turn a whole queue into dispatch failures. */
  let isLogBroken = false
  const corrections = openCorrections({
    append: (entries) => log.append(entries),
    nowMs: () => store.nowMs(),
    setTimer,
    broken: (error) => {
      isLogBroken = true
      tellBroken(error)
    },
  })

  const logAll = async (lines: readonly Promise<AheadLine>[]): Promise<AheadLine[]> => {
    const written = await Promise.all(lines)
    if (written.length > 0) await corrections.append(written)
    return written
  }

  const isLogWritable = async (): Promise<boolean> => {
    try {
      await corrections.append([{ ts: isoTime(await store.nowMs()), event: 'log-written-again' }])
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
    // Nothing can be logged synchronously: those jobs wait until their leases expire and are reclaimed.
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

    submit: ({ jobs, ...rest }) => announcing(jobs, () => store.submit({ jobs, ...rest }), untrueOfSubmitted(jobs)),

    tickSchedules: (params) => {
      const jobs = params.ticks.flatMap(({ runs }) => runs.map(({ job }) => job))
      const movedOn = (answers: readonly string[]): ReadonlySet<string> =>
        new Set(params.ticks.flatMap(({ runs }, i) => (answers[i] === 'moved-on' ? runs.map(({ job }) => job.id) : [])))
      return announcing(
        jobs,
        () => store.tickSchedules(params),
        (lines, answers) => {
          const late = movedOn(answers)
          return missingOf(
            lines.filter(({ job_id }) => late.has(job_id)),
            'moved-on',
          )
        },
      )
    },

    actOnSchedule: (params) => {
      const jobs = params.act.kind === 'trigger' ? [params.act.job] : []
      return announcing(jobs, () => store.actOnSchedule(params), missingUnless('done', jobs))
    },

    openBatch: (params) =>
      announcing(
        params.jobs,
        () => store.openBatch(params),
        (lines, answer) => untrueOfSubmitted(params.jobs)(lines, answer.jobs),
      ),

    replayDeadLetter: (params) =>
      announcing(
        [params.job],
        () => store.replayDeadLetter(params),
        (lines, { skip }) => (skip === null ? [] : lines.map((line) => ({ line, reason: skip.code }))),
      ),

    advanceReplay: (params) => {
      const jobs = params.decided.flatMap(({ decision }) => ('job' in decision ? [decision.job] : []))
      return announcing(
        jobs,
        () => store.advanceReplay(params),
        (lines, { submitted }) => (submitted === jobs.length ? [] : missingOf(lines, 'not-replayed')),
      )
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
      // The worker's name is on disk before it gets the job (P18). If the write fails, no worker gets the job: its lease expires,
      // and the job is a dispatch failure. Jobs of other types of the same claim are not affected.
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
      const ahead = await logAll(lines)
      return corrections.settling(
        ahead,
        () => store.start(params),
        ({ lost }) => {
          const lostIds = new Set(lost.map((key) => seen.get(key)?.id))
          return ahead.filter(({ job_id }) => lostIds.has(job_id)).map((line) => ({ line, reason: 'lost' }))
        },
      )
    },

    async close(params) {
      if (seen.size === 0) return store.close(params)
      const forget = forgetting(params.closes)
      const { closes, ahead } = await logOrFail(params.closes)
      const answers = await corrections.settling(
        ahead,
        () => store.close({ ...params, closes }),
        (answered) => untrueOfEnds(closes, ahead, answered),
      )
      for (const { key } of closes) forget(key)
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
      const forget = forgetting(params.reclaims)
      const ahead = await logAll(params.reclaims.flatMap((reclaim) => lineOfReclaim(reclaim)))
      const answers = await corrections.settling(
        ahead,
        () => store.reclaim(params),
        (answered) => untrueOfEnds(params.reclaims, ahead, answered),
      )
      // A reported orphan may recover and be closed here. Every other reclaimed job has left its worker.
      for (const [i, { key, change }] of params.reclaims.entries()) {
        if (answers[i] === 'closed' && change.to !== 'orphaned') forget(key)
      }
      return answers
    },

    async expiredJobs(params) {
      const found = await store.expiredJobs(params)
      if (found.some(({ type }) => !knownTypes.has(type))) await refresh()
      expiring.clear()
      for (const { key, id, type, spent } of found) {
        if (watched.has(type)) expiring.set(key, { id, type, worker: null, spent })
      }
      return found
    },

    async failExpired(params) {
      const known = params.jobs.map(({ key }) => expiring.get(key))
      const lines = params.jobs.flatMap(({ failure, attempt }, i) => {
        const job = known[i]
        return job === undefined ? [] : [line(job, 'queued', 'failed', failure, { attempt })]
      })
      const ahead = await logAll(lines)
      return corrections.settling(
        ahead,
        () => store.failExpired(params),
        (answers) => {
          const late = new Set(answers.flatMap((answer, i) => (answer === 'failed' ? [] : (known[i]?.id ?? []))))
          return ahead.filter(({ job_id }) => late.has(job_id)).map((line) => ({ line, reason: 'moved-on' }))
        },
      )
    },

    async intervene(params) {
      const job = await store.job({ id: params.id })
      if (job === null || job.policy.audit !== 'write-ahead') return store.intervene(params)
      const stood = { id: job.id, type: job.type, worker: job.lease?.worker ?? null, spent: job.spent }
      const ahead = await logAll([lineOfIntervention(stood, params)])
      return corrections.settling(
        ahead,
        () => store.intervene(params),
        (answer) => (answer === 'done' ? [] : ahead.map((line) => ({ line, reason: answer }))),
      )
    },

    async deleteJob(params) {
      const job = await store.job({ id: params.id })
      if (job === null || job.policy.audit !== 'write-ahead') return store.deleteJob(params)
      const { id, type, spent, status, attempt } = job
      const { actor, reason } = params
      const more = { event: 'deleted', actor, reason, attempt }
      const ahead = await logAll([line({ id, type, worker: null, spent }, status, status, null, more)])
      return corrections.settling(
        ahead,
        () => store.deleteJob(params),
        (answer) => (answer === 'done' ? [] : ahead.map((line) => ({ line, reason: answer }))),
      )
    },

    async stop() {
      await store.stop()
      await corrections.append([]).catch(tellBroken)
      await log.close()
    },
  }

  /** Forgets jobs as they are known now. A job that this process claims again meanwhile stays known. */
  function forgetting(ends: readonly { key: JobKey }[]): (key: JobKey) => void {
    const known = new Map(ends.map(({ key }) => [key, seen.get(key)]))
    return (key) => {
      if (seen.get(key) === known.get(key)) seen.delete(key)
    }
  }

  function linesOfSubmissions(jobs: readonly NewJob[]): Promise<AheadLine>[] {
    return jobs.filter(({ type }) => watched.has(type)).map(lineOfSubmission)
  }

  /**
   * If the type names the state before a dispatch, a refused submission leaves that state. Otherwise it never had
   * one.
   */
  function lineOfSubmission({ id, type, retriedFrom, rejected }: NewJob): Promise<AheadLine> {
    const known = { id, type, worker: null, spent: null }
    const from = rejected !== null && queuedAs(type) !== undefined ? 'queued' : null
    const more = retriedFrom === null ? {} : { retried_from: retriedFrom.id }
    return line(known, from, rejected === null ? 'queued' : 'failed', rejected, more)
  }

  /** Corrects the lines of jobs that were announced and then refused. */
  async function announcing<T>(
    jobs: readonly NewJob[],
    submit: () => Promise<T>,
    untrueAfter: (ahead: readonly AheadLine[], answer: T) => readonly Untrue[] | Promise<readonly Untrue[]>,
  ): Promise<T> {
    // A program that declares nothing, such as the command line, may submit jobs of a type that others declared.
    if (jobs.some(({ type }) => !knownTypes.has(type))) await refresh()
    const ahead = await logAll(linesOfSubmissions(jobs))
    return corrections.settling(ahead, submit, (answer) => untrueAfter(ahead, answer))
  }

  /** With a dedupe key, another job may already exist. */
  function untrueOfSubmitted(jobs: readonly NewJob[]) {
    return (ahead: readonly AheadLine[], submitted: readonly Submitted[]): Untrue[] =>
      ahead.flatMap((line) => {
        const there = submitted[jobs.findIndex(({ id }) => id === line.job_id)]
        return there === undefined || there.id === line.job_id ? [] : [{ line, reason: `already there as ${there.id}` }]
      })
  }

  /** Another process may have made the same job meanwhile: then the line is true. */
  function missingUnless<T extends string>(wanted: T, jobs: readonly NewJob[]) {
    return (ahead: readonly AheadLine[], answer: T | string): readonly Untrue[] | Promise<readonly Untrue[]> =>
      answer === wanted || jobs.length === 0 ? [] : missingOf(ahead, answer)
  }

  async function missingOf(ahead: readonly AheadLine[], reason: string): Promise<Untrue[]> {
    const found = await Promise.all(ahead.map(({ job_id }) => store.job({ id: job_id })))
    return ahead.filter((_line, i) => found[i] === null).map((line) => ({ line, reason }))
  }

  /** A close answered with `lost` may have been recorded by an earlier try whose answer was lost. */
  async function untrueOfEnds(
    ends: readonly (Close | Reclaim)[],
    ahead: readonly AheadLine[],
    answers: readonly CloseAnswer[],
  ): Promise<Untrue[]> {
    const untrue: Untrue[] = []
    for (const [i, end] of ends.entries()) {
      const known = seen.get(end.key)
      const line = ahead.find(({ job_id, attempt }) => job_id === known?.id && attempt === end.attempt)
      if (answers[i] !== 'lost' || known === undefined || line === undefined) continue
      if (!(await isRecorded(known, end))) untrue.push({ line, reason: 'lost' })
    }
    return untrue
  }

  async function isRecorded({ id, worker }: Known, { attempt, change }: Close | Reclaim): Promise<boolean> {
    const kind = change.to === 'queued' ? change.cause : change.to
    const code = change.to === 'failed' ? change.failure.code : undefined
    return (await store.events({ id })).some(
      (event) =>
        event.kind === kind &&
        event.attempt === attempt &&
        event.worker === worker &&
        (code === undefined || event.data.code === code),
    )
  }

  function lineOfReclaim({ key, attempt, change }: Reclaim): Promise<AheadLine>[] {
    const known = seen.get(key)
    if (known === undefined) return []
    return change.to === 'orphaned'
      ? [line(known, 'processing', 'processing', null, { attempt, event: 'orphaned' })]
      : [lineOfClose(known, change, attempt)]
  }

  function lineOfIntervention(known: Known, { act, actor, reason, expect }: Intervention): Promise<AheadLine> {
    const to = TO_OF_ACT[act.kind] ?? expect.status
    const failure = act.kind === 'mark-failed' ? act.failure : null
    return line(known, expect.status, to, failure, { event: act.kind, actor, reason, attempt: expect.attempt })
  }

  async function logOrFail(
    closes: readonly Close[],
  ): Promise<{ closes: readonly Close[]; ahead: readonly AheadLine[] }> {
    const lines = closes.flatMap(({ key, change, attempt }) => {
      const known = seen.get(key)
      return known === undefined ? [] : [lineOfClose(known, change, attempt)]
    })
    try {
      return { closes, ahead: await logAll(lines) }
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error)
      const failed = closes.map((close) => {
        const known = seen.get(close.key)
        return known === undefined
          ? close
          : toldOfUnlogged({ ...close, change: unlogged(close.change, known, why) }, known)
      })
      return { closes: failed, ahead: [] }
    }
  }

  /** The notices of the outcome; for a job that fails only because of the log, the notices of its policy for failures. */
  function toldOfUnlogged(close: Close, { type, job }: Known): Close {
    const policy = watched.get(type)
    if (close.notices !== undefined || close.change.to !== 'failed' || policy === undefined || job === undefined)
      return close
    return { ...close, notices: noticesOfFailure(job, close.change.failure, policy) }
  }
}

/** For tests and tools with a virtual clock. */
const noTimer: SetTimer = () => ({ cancel: () => undefined })

const TO_OF_ACT: Partial<Record<Intervention['act']['kind'], Status>> = {
  'retry-in-place': 'queued',
  'mark-failed': 'failed',
  cancel: 'cancelled',
}

/** The six fields of a failure line (P65), with what an operator needs besides. */
function failureFields({ phase, layer, code, fault, message, detail, context, decision }: DecidedFailure): object {
  return {
    class: phase,
    owner: layer,
    code,
    fault,
    reason: `${code}: ${message}`,
    detail,
    context,
    decision: decision.because,
  }
}

/** The outcome could not be logged, so the job fails and says why (P67). */
function unlogged(change: Change, { type, spent }: Known, why: string): Change {
  if (change.to === 'failed') {
    const { failure } = change
    return { ...change, failure: { ...failure, context: { ...failure.context, failureLog: why } } }
  }
  const failure = engineFailure({ code: 'LOG_FAILED', phase: 'execution', type, detail: why })
  const decision = {
    because: 'its outcome could not be written to the failure log, so it does not count as done',
    rule: 'audit = write-ahead',
    budget: { name: 'retry.max', before: 0, after: 0, max: 0 },
  }
  return { to: 'failed', spent, failure: { ...failure, decision }, deadLetter: 'none', isPermanent: false }
}
