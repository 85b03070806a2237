import { RedressError } from '../../core/errors.ts'
import type { BatchStore } from '../batches.ts'
import type { openBacklog } from './backlog.ts'
import type { openBatchReading } from './batch-reading.ts'
import type { Batches } from './batches.ts'
import type { SqliteContext } from './context.ts'

export function openBatchStore(
  { nowMs, read, readInSteps, write, hintWork }: SqliteContext,
  batches: Batches,
  reading: ReturnType<typeof openBatchReading>,
  backlog: ReturnType<typeof openBacklog>,
): BatchStore {
  return {
    async openBatch({ batch, jobs }) {
      const answer = await write('opening a batch', () => {
        hintWork()
        let isNew = false
        const submitted = backlog.within(jobs, () => {
          const opened = batches.open(batch, jobs, nowMs())
          isNew = opened.isNew
          return opened.jobs
        })
        return submitted instanceof RedressError ? submitted : { isNew, jobs: submitted }
      })
      if (answer instanceof RedressError) throw answer
      return answer
    },
    sealBatch: ({ id, by }) => write('sealing a batch', () => batches.seal(id, by, nowMs())),
    batch: ({ id }) => read('reading a batch', () => reading.batch(id, nowMs())),
    batches: (filter) => read('listing batches', () => reading.batches(filter, nowMs())),
    batchEvents: ({ id }) => read('reading the history of a batch', () => reading.events(id)),
    batchSum: ({ id, field }) => readInSteps('adding up the results of a batch', (on) => reading.sum(on, id, field)),

    async expireBatches({ limit }) {
      // Nothing to do is the rule, and must not take the write lock.
      const found = await read('looking for expired batches', () => batches.expiring(nowMs(), limit))
      return found.length === 0 ? 0 : write('expiring batches', () => batches.expire(found, nowMs()))
    },
    nextBatchExpiryMs: () => read('looking for the next expiry', () => batches.nextExpiryMs(nowMs())),
  }
}
