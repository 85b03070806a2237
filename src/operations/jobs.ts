import { z } from 'zod'
import { actionsFor } from '../core/actions.ts'
import { explain } from '../core/explain.ts'
import { STATUSES } from '../core/states.ts'
import { type JobView, viewJob } from '../core/view.ts'
import { viewEvent, viewFailure } from '../core/view-history.ts'
import type { JobFilter, JobRow, Store } from '../store/store.ts'
import { neededJob } from './needed-job.ts'
import { idField, limitField, operation, typeField } from './operation.ts'

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
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
  run: ({ store }, { status, type, owner, limit, cursor }) =>
    page(store, {
      limit,
      ...(status !== undefined && { status }),
      ...(type !== undefined && { type }),
      ...(owner !== undefined && { owner }),
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
  return { jobs: rows.map((row) => viewJob(row, actionsFor(row))), nextCursor }
}

export interface JobDetail extends JobView {
  input: unknown
}

export const show = operation('jobs.show', {
  input: z.strictObject({ id: idField }),
  run: async ({ store }, { id }) => detailOf(await neededJob(store, id)),
})

export function detailOf(job: JobRow): JobDetail {
  return { ...viewJob(job, actionsFor(job)), input: JSON.parse(job.payload) }
}

export const events = operation('jobs.events', {
  input: z.strictObject({ id: idField }),
  run: async ({ store }, { id }) => {
    await neededJob(store, id)
    return { events: (await store.events({ id })).map(viewEvent) }
  },
})

export const failures = operation('jobs.failures', {
  input: z.strictObject({ id: idField }),
  run: async ({ store }, { id }) => {
    await neededJob(store, id)
    return { failures: (await store.failures({ id })).map(viewFailure) }
  },
})

export const explanation = operation('jobs.explain', {
  input: z.strictObject({ id: idField }),
  run: async ({ store }, { id }) => {
    const job = await neededJob(store, id)
    const [history, failed, nowMs] = await Promise.all([store.events({ id }), store.failures({ id }), store.nowMs()])
    return explain({ job, events: history, failures: failed, nowMs })
  },
})
