import { z } from 'zod'
import { effectiveStatus, isInForce } from '../core/breaker.ts'
import { durationMs, formatMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import type { StoredBreaker } from '../store/breakers.ts'
import type { By, Store } from '../store/store.ts'
import { type BreakerView, breakerNameField, neededBreaker, viewBreaker } from './breakers.ts'
import { checkBy } from './by.ts'
import { type Context, dryRunField, operation } from './operation.ts'
import { breakerActedSchema } from './outputs/breaker.ts'

/** What a person may do to a breaker. */

export interface BreakerAct {
  isDone: boolean
  /** One sentence: what was done, or with `dryRun` what would be. */
  did: string
  breaker: BreakerView
}

const actFields = {
  name: breakerNameField,
  actor: z.string().default('').describe('who does it'),
  reason: z.string().default('').describe('why: kept in the history'),
  dryRun: dryRunField,
}
const forcedFor = z.union([z.string(), z.number()]).optional()

export const openBreaker = operation('breakers.open', {
  input: z.strictObject({
    ...actFields,
    for: forcedFor.describe(`how long: '10m', '2h'; when left out, until it is released`),
  }),
  output: breakerActedSchema,
  run: (context, input) => force(context, input, 'open'),
})

export const closeBreaker = operation('breakers.close', {
  input: z.strictObject({
    ...actFields,
    for: forcedFor.describe(`how long: '10m', '2h'; when left out, until it is released`),
  }),
  output: breakerActedSchema,
  run: (context, input) => force(context, input, 'closed'),
})

interface Input extends By {
  name: string
  dryRun: boolean
}

async function force(
  { store }: Context,
  { name, actor, reason, dryRun, for: duration }: Input & { for?: string | number | undefined },
  status: 'open' | 'closed',
): Promise<BreakerAct> {
  await neededFor(store, name, { actor, reason })
  const forMs = duration === undefined ? null : durationMs(duration, 'for')
  if (forMs === 0) throw new RedressError('OPTION_INVALID', 'for: a breaker cannot be forced for no time at all.')
  const end = forMs === null ? 'until it is released' : `for ${formatMs(forMs)}`
  const does = `is forced ${status} ${end}`
  if (dryRun) return answer(store, name, false, `Nothing was done. This is what would be: breaker ${name} ${does}.`)
  await store.forceBreaker({ name, status, forMs, by: { actor, reason } })
  return answer(store, name, true, `Breaker ${name} ${does}.`)
}

export const releaseBreaker = operation('breakers.release', {
  input: z.strictObject(actFields),
  output: breakerActedSchema,
  run: async ({ store }, { name, actor, reason, dryRun }) => {
    const { forced, state } = await neededFor(store, name, { actor, reason })
    if (forced === null) return answer(store, name, false, `Nothing was done: breaker ${name} is not forced.`)
    const then = `what was computed counts again: ${state.status}`
    if (dryRun) return answer(store, name, false, `Nothing was done. With this, of breaker ${name} ${then}.`)
    await store.releaseBreaker({ name, by: { actor, reason } })
    return answer(store, name, true, `Breaker ${name} is no longer forced; ${then}.`)
  },
})

export const probeBreaker = operation('breakers.probe', {
  input: z.strictObject(actFields),
  output: breakerActedSchema,
  run: async (context, { name, actor, reason, dryRun }) => {
    const { store } = context
    const breaker = await neededFor(store, name, { actor, reason })
    if (isInForce(breaker.forced, breaker.nowMs)) {
      const status = effectiveStatus(breaker, breaker.nowMs)
      throw new RedressError('BREAKER_FORCED', `Breaker ${name} is forced ${status}: trying would not change that.`)
    }
    if (dryRun) return answer(store, name, false, `Nothing was done. With this, ${name} is tried at once.`)
    const trier = await store.tryBreaker({ name, by: { actor, reason } })
    const probed = await context.probe?.(name)
    if (probed === 'busy') return answer(store, name, true, `A health probe of ${name} is under way already.`)
    if (probed) {
      const said = probed.passed ? 'passed' : `failed: ${probed.said}`
      return answer(store, name, true, `The health probe of ${name} ${said}.`)
    }
    if (trier === 'closed') return answer(store, name, false, `Nothing was done: breaker ${name} is closed.`)
    const next = trier === 'probe' ? 'a worker makes its health probe within a second or two' : 'jobs are tried at once'
    return answer(store, name, true, `Breaker ${name} does not wait any longer: ${next}.`)
  },
})

async function neededFor(store: Store, name: string, by: By): Promise<StoredBreaker> {
  const breaker = await neededBreaker(store, name)
  checkBy(by, `breaker ${name}`)
  return breaker
}

async function answer(store: Store, name: string, isDone: boolean, did: string): Promise<BreakerAct> {
  const found = (await store.breakers()).find((breaker) => breaker.name === name) as StoredBreaker
  return { isDone, did, breaker: await viewBreaker(store, found) }
}
