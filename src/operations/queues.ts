import { z } from 'zod'
import { durationMs, formatMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import type { QueuePause, StoredQueue } from '../store/queues.ts'
import type { Store, TypeCounts } from '../store/store.ts'
import { checkBy } from './by.ts'
import { dryRunField, operation } from './operation.ts'
import { queueActedSchema, queueListSchema } from './outputs/queue.ts'

/** One type of a queue. */
export interface QueueView extends TypeCounts {
  /** null while it is not paused. */
  paused: PauseView | null
  /** How long the job that is ready for longest has waited; null when none is ready. */
  oldestReadyMs: number | null
}

export interface PauseView {
  at: string
  by: string
  reason: string
  /** null: until somebody resumes it. */
  until: string | null
}

export interface QueueActed {
  isDone: boolean
  /** One sentence: what was done, or with `dryRun` what would be. */
  did: string
  queue: string
  paused: PauseView | null
}

const NO_JOBS = { queued: 0, waiting: 0, processing: 0, orphaned: 0, complete: 0, failed: 0, cancelled: 0 }

export const listQueues = operation('queues.list', {
  input: z.strictObject({}),
  output: queueListSchema,
  run: async ({ store }) => {
    const [queues, counts, nowMs] = await Promise.all([store.queues(), store.counts(), store.nowMs()])
    const countsOf = new Map(counts.map((count) => [count.type, count]))
    return {
      queues: queues.flatMap(({ name, types, paused }) =>
        types.map(
          ({ type, oldestReadyAtMs }): QueueView => ({
            ...(countsOf.get(type) ?? { type, queue: name, ...NO_JOBS }),
            paused: viewPause(paused),
            oldestReadyMs: oldestReadyAtMs === null ? null : Math.max(0, nowMs - oldestReadyAtMs),
          }),
        ),
      ),
    }
  },
})

const actOnQueueFields = {
  name: z.string().min(1).describe('name of the queue'),
  actor: z.string().default('').describe('who does it'),
  reason: z.string().default('').describe('why: kept in the audit trail'),
  dryRun: dryRunField,
}

export const pauseQueue = operation('queues.pause', {
  input: z.strictObject({
    ...actOnQueueFields,
    for: z.union([z.string(), z.number()]).optional().describe(`resume by itself after this long: '30m', '2h'`),
  }),
  output: queueActedSchema,
  run: async ({ store }, { name, actor, reason, dryRun, for: length }): Promise<QueueActed> => {
    const before = await neededQueue(store, name)
    checkBy({ actor, reason }, `queue ${name}`)
    const forMs = length === undefined ? null : durationMs(length, 'for')
    if (forMs === 0) throw new RedressError('OPTION_INVALID', 'for: a pause must last longer than nothing.')
    const until = forMs === null ? 'until it is resumed' : `for ${formatMs(forMs)}`
    const waits = `what waits in it is not begun ${until}; what runs goes on`
    if (dryRun) {
      return { isDone: false, did: `Nothing was done. This pauses queue ${name}: ${waits}.`, ...viewOf(before) }
    }
    await store.pauseQueue({ name, by: { actor, reason }, forMs })
    return { isDone: true, did: `Queue ${name} is paused: ${waits}.`, ...viewOf(await neededQueue(store, name)) }
  },
})

export const resumeQueue = operation('queues.resume', {
  input: z.strictObject(actOnQueueFields),
  output: queueActedSchema,
  run: async ({ store }, { name, actor, reason, dryRun }): Promise<QueueActed> => {
    const before = await neededQueue(store, name)
    checkBy({ actor, reason }, `queue ${name}`)
    if (before.paused === null) return { isDone: false, did: NOT_PAUSED(name), ...viewOf(before) }
    if (dryRun) {
      const did = `Nothing was done. This resumes queue ${name}, which ${before.paused.by} paused: ${before.paused.reason}.`
      return { isDone: false, did, ...viewOf(before) }
    }
    const answer = await store.resumeQueue({ name, by: { actor, reason } })
    const now = viewOf(await neededQueue(store, name))
    if (answer === 'not-paused') return { isDone: false, did: NOT_PAUSED(name), ...now }
    return { isDone: true, did: `Queue ${name} goes on.`, ...now }
  },
})

const NOT_PAUSED = (name: string): string => `Nothing was done: queue ${name} is not paused.`

async function neededQueue(store: Store, name: string): Promise<StoredQueue> {
  const queues = await store.queues()
  const found = queues.find((queue) => queue.name === name)
  if (found !== undefined) return found
  const names = queues.map((queue) => queue.name).join(', ') || 'none'
  throw new RedressError('QUEUE_UNKNOWN', `No job type has the queue ${name}; known here: ${names}.`)
}

const viewOf = ({ name, paused }: StoredQueue) => ({ queue: name, paused: viewPause(paused) })

const viewPause = (paused: QueuePause | null): PauseView | null =>
  paused && {
    at: isoTime(paused.atMs),
    by: paused.by,
    reason: paused.reason,
    until: isoTimeOrNull(paused.untilMs),
  }
