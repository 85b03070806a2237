import { z } from 'zod'
import { actionsFor } from '../core/actions.ts'
import { explain } from '../core/explain.ts'
import type { FailureGroup } from '../core/failure-group.ts'
import { STATUSES } from '../core/states.ts'
import { type JobView, viewJob } from '../core/view.ts'
import { viewEvent, viewFailure } from '../core/view-history.ts'
import { foldAll } from '../store/failure-groups.ts'
import type { JobFilter, JobRow, Store } from '../store/store.ts'
import { actionsNow } from './admit-retry.ts'
import { holdsOf } from './holds.ts'
import { neededJob } from './needed-job.ts'
import { type Context, idField, limitField, operation, ownerField, typeField } from './operation.ts'

const LIST_MAX = 1_000

export interface JobList {
  jobs: JobView[]
  /** Give it as `cursor` for the older ones; null when these were the last. */
  nextCursor: string | null
}

export const list = operation('jobs.list', {
  input: z.strictObject({
    status: z.enum(STATUSES).optional().describe('only jobs of this status'),
    type: typeField.optional().describe('only jobs of this type'),
    owner: z.string().min(1).optional().describe('only jobs of this owner'),
    batch: z.string().min(1).optional().describe('only jobs that have a place in this batch'),
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
  run: ({ store }, { status, type, owner, batch, limit, cursor }) =>
    page(store, {
      limit,
      ...(status !== undefined && { status }),
      ...(type !== undefined && { type }),
      ...(owner !== undefined && { owner }),
      ...(batch !== undefined && { batch }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    }),
})

export const orphans = operation('orphans.list', {
  input: z.strictObject({
    type: typeField.optional().describe('only jobs of this type'),
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
  run: ({ store }, { type, limit, cursor }) =>
    page(store, {
      isOrphaned: true,
      limit,
      ...(type !== undefined && { type }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    }),
})

/** One more than asked for tells whether there are more, without counting them. */
async function page(store: Store, filter: JobFilter): Promise<JobList> {
  const found = await store.jobs({ ...filter, limit: filter.limit + 1 })
  const rows = found.slice(0, filter.limit)
  const nextCursor = found.length > rows.length ? String(rows.at(-1)?.key) : null
  const holds = await holdsOf(store, rows)
  return { jobs: rows.map((row) => viewJob(row, actionsFor(row), holds(row))), nextCursor }
}

export interface JobDetail extends JobView {
  input: unknown
}

export const show = operation('jobs.show', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  run: async (context, { id, owner }) => detailOf(context, await neededJob(context.store, id, owner)),
})

export async function detailOf(context: Pick<Context, 'admitRetry' | 'store'>, job: JobRow): Promise<JobDetail> {
  const holds = await holdsOf(context.store, [job])
  return { ...viewJob(job, await actionsNow(context, job), holds(job)), input: JSON.parse(job.payload) }
}

export const events = operation('jobs.events', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  run: async ({ store }, { id, owner }) => {
    await neededJob(store, id, owner)
    return { events: (await store.events({ id })).map(viewEvent) }
  },
})

export const failures = operation('jobs.failures', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  run: async ({ store }, { id, owner }) => {
    await neededJob(store, id, owner)
    return { failures: (await store.failures({ id })).map(viewFailure) }
  },
})

export const explanation = operation('jobs.explain', {
  input: z.strictObject({ id: idField, owner: ownerField }),
  run: async (context, { id, owner }) => {
    const { store } = context
    const job = await neededJob(store, id, owner)
    const group = await groupOf(store, job)
    const [history, failed, nowMs] = await Promise.all([store.events({ id }), store.failures({ id }), store.nowMs()])
    const holds = (await holdsOf(store, [job]))(job)
    const explained = explain({ job, events: history, failures: failed, group, holds, nowMs })
    return { ...explained, actions: await actionsNow(context, job) }
  },
})

/** Counting is cut short where there is much to catch up with: an answer about one job must not wait for it. */
const FOLD_STEPS_MAX = 10

async function groupOf(store: Store, { latestFailure, policy }: JobRow): Promise<FailureGroup | null> {
  if (latestFailure === null || !policy.aggregates) return null
  await foldAll(store, FOLD_STEPS_MAX)
  return (await store.failureGroup({ fingerprint: latestFailure.fingerprint }))?.group ?? null
}
