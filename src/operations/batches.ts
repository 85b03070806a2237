import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { BATCH_STATES } from '../core/rollup.ts'
import { type BatchEventView, type BatchView, viewBatch, viewBatchEvent } from '../core/view-batch.ts'
import type { BatchRow } from '../store/batches.ts'
import type { Store } from '../store/store.ts'
import { type BatchActed, cancelBatch, retryFailedOfBatch } from './batch-acts.ts'
import { actFields, limitField, operation } from './operation.ts'

const LIST_MAX = 1_000

export interface BatchList {
  batches: BatchView[]
  /** Give it as `cursor` for the older ones; null when these were the last. */
  nextCursor: string | null
}

export interface BatchDetail extends BatchView {
  /** When it was settled, reopened and expired, with the counts of that moment. */
  history: BatchEventView[]
}

const batchIdField = z.string().min(1).describe('id of the batch')
const batchActFields = { ...actFields, id: batchIdField }

export const listBatches = operation('batches.list', {
  input: z.strictObject({
    state: z.enum(BATCH_STATES).optional().describe('only batches in this state'),
    owner: z.string().min(1).optional().describe('only batches of this owner'),
    name: z.string().min(1).optional().describe('only batches of this name'),
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
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
      batches: rows.map(viewBatch),
      nextCursor: found.length > rows.length ? String(rows.at(-1)?.key) : null,
    }
  },
})

export const showBatch = operation('batches.show', {
  input: z.strictObject({ id: batchIdField }),
  run: async ({ store }, { id }) => detailOfBatch(store, await neededBatch(store, id)),
})

export async function detailOfBatch(store: Store, batch: BatchRow): Promise<BatchDetail> {
  return { ...viewBatch(batch), history: (await store.batchEvents({ id: batch.id })).map(viewBatchEvent) }
}

export const cancelBatchJobs = operation('batches.cancel', {
  input: z.strictObject(batchActFields),
  run: async (context, act): Promise<BatchActed> => {
    const batch = await neededBatch(context.store, act.id)
    return acted(context.store, await cancelBatch(context, act, batch), act.id)
  },
})

export const retryFailedJobs = operation('batches.retry-failed', {
  input: z.strictObject(batchActFields),
  run: async (context, act): Promise<BatchActed> => {
    const batch = await neededBatch(context.store, act.id)
    return acted(context.store, await retryFailedOfBatch(context, act, batch), act.id)
  },
})

async function acted(store: Store, done: Omit<BatchActed, 'batch'>, id: string): Promise<BatchActed> {
  return { ...done, batch: viewBatch(await neededBatch(store, id)) }
}

async function neededBatch(store: Store, id: string): Promise<BatchRow> {
  const batch = await store.batch({ id })
  if (batch === null) throw new RedressError('BATCH_NOT_FOUND', `There is no batch ${id}.`)
  return batch
}
