import { z } from 'zod'
import { ACTIONS, type Action } from '../../core/actions.ts'
import type { HoldView } from '../../core/hold.ts'
import { STATUSES } from '../../core/states.ts'
import type { JobView } from '../../core/view.ts'
import type { JobCount } from '../../store/store.ts'
import type { Intervened } from '../interventions.ts'
import type { JobDetail, JobList, JobListing } from '../jobs.ts'
import { anything, count, done, exactly, id, name, nextCursor, number, text, time, timeOrNull, yes } from './schema.ts'

export const statusSchema = z.enum(STATUSES)

export const actionSchema = exactly<Action>()(
  z.strictObject({
    name: z.enum(ACTIONS),
    allowed: yes,
    why: text.describe('what it would do, or why it may not be done'),
  }),
)

export const holdSchema = exactly<HoldView>()(
  z.strictObject({
    by: z.enum(['breaker', 'queue', 'concurrency', 'rate', 'workers']),
    name: name.describe('which one of that kind'),
    why: text,
    until: timeOrNull.describe('when it may go, if that is known'),
  }),
)

const jobFields = {
  id,
  type: name,
  queue: name,
  status: statusSchema,
  owner: name.nullable(),
  batchId: id.nullable(),
  attemptCount: count.describe('dispatches since it was submitted, or since a manual retry gave it a fresh budget'),
  maxAttempts: count,
  retryCount: count,
  manualRetryCount: count,
  lastAttemptAt: timeOrNull,
  retryAfter: timeOrNull.describe('not before this time; null when it may go at once'),
  createdAt: time,
  queuedAt: time,
  startedAt: timeOrNull,
  finishedAt: timeOrNull,
  failedAt: timeOrNull,
  progress: number.min(0).max(1),
  errorCode: name.nullable(),
  errorMessage: text.nullable(),
  retriedFrom: id.nullable().describe('the failed job that a person made this one from'),
  retriedAs: id.nullable().describe('the newest job that a person made from this one since it failed'),
  result: anything,
  priority: number,
  worker: name.nullable(),
  leaseUntil: timeOrNull,
  orphanedAt: timeOrNull,
  cancelRequestedAt: timeOrNull,
  deadLettered: yes,
  manualRetry: z
    .enum(['in-place', 'new-job', 'off'])
    .describe('what a retry by a person does; where it makes a new job, another input may be given'),
  held: z.array(holdSchema).describe('what keeps it back though it could go'),
  actions: z.array(actionSchema).describe('all there are, each with what speaks for or against it'),
}

export const jobSchema = exactly<JobView>()(z.strictObject(jobFields))

export const jobDetailSchema = exactly<JobDetail>()(z.strictObject({ ...jobFields, input: anything }))

const jobListFields = { jobs: z.array(jobSchema), nextCursor }

export const jobListSchema = exactly<JobList>()(z.strictObject(jobListFields))

export const jobListingSchema = exactly<JobListing>()(
  z.strictObject({
    ...jobListFields,
    activeCount: count.describe('queued or processing, of the owner who was asked for; 1000 stands for more, too'),
    timestamp: time.describe(`when this was read, by the store's clock`),
  }),
)

export const jobCountSchema = exactly<JobCount>()(
  z.strictObject({ count, isMore: yes.describe('there are more, or there may be: counting has a bound') }),
)

export const intervenedSchema = exactly<Intervened>()(
  z.strictObject({ ...done, job: jobSchema.describe('as it stands now: the new one where a retry made a new job') }),
)

export const submittedSchema = z.strictObject({ ...done, job: jobSchema.nullable() })
