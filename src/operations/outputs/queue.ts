import { z } from 'zod'
import type { PauseView, QueueActed, QueueView } from '../queues.ts'
import { count, done, exactly, name, number, text, time, timeOrNull } from './schema.ts'

const pause = exactly<PauseView>()(
  z.strictObject({ at: time, by: name, reason: text, until: timeOrNull.describe('null: until somebody resumes it') }),
)

const queueSchema = exactly<QueueView>()(
  z.strictObject({
    type: name,
    queue: name,
    queued: count,
    waiting: count.describe('of the queued: not due yet'),
    processing: count,
    orphaned: count.describe('of those in processing: their worker is gone'),
    complete: count,
    failed: count,
    cancelled: count,
    paused: pause.nullable(),
    oldestReadyMs: number.nullable().describe('how long the job that is ready for longest has waited'),
  }),
)

export const queueListSchema = z.strictObject({ queues: z.array(queueSchema).describe('one for each type of a queue') })

export const queueActedSchema = exactly<QueueActed>()(
  z.strictObject({ ...done, queue: name, paused: pause.nullable() }),
)
