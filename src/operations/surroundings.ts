import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import { operation, typeField } from './operation.ts'

/** What stands around the jobs: types and their policies, workers, queues. */

/** An idle worker shows itself every ten seconds; after three silences it is taken for gone. */
const SEEN_MS_MAX = 30_000

export const types = operation('types.list', {
  input: z.strictObject({}),
  run: async ({ store }) => ({
    types: (await store.types()).map(({ name, queue, policy, registeredAtMs }) => ({
      name,
      queue,
      registeredAt: isoTime(registeredAtMs),
      policy,
    })),
  }),
})

export const policyOfType = operation('policy.show', {
  input: z.strictObject({ type: typeField }),
  run: async ({ store }, { type }) => {
    const known = await store.types()
    const found = known.find(({ name }) => name === type)
    if (found !== undefined) return { type, policy: found.policy }
    const names = known.map(({ name }) => name).join(', ') || 'none'
    throw new RedressError('TYPE_UNKNOWN', `No program has declared the job type ${type}; declared here: ${names}.`)
  },
})

export const workers = operation('workers.list', {
  input: z.strictObject({
    all: z.boolean().default(false).describe('also those that stopped or have not been seen for long'),
  }),
  run: async ({ store }, { all }) => {
    const nowMs = await store.nowMs()
    const every = (await store.workers()).map(({ id, host, pid, startedAtMs, seenAtMs, stoppedAtMs }) => ({
      id,
      host,
      pid,
      state: stoppedAtMs !== null ? 'stopped' : nowMs - seenAtMs <= SEEN_MS_MAX ? 'working' : 'silent',
      startedAt: isoTime(startedAtMs),
      seenAt: isoTime(seenAtMs),
      stoppedAt: isoTimeOrNull(stoppedAtMs),
    }))
    return { workers: all ? every : every.filter(({ state }) => state === 'working') }
  },
})
