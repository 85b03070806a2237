import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { durationMs, formatMs, isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { count, done, name, number, text, time, timeOrNull } from '../../core/views/fields.ts'
import type { QueuePause, StoredQueue } from '../../store/contract/queues.ts'
import type { Store } from '../../store/contract/store.ts'
import { actorFields, durationInput, requireActorAndReason } from '../input-fields.ts'
import { operation } from '../operation.ts'

const pauseSchema = z.strictObject({
  at: time,
  by: name,
  reason: text,
  until: timeOrNull.describe('null: until it is resumed'),
})
type PauseView = z.infer<typeof pauseSchema>

/** One type of a queue. */
const queueSchema = z.strictObject({
  type: name,
  queue: name,
  queued: count,
  waiting: count.describe('queued jobs that are not due yet'),
  processing: count,
  orphaned: count.describe('processing jobs whose worker is lost'),
  complete: count,
  failed: count,
  cancelled: count,
  paused: pauseSchema.nullable(),
  oldestReadyMs: number.nullable().describe('how long the oldest ready job has waited'),
})
export type QueueView = z.infer<typeof queueSchema>

const queueActedSchema = z.strictObject({ ...done, queue: name, paused: pauseSchema.nullable() })

const NO_JOBS = { queued: 0, waiting: 0, processing: 0, orphaned: 0, complete: 0, failed: 0, cancelled: 0 }

const listQueues = operation('queues.list', {
  input: z.strictObject({}),
  output: z.strictObject({ queues: z.array(queueSchema).describe('one for each type of a queue') }),
  run: async ({ store }) => {
    const [queues, counts, nowMs] = await Promise.all([store.queues(), store.counts(), store.nowMs()])
    const countsOf = new Map(counts.map((count) => [count.type, count]))
    return {
      queues: queues.flatMap(({ name, types, paused }) =>
        types.map(({ type, oldestReadyAtMs }) => ({
          ...(countsOf.get(type) ?? { type, queue: name, ...NO_JOBS }),
          paused: viewPause(paused),
          oldestReadyMs: oldestReadyAtMs === null ? null : Math.max(0, nowMs - oldestReadyAtMs),
        })),
      ),
    }
  },
})

const queueActFields = { name: z.string().min(1).describe('name of the queue'), ...actorFields }

const pauseQueue = operation('queues.pause', {
  input: z.strictObject({
    ...queueActFields,
    for: durationInput.optional().describe(`resume automatically after this time: '30m', '2h'`),
  }),
  output: queueActedSchema,
  run: async ({ store }, { name, actor, reason, dryRun, for: length }) => {
    const before = await neededQueue(store, name)
    requireActorAndReason({ actor, reason }, `queue ${name}`)
    const forMs = length === undefined ? null : durationMs(length, 'for')
    if (forMs === 0) throw new RedressError('OPTION_INVALID', 'for: the pause must be longer than zero.')
    const until = forMs === null ? 'until it is resumed' : `for ${formatMs(forMs)}`
    const waits = `queued jobs do not start ${until}; running jobs continue`
    if (dryRun) {
      return { isDone: false, did: `Nothing was done. This pauses queue ${name}: ${waits}.`, ...viewOf(before) }
    }
    await store.pauseQueue({ name, by: { actor, reason }, forMs })
    return { isDone: true, did: `Queue ${name} is paused: ${waits}.`, ...viewOf(await neededQueue(store, name)) }
  },
})

const resumeQueue = operation('queues.resume', {
  input: z.strictObject(queueActFields),
  output: queueActedSchema,
  run: async ({ store }, { name, actor, reason, dryRun }) => {
    const before = await neededQueue(store, name)
    requireActorAndReason({ actor, reason }, `queue ${name}`)
    if (before.paused === null) return { isDone: false, did: NOT_PAUSED(name), ...viewOf(before) }
    if (dryRun) {
      const did = `Nothing was done. This resumes queue ${name}, which ${before.paused.by} paused: ${before.paused.reason}.`
      return { isDone: false, did, ...viewOf(before) }
    }
    const answer = await store.resumeQueue({ name, by: { actor, reason } })
    const now = viewOf(await neededQueue(store, name))
    if (answer === 'not-paused') return { isDone: false, did: NOT_PAUSED(name), ...now }
    return { isDone: true, did: `Queue ${name} is resumed.`, ...now }
  },
})

const NOT_PAUSED = (name: string): string => `Nothing was done: queue ${name} is not paused.`

async function neededQueue(store: Store, name: string): Promise<StoredQueue> {
  const queues = await store.queues()
  const found = queues.find((queue) => queue.name === name)
  if (found !== undefined) return found
  const names = queues.map((queue) => queue.name).join(', ') || 'none'
  throw new RedressError('QUEUE_UNKNOWN', `There is no queue ${name}; known queues: ${names}.`)
}

const viewOf = ({ name, paused }: StoredQueue) => ({ queue: name, paused: viewPause(paused) })

const viewPause = (paused: QueuePause | null): PauseView | null =>
  paused && {
    at: isoTime(paused.atMs),
    by: paused.by,
    reason: paused.reason,
    until: isoTimeOrNull(paused.untilMs),
  }

export const queueOperations = {
  'queues.list': listQueues,
  'queues.pause': pauseQueue,
  'queues.resume': resumeQueue,
}
