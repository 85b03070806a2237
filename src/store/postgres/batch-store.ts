import type { BatchStore } from '../batches.ts'
import type { Backlog } from './backlog.ts'
import type { openBatchReading } from './batch-reading.ts'
import type { Batches } from './batches.ts'
import type { PgContext } from './context.ts'

export function openBatchStore(
  { read, write, hintWork }: PgContext,
  batches: Batches,
  reading: ReturnType<typeof openBatchReading>,
  backlog: Backlog,
): BatchStore {
  return {
    openBatch: ({ batch, jobs }) =>
      write('opening a batch', async (tx, nowMs) => {
        hintWork(tx)
        let isNew = false
        const submitted = await backlog.within(tx, jobs, async () => {
          const opened = await batches.open(tx, batch, jobs, nowMs)
          isNew = opened.isNew
          return opened.jobs
        })
        return { isNew, jobs: submitted }
      }),
    sealBatch: ({ id, by }) => write('sealing a batch', (tx, nowMs) => batches.seal(tx, id, by, nowMs)),
    batch: ({ id }) => read('reading a batch', async (sql, nowMs) => reading.batch(sql, id, await nowMs())),
    batches: (filter) => read('listing batches', async (sql, nowMs) => reading.batches(sql, filter, await nowMs())),
    batchEvents: ({ id }) => read('reading the history of a batch', (sql) => reading.events(sql, id)),
    batchSum: ({ id, field }) => read('adding up the results of a batch', (sql) => reading.sum(sql, id, field)),

    async expireBatches({ limit }) {
      // Nothing to do is the rule, and must lock nothing.
      const found = await read('looking for expired batches', async (sql, nowMs) =>
        batches.expiring(sql, await nowMs(), limit),
      )
      return found.length === 0 ? 0 : write('expiring batches', (tx, nowMs) => batches.expire(tx, found, nowMs))
    },
    nextBatchExpiryMs: () =>
      read('looking for the next expiry', async (sql, nowMs) => batches.nextExpiryMs(sql, await nowMs())),
  }
}
