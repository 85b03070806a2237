import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { SUBJECT_EVENTS } from '../../core/job/events.ts'
import {
  bucketsOfCalls,
  callsAllowed,
  effectiveStatus,
  isInForce,
  nextChangeAtMs,
  whyHeld,
} from '../../core/limits/breaker.ts'
import { durationMs, formatMs, isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { count, done, flag, name, number, text, time, timeOrNull } from '../../core/views/fields.ts'
import type { StoredBreaker } from '../../store/contract/breakers.ts'
import type { ActorAndReason, Store } from '../../store/contract/store.ts'
import { actorFields, durationInput, requireActorAndReason } from '../input-fields.ts'
import { breakerHolds } from '../jobs/holds.ts'
import { type Context, operation } from '../operation.ts'

const status = z.enum(['closed', 'open', 'half-open'])
const mode = z.enum(['hold', 'fail-fast'])

const breakerSchema = z.strictObject({
  name,
  status: status.describe('the state in effect: the forced one, or else the computed one'),
  why: text,
  nextChangeAt: timeOrNull,
  computed: z.strictObject({ status, since: time, reason: text, triesAt: timeOrNull, passed: count }),
  forced: z
    .strictObject({ status: z.enum(['open', 'closed']), actor: name, reason: text, at: time, until: timeOrNull })
    .nullable(),
  window: z.strictObject({ calls: count, failed: count, ratio: number }),
  mode: z.enum(['mixed', 'hold', 'fail-fast']),
  underWay: count,
  allowed: number.nullable().describe('how many calls may run at once; null: no limit'),
  heldJobs: count,
  types: z.array(z.strictObject({ name, mode })),
  probe: z.strictObject({
    isDeclared: flag,
    last: z.strictObject({ at: time, passed: flag, said: text }).nullable(),
  }),
})
export type BreakerView = z.infer<typeof breakerSchema>

const breakerDetailSchema = z.strictObject({
  ...breakerSchema.shape,
  // The thresholds of the type that was declared last.
  policy: z.strictObject({
    windowCalls: number,
    windowMs: number,
    minCalls: number,
    ratio: number,
    cooldownMs: number,
    halfOpenProbes: number,
    probesToClose: number,
    rampMs: number,
  }),
  calls: z
    .array(z.strictObject({ at: time, succeeded: count, failed: count }))
    .describe('per second, newest last; only calls since the last change of state'),
  history: z
    .array(
      z.strictObject({
        at: time,
        kind: z.enum(SUBJECT_EVENTS.breaker),
        status: status.describe('its state then'),
        actor: name.nullable(),
        reason: text,
        until: timeOrNull,
      }),
    )
    .describe('newest first'),
})

const breakerActedSchema = z.strictObject({ ...done, breaker: breakerSchema })
type BreakerActed = z.infer<typeof breakerActedSchema>

const nameField = z.string().min(1).describe('name of the breaker, which is the name of its dependency')

const listBreakers = operation('breakers.list', {
  input: z.strictObject({}),
  output: z.strictObject({ breakers: z.array(breakerSchema) }),
  run: async ({ store }) => {
    const breakers = await store.breakers()
    return { breakers: await Promise.all(breakers.map((breaker) => viewBreaker(store, breaker))) }
  },
})

const CALLS_MIN = 20
const EVENTS_MAX = 50

const showBreaker = operation('breakers.show', {
  input: z.strictObject({ name: nameField }),
  output: breakerDetailSchema,
  run: async ({ store }, { name }) => {
    const breaker = await neededBreaker(store, name)
    // A second without calls is not counted: so many seconds have so many calls.
    const { calls, events } = await store.breakerPast({ name, seconds: CALLS_MIN, events: EVENTS_MAX })
    const { windowCalls, windowMs, minCalls, ratio, cooldownMs, halfOpenProbes, probesToClose, rampMs } = breaker.policy
    return {
      ...(await viewBreaker(store, breaker)),
      policy: { windowCalls, windowMs, minCalls, ratio, cooldownMs, halfOpenProbes, probesToClose, rampMs },
      calls: bucketsOfCalls([...calls, ...events.flatMap(({ data }) => data.calls ?? [])], CALLS_MIN)
        .map(({ atMs, succeeded, failed }) => ({ at: isoTime(atMs), succeeded, failed }))
        .reverse(),
      history: events.map(({ atMs, kind, data }) => ({
        at: isoTime(atMs),
        kind,
        status: data.status,
        actor: data.actor ?? null,
        reason: data.reason,
        until: isoTimeOrNull(data.untilMs ?? null),
      })),
    }
  },
})

const actFields = { name: nameField, ...actorFields }
const forceFields = {
  ...actFields,
  for: durationInput.optional().describe(`how long: '10m', '2h'; without it, until it is released`),
}

const openBreaker = operation('breakers.open', {
  input: z.strictObject(forceFields),
  output: breakerActedSchema,
  run: (context, input) => force(context, input, 'open'),
})

const closeBreaker = operation('breakers.close', {
  input: z.strictObject(forceFields),
  output: breakerActedSchema,
  run: (context, input) => force(context, input, 'closed'),
})

async function force(
  { store }: Context,
  { name, actor, reason, dryRun, for: duration }: z.output<z.ZodObject<typeof forceFields>>,
  status: 'open' | 'closed',
): Promise<BreakerActed> {
  await neededFor(store, name, { actor, reason })
  const forMs = duration === undefined ? null : durationMs(duration, 'for')
  if (forMs === 0) throw new RedressError('OPTION_INVALID', 'for: must be longer than zero.')
  const end = forMs === null ? 'until it is released' : `for ${formatMs(forMs)}`
  const does = `forced ${status} ${end}`
  if (dryRun) return answer(store, name, false, `Nothing was done. Breaker ${name} would be ${does}.`)
  await store.forceBreaker({ name, status, forMs, by: { actor, reason } })
  return answer(store, name, true, `Breaker ${name} is ${does}.`)
}

const releaseBreaker = operation('breakers.release', {
  input: z.strictObject(actFields),
  output: breakerActedSchema,
  run: async ({ store }, { name, actor, reason, dryRun }) => {
    const { forced, state } = await neededFor(store, name, { actor, reason })
    if (forced === null) return answer(store, name, false, `Nothing was done: breaker ${name} is not forced.`)
    const then = `its computed state is in effect: ${state.status}`
    if (dryRun) return answer(store, name, false, `Nothing was done. This releases breaker ${name}; ${then}.`)
    await store.releaseBreaker({ name, by: { actor, reason } })
    return answer(store, name, true, `Breaker ${name} is no longer forced; ${then}.`)
  },
})

const probeBreaker = operation('breakers.probe', {
  input: z.strictObject(actFields),
  output: breakerActedSchema,
  run: async (context, { name, actor, reason, dryRun }) => {
    const { store } = context
    const breaker = await neededFor(store, name, { actor, reason })
    if (isInForce(breaker.forced, breaker.nowMs)) {
      const status = effectiveStatus(breaker, breaker.nowMs)
      throw new RedressError('BREAKER_FORCED', `Breaker ${name} is forced ${status}: a probe would not change that.`)
    }
    if (dryRun) return answer(store, name, false, `Nothing was done. This tests ${name} now.`)
    const trier = await store.tryBreaker({ name, by: { actor, reason } })
    const probed = await context.probe?.(name)
    if (probed === 'busy') return answer(store, name, true, `A health probe of ${name} is already running.`)
    if (probed) {
      const said = probed.passed ? 'passed' : `failed: ${probed.said}`
      return answer(store, name, true, `The health probe of ${name} ${said}.`)
    }
    if (trier === 'closed') return answer(store, name, false, `Nothing was done: breaker ${name} is closed.`)
    const next = trier === 'probe' ? 'a worker runs its health probe within two seconds' : 'workers try jobs now'
    return answer(store, name, true, `Breaker ${name} no longer waits: ${next}.`)
  },
})

async function neededFor(store: Store, name: string, by: ActorAndReason): Promise<StoredBreaker> {
  const breaker = await neededBreaker(store, name)
  requireActorAndReason(by, `breaker ${name}`)
  return breaker
}

async function answer(store: Store, name: string, isDone: boolean, did: string): Promise<BreakerActed> {
  const found = (await store.breakers()).find((breaker) => breaker.name === name) as StoredBreaker
  return { isDone, did, breaker: await viewBreaker(store, found) }
}

async function neededBreaker(store: Store, name: string): Promise<StoredBreaker> {
  const breakers = await store.breakers()
  const found = breakers.find((breaker) => breaker.name === name)
  if (found !== undefined) return found
  const names = breakers.map((breaker) => breaker.name).join(', ') || 'none'
  throw new RedressError('BREAKER_NOT_FOUND', `There is no breaker ${name}; known breakers: ${names}.`)
}

async function viewBreaker(store: Store, breaker: StoredBreaker): Promise<BreakerView> {
  const { name, state, forced, window, policy, types, underWay, isProbed, lastProbe, nowMs } = breaker
  const modes = [...new Set(types.map(({ mode }) => mode))]
  const held = types.filter(({ mode }) => breakerHolds(breaker, mode, nowMs)).map((type) => type.name)
  return {
    name,
    status: effectiveStatus(breaker, nowMs),
    why: whyHeld(breaker, nowMs),
    nextChangeAt: isoTimeOrNull(nextChangeAtMs(breaker, nowMs)),
    computed: {
      status: state.status,
      since: isoTime(state.sinceMs),
      reason: state.reason,
      triesAt: isoTimeOrNull(state.triesAtMs),
      passed: state.passed,
    },
    forced:
      forced === null
        ? null
        : {
            status: forced.status,
            actor: forced.actor,
            reason: forced.reason,
            at: isoTime(forced.atMs),
            until: isoTimeOrNull(forced.untilMs),
          },
    window: { calls: window.calls, failed: Math.round(window.failed), ratio: policy.ratio },
    mode: modes.length > 1 ? 'mixed' : (modes[0] ?? policy.mode),
    underWay,
    allowed: callsAllowed(breaker, nowMs),
    heldJobs: held.length === 0 ? 0 : await store.countReady({ types: held }),
    types,
    probe: {
      isDeclared: isProbed,
      last: lastProbe && { at: isoTime(lastProbe.atMs), passed: lastProbe.passed, said: lastProbe.said },
    },
  }
}

export const breakerOperations = {
  'breakers.list': listBreakers,
  'breakers.show': showBreaker,
  'breakers.open': openBreaker,
  'breakers.close': closeBreaker,
  'breakers.release': releaseBreaker,
  'breakers.probe': probeBreaker,
}
