import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { BATCH_STATES } from '../core/rollup.ts'
import { type BatchEventView, type BatchView, viewBatch, viewBatchEvent } from '../core/view-batch.ts'
import type { BatchRow } from '../store/batches.ts'
import { settledJobId } from '../store/derived-id.ts'
import type { Store } from '../store/store.ts'
import { type BatchActed, cancelBatch, retryFailedOfBatch } from './batch-acts.ts'
import { type BatchFailures, failuresOfBatch } from './batch-failures.ts'
import { actFields, limitField, operation } from './operation.ts'
import { batchActedSchema, batchListSchema, batchShownSchema } from './outputs/batch.ts'

const LIST_MAX = 1_000

export interface BatchList {
  batches: BatchView[]
  /** Give it as `cursor` for the older ones; null when these were the last. */
  nextCursor: string | null
}

export interface BatchDetail extends BatchView {
  /** The job of `onSettled` that its newest settlement submitted; null where there is none. */
  settledJobId: string | null
  /** When it was settled, reopened and expired, with the counts of that moment. */
  history: BatchEventView[]
}

export interface BatchShown extends BatchDetail {
  failures: BatchFailures
}

const batchIdField = z.string().min(1).describe('id of the batch')
const batchOwnerField = z.string().min(1).optional().describe('only if it is a batch of this owner')
const batchActFields = { ...actFields, id: batchIdField, owner: batchOwnerField }

export const listBatches = operation('batches.list', {
  input: z.strictObject({
    state: z.enum(BATCH_STATES).optional().describe('only batches in this state'),
    owner: z.string().min(1).optional().describe('only batches of this owner'),
    name: z.string().min(1).optional().describe('only batches of this name'),
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
  output: batchListSchema,
  run: async ({ store }, { state, owner, name, limit, cursor }): Promise<BatchList> => {
    const found = await store.batches({
      limit: limit + 1,
      ...(state !== undefined && { state }),
      ...(owner !== undefined && { owner }),
      ...(name !== undefined && { name }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    })
    const rows = found.slice(0, limit)
    return {
      batches: await Promise.all(rows.map((row) => viewFor(store, row, owner))),
      nextCursor: found.length > rows.length ? String(rows.at(-1)?.key) : null,
    }
  },
})

export const showBatch = operation('batches.show', {
  input: z.strictObject({ id: batchIdField, owner: batchOwnerField }),
  output: batchShownSchema,
  about: aboutBatch,
  run: async ({ store }, { id, owner }): Promise<BatchShown> => {
    const batch = await neededBatch(store, id, owner)
    return {
      ...(await detailOfBatch(store, batch)),
      ...(await viewFor(store, batch, owner)),
      failures: await failuresOfBatch(store, batch, owner),
    }
  },
})

export async function detailOfBatch(store: Store, batch: BatchRow): Promise<BatchDetail> {
  const { id, onSettled, settlements } = batch
  return {
    ...viewBatch(batch),
    settledJobId: onSettled === null || settlements === 0 ? null : settledJobId(id, settlements),
    history: (await store.batchEvents({ id })).map(viewBatchEvent),
  }
}

export const cancelBatchJobs = operation('batches.cancel', {
  input: z.strictObject(batchActFields),
  output: batchActedSchema,
  about: aboutBatch,
  run: async (context, act): Promise<BatchActed> => {
    const batch = await neededBatch(context.store, act.id, act.owner)
    return acted(context.store, await cancelBatch(context, act, batch), act)
  },
})

export const retryFailedJobs = operation('batches.retry-failed', {
  input: z.strictObject(batchActFields),
  output: batchActedSchema,
  about: aboutBatch,
  run: async (context, act): Promise<BatchActed> => {
    const batch = await neededBatch(context.store, act.id, act.owner)
    return acted(context.store, await retryFailedOfBatch(context, act, batch), act)
  },
})

async function acted(
  store: Store,
  done: Omit<BatchActed, 'batch'>,
  { id, owner }: { id: string; owner?: string | undefined },
): Promise<BatchActed> {
  return { ...done, batch: await viewFor(store, await neededBatch(store, id), owner) }
}

/** In a batch of one's own there may be jobs of others: how one of those failed is not the batch owner's to know. */
async function viewFor(store: Store, batch: BatchRow, owner: string | undefined): Promise<BatchView> {
  const view = viewBatch(batch)
  if (owner === undefined || view.lastError === null) return view
  const job = await store.job({ id: view.lastError.jobId })
  return job?.owner === owner ? view : { ...view, lastError: null }
}

/** `owner` is given by whoever may see and touch only their own; to them, another's is not there. */
async function neededBatch(store: Store, id: string, owner?: string): Promise<BatchRow> {
  const batch = await store.batch({ id })
  if (batch === null || (owner !== undefined && batch.owner !== owner))
    throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
  return batch
}

async function aboutBatch(store: Store, { id, owner }: Readonly<Record<string, unknown>>): Promise<void> {
  if (typeof id === 'string') await neededBatch(store, id, typeof owner === 'string' ? owner : undefined)
}
