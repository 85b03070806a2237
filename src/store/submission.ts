import { alreadyRetried } from '../core/actions.ts'
import { RedressError } from '../core/errors.ts'
import type { EventData } from '../core/events.ts'
import type { JobRecord } from '../core/record.ts'
import type { By, NewJob, RetriedFrom } from './store.ts'
import type { AuditEntry } from './written.ts'

/** Who or what made the job, if it was not simply submitted: what its first event says. */
export function originOf({ retriedFrom, scheduled }: NewJob): EventData | null {
  if (retriedFrom !== null) return { actor: retriedFrom.actor, reason: retriedFrom.reason }
  if (scheduled === undefined) return null
  return { ...scheduled.by, schedule: scheduled.name, scheduledForMs: scheduled.atMs }
}

/** A job that a person made. One that is part of a replay of many is in the trail with that replay. */
export function auditOf({ id, by, retriedFrom }: NewJob, atMs: number): [By, AuditEntry] | null {
  if (retriedFrom !== null && retriedFrom.replay === undefined) {
    const act = retriedFrom.act ?? 'jobs.retry'
    return [retriedFrom, { atMs, act, target: 'job', ids: [retriedFrom.id, id], data: { madeJob: id } }]
  }
  return by === undefined ? null : [by, { atMs, act: 'jobs.submit', target: 'job', ids: [id] }]
}

/** The failed job that a new one is made from, as it stands now. */
export type Origin = Pick<JobRecord, 'status' | 'retriedAs' | 'retriedAsStatus'>

/** Compared in the transaction that makes the job, with the failed one locked. */
export function refuseIfRetried({ status, retriedAs, retriedAsStatus }: Origin, retriedFrom: RetriedFrom): void {
  const { id, retriedAsSeen = null } = retriedFrom
  if (status !== 'failed') {
    throw new RedressError('JOB_WRONG_STATE', `Job ${id} is ${status} now, no longer failed. Nothing was done.`, {
      jobId: id,
    })
  }
  if (retriedAs !== null && retriedAs !== retriedAsSeen) throw alreadyRetried(id, retriedAs, retriedAsStatus)
}
