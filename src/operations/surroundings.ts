import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import type { Policy } from '../core/policy.ts'
import { policyFields } from '../core/policy-words.ts'
import type { Store } from '../store/store.ts'
import { operation, typeField } from './operation.ts'
import { policyOfTypeSchema, typeListSchema, workerListSchema } from './outputs/surroundings.ts'
import { standingOf } from './worker-standing.ts'

/** What stands around the jobs: types and their policies, workers, queues. */

export const types = operation('types.list', {
  input: z.strictObject({}),
  output: typeListSchema,
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
  output: policyOfTypeSchema,
  run: async ({ store }, { type }) => {
    const policy = await neededPolicy(store, type)
    return { type, policy, fields: policyFields(policy) }
  },
})

export async function neededPolicy(store: Store, type: string): Promise<Policy> {
  const known = await store.types()
  const found = known.find(({ name }) => name === type)
  if (found !== undefined) return found.policy
  const names = known.map(({ name }) => name).join(', ') || 'none'
  throw new RedressError('TYPE_UNKNOWN', `No program has declared the job type ${type}; declared here: ${names}.`)
}

export const workers = operation('workers.list', {
  input: z.strictObject({
    all: z.boolean().default(false).describe('also those that stopped or have not been seen for long'),
  }),
  output: workerListSchema,
  run: async ({ store }, { all }) => {
    const nowMs = await store.nowMs()
    const every = (await store.workers()).map((worker) => ({
      id: worker.id,
      host: worker.host,
      pid: worker.pid,
      types: worker.types,
      state: standingOf(worker, nowMs),
      startedAt: isoTime(worker.startedAtMs),
      seenAt: isoTime(worker.seenAtMs),
      stoppedAt: isoTimeOrNull(worker.stoppedAtMs),
    }))
    return { workers: all ? every : every.filter(({ state }) => state === 'working') }
  },
})
