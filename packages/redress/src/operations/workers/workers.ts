import { z } from 'zod'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { count, id, name, text, time, timeOrNull } from '../../core/views/fields.ts'
import type { StoredWorker } from '../../store/contract/store.ts'
import { operation } from '../operation.ts'

const WORKER_STATES = ['working', 'silent', 'stopped'] as const

const workerSchema = z.strictObject({
  id,
  host: text,
  pid: count,
  types: z.array(name).describe('the job types it runs'),
  state: z.enum(WORKER_STATES),
  startedAt: time,
  seenAt: time,
  stoppedAt: timeOrNull,
})

const listWorkers = operation('workers.list', {
  input: z.strictObject({
    all: z.boolean().default(false).describe('also stopped and silent workers'),
  }),
  output: z.strictObject({ workers: z.array(workerSchema) }),
  run: async ({ store }, { all }) => {
    const nowMs = await store.nowMs()
    const every = (await store.workers()).map((worker) => ({
      id: worker.id,
      host: worker.host,
      pid: worker.pid,
      types: worker.types,
      state: workerState(worker, nowMs),
      startedAt: isoTime(worker.startedAtMs),
      seenAt: isoTime(worker.seenAtMs),
      stoppedAt: isoTimeOrNull(worker.stoppedAtMs),
    }))
    return { workers: all ? every : every.filter(({ state }) => state === 'working') }
  },
})

/** An idle worker shows itself every ten seconds; after three silences it is taken for gone. */
const SEEN_MS_MAX = 30_000

export function workerState(
  { stoppedAtMs, seenAtMs }: Pick<StoredWorker, 'stoppedAtMs' | 'seenAtMs'>,
  nowMs: number,
): (typeof WORKER_STATES)[number] {
  if (stoppedAtMs !== null) return 'stopped'
  return nowMs - seenAtMs <= SEEN_MS_MAX ? 'working' : 'silent'
}

export const workerOperations = {
  'workers.list': listWorkers,
}
