import { z } from 'zod'
import { durationMs, formatMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { ACT_LEADS_FROM, type GroupAct } from '../core/failure-group.ts'
import { isoTime } from '../core/iso-time.ts'
import { type FailureGroupView, viewGroup } from '../core/view-failure-group.ts'
import { checkBy } from './by.ts'
import { fingerprintField, neededGroup } from './failure-groups.ts'
import { actFields, type Context, operation } from './operation.ts'
import { groupActedSchema } from './outputs/failure-group.ts'

export interface FailureGroupActed {
  isDone: boolean
  /** One sentence: what was done, or with `dryRun` what would be. */
  did: string
  group: FailureGroupView
}

const { id: _, ...byFields } = actFields
const groupActFields = { fingerprint: fingerprintField, ...byFields }
const MORE_MAX = 1_000_000_000

export const resolveFailureGroup = operation('failures.resolve', {
  input: z.strictObject(groupActFields),
  output: groupActedSchema,
  run: (context, act) => actOn(context, act, { to: 'resolved' }),
})

export const reopenFailureGroup = operation('failures.reopen', {
  input: z.strictObject(groupActFields),
  output: groupActedSchema,
  run: (context, act) => actOn(context, act, { to: 'open' }),
})

export const snoozeFailureGroup = operation('failures.snooze', {
  input: z.strictObject({
    ...groupActFields,
    for: z.union([z.string(), z.number()]).optional().describe(`for how long: '30m', '8h', '7d'`),
    more: z.coerce.number().int().min(1).max(MORE_MAX).optional().describe('until so many more have failed'),
  }),
  output: groupActedSchema,
  run: (context, { for: duration, more, ...act }) => {
    if (duration === undefined && more === undefined) {
      throw new RedressError('OPTION_INVALID', 'A snooze needs an end.', {
        action: `Say for how long (for: '8h'), or after how many more failures (more: 100), or both.`,
      })
    }
    const forMs = duration === undefined ? null : durationMs(duration, 'for')
    if (forMs === 0) throw new RedressError('OPTION_INVALID', 'for: a snooze of no time is none.')
    return actOn(context, act, { to: 'snoozed', forMs, more: more ?? null })
  },
})

interface Asked {
  fingerprint: string
  actor: string
  reason: string
  dryRun: boolean
}

async function actOn(
  { store }: Context,
  { fingerprint, actor, reason, dryRun }: Asked,
  act: GroupAct,
): Promise<FailureGroupActed> {
  const { group } = await neededGroup(store, fingerprint)
  checkBy({ actor, reason }, `failure group ${fingerprint}`)
  const expect = group.state
  if (!ACT_LEADS_FROM[act.to].includes(expect)) {
    throw new RedressError('FAILURE_GROUP_WRONG_STATE', `Failure group ${fingerprint} is ${expect} already.`)
  }
  const becomes = describe(act, await store.nowMs())
  if (dryRun) {
    const did = `Nothing was done. Failure group ${fingerprint} (${expect}) becomes ${becomes}.`
    return { isDone: false, did, group: viewGroup(group) }
  }
  const answer = await store.actOnFailureGroup({ fingerprint, actor, reason, expect, act })
  const now = (await neededGroup(store, fingerprint)).group
  if (answer === 'done') {
    return { isDone: true, did: `Failure group ${fingerprint} is ${becomes}.`, group: viewGroup(now) }
  }
  const message = `Failure group ${fingerprint} is ${now.state} now; it was ${expect} when this was decided. Nothing was done.`
  throw new RedressError('FAILURE_GROUP_WRONG_STATE', message)
}

function describe(act: GroupAct, nowMs: number): string {
  if (act.to === 'open') return 'open'
  if (act.to === 'resolved') return 'resolved; a new failure makes it regressed'
  const ends = [
    ...(act.forMs === null ? [] : [`for ${formatMs(act.forMs)}, until ${isoTime(nowMs + act.forMs)}`]),
    ...(act.more === null ? [] : [`until ${act.more} more have failed`]),
  ]
  return `snoozed ${ends.join(', or ')}`
}
