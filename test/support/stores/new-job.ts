import { randomUUID } from 'node:crypto'
import type { NewJob } from '../../../packages/redress/src/store/contract/store.ts'

/** A plain job as a store is given it, with the parts that a test cares about. */
export const newJob = (parts: Partial<NewJob> & Pick<NewJob, 'type'>): NewJob => ({
  ...{ id: randomUUID(), payload: '{}', owner: null, priority: 0, delayMs: 0, dedupe: null },
  ...{ retriedFrom: null, rejected: null, batch: null, limitKey: null },
  ...parts,
})
