import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { holdText } from '../../core/job/hold.ts'
import { PRIORITY_MAX } from '../../core/job/record.ts'
import { limitOptionOf } from '../../core/limits/singleton.ts'
import { durationMs, formatMs, isoTime } from '../../core/text/duration.ts'
import { timeMs } from '../../runtime/moment.ts'
import type { JobRow, Store } from '../../store/contract/store.ts'
import { durationInput, requireActorAndReason } from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'
import { holdsOf } from './holds.ts'
import { intervene, type JobActed, jobActedSchema, jobActFields, judged, view } from './interventions.ts'
import { aboutJob, neededJob } from './needed-job.ts'

/** Changes of a job that waits. Each happens before a worker claims the job, or not at all. */

export const reschedule = operation('jobs.reschedule', {
  input: z.strictObject({
    ...jobActFields,
    at: z.string().min(1).optional().describe(`not before this time: '2026-01-31T08:00Z'`),
    delay: durationInput.optional().describe(`not before this time has passed, from now: '30s', '5m', '2h'`),
  }),
  output: jobActedSchema,
  about: aboutJob,
  run: async ({ store }, { at, delay, ...act }): Promise<JobActed> => {
    const { job, why } = await judged(store, act, 'reschedule')
    const nowMs = await store.nowMs()
    const to = timeOf(at, delay)
    const dueAtMs = 'atMs' in to ? to.atMs : nowMs + to.delayMs
    const isNow = dueAtMs <= nowMs
    if (isNow && isDue(job, nowMs)) return alreadyDue(store, job)
    const planned = isNow ? 'makes it due now' : `makes it due at ${isoTime(dueAtMs)}`
    return intervene(store, act, job, isNow ? planned : `${planned} (${why})`, { kind: 'reschedule', to }, (now) =>
      dueInWords(store, now),
    )
  },
})

function timeOf(at: string | undefined, delay: string | number | undefined) {
  if ((at === undefined) === (delay === undefined)) {
    throw new RedressError('OPTION_INVALID', 'Give either `at` or `delay`: the new time of the job.')
  }
  if (delay !== undefined) return { delayMs: durationMs(delay, 'delay') }
  return { atMs: timeMs(at, 'at') }
}

export const promote = operation('jobs.promote', {
  input: z.strictObject(jobActFields),
  output: jobActedSchema,
  about: aboutJob,
  run: async ({ store }, act): Promise<JobActed> => {
    const found = await neededJob(store, act.id)
    requireActorAndReason(act, `job ${act.id}`)
    if (found.status === 'queued' && isDue(found, await store.nowMs())) return alreadyDue(store, found)
    const { job, why } = await judged(store, act, 'promote')
    return intervene(store, act, job, why, { kind: 'promote' }, (now) => dueInWords(store, now))
  },
})

export const reprioritise = operation('jobs.reprioritise', {
  input: z.strictObject({
    ...jobActFields,
    priority: z.coerce
      .number()
      .int()
      .min(-PRIORITY_MAX)
      .max(PRIORITY_MAX)
      .describe(`higher numbers run first; from -${PRIORITY_MAX} to ${PRIORITY_MAX}`),
  }),
  output: jobActedSchema,
  about: aboutJob,
  run: async ({ store }, { priority, ...act }): Promise<JobActed> => {
    const { job, why } = await judged(store, act, 'reprioritise')
    if (job.priority === priority) {
      return { isDone: false, did: `Nothing was done: job ${job.id} has priority ${priority} already.`, job: view(job) }
    }
    const change = `from ${job.priority} to ${priority}`
    const did = () => `Job ${job.id} has priority ${priority} now; it had ${job.priority}.`
    return intervene(store, act, job, `${why} (${change})`, { kind: 'reprioritise', priority }, did)
  },
})

export const replaceInput = operation('jobs.replace-input', {
  input: z.strictObject({
    ...jobActFields,
    input: z.unknown().describe('the new input, as its job type requires'),
  }),
  output: jobActedSchema,
  about: aboutJob,
  run: async (context, { input, ...act }): Promise<JobActed> => {
    const { store } = context
    const { job, why } = await judged(store, act, 'replace-input')
    if (input === undefined) throw new RedressError('OPTION_INVALID', 'Give the new input of the job as `input`.')
    const { payload, limitKey } = await checked(context, job, input)
    const isKnown = context.codesOf(job.type) !== undefined
    const unchecked = isKnown ? '' : ` This program does not declare ${job.type}: its worker checks the input.`
    const key = job.dedupeKey === null ? '' : ' Its dedupe key stays as it is.'
    const did = () => `Job ${job.id} has another input.${key}${unchecked}`
    return intervene(store, act, job, why, { kind: 'replace-input', payload, limitKey }, did)
  },
})

/** The new input is checked as a submission is. The limit key follows from it, if the type computes one. */
async function checked({ prepare }: Context, { id, type, owner, limitKey }: JobRow, input: unknown) {
  const prepared = await prepare(type, input, {
    ...(owner !== null && { owner }),
    ...limitOptionOf(limitKey),
  })
  const { rejected } = prepared
  if (rejected === null) return prepared
  // A type may record refused submissions as failed jobs. This job keeps its input instead.
  const problems = rejected.context.problems
  throw new RedressError('SUBMISSION_REFUSED', `${rejected.code}: ${rejected.message} Job ${id} keeps its input.`, {
    jobId: id,
    ...(Array.isArray(problems) && { problems: problems.map(String) }),
  })
}

const isDue = ({ dueAtMs }: JobRow, nowMs: number): boolean => dueAtMs === null || dueAtMs <= nowMs

async function alreadyDue(store: Store, job: JobRow): Promise<JobActed> {
  const did = `Nothing was done: job ${job.id} is due already.${await heldInWords(store, job)}`
  return { isDone: false, did, job: view(job) }
}

async function dueInWords(store: Store, job: JobRow): Promise<string> {
  const nowMs = await store.nowMs()
  if (!isDue(job, nowMs)) {
    const dueAtMs = job.dueAtMs ?? nowMs
    return `Job ${job.id} is due at ${isoTime(dueAtMs)}, in ${formatMs(dueAtMs - nowMs)}.`
  }
  return `Job ${job.id} is due now.${await heldInWords(store, job)}`
}

/** A job that is due can still be held: then making it due does not start it. */
async function heldInWords(store: Store, job: JobRow): Promise<string> {
  const holds = (await holdsOf(store, [job]))(job)
  return holds.length === 0 ? '' : ` It does not start yet: ${holds.map(holdText).join('; ')}.`
}
