import { z } from 'zod'
import { isoTimeOrNull } from '../text/duration.ts'
import { name, text, timeOrNull } from '../views/fields.ts'

export const holdSchema = z.strictObject({
  by: z.enum(['breaker', 'queue', 'concurrency', 'rate', 'workers']),
  name: name.describe('which one of that kind'),
  // Half a sentence that can follow 'held by breaker gateway: '.
  why: text,
  until: timeOrNull.describe('when it may go, if that is known'),
})
export type HoldView = z.infer<typeof holdSchema>

/** A reason outside the job why it does not start, although it is due. */
export interface Hold extends Omit<HoldView, 'until'> {
  untilMs: number | null
}

export const viewHold = ({ untilMs, ...hold }: Hold): HoldView => ({ ...hold, until: isoTimeOrNull(untilMs) })

/** 'held by breaker gateway: 60 % of the last 20 calls failed; tries again in 25 s' */
export const holdText = ({ by, name, why }: Pick<Hold, 'by' | 'name' | 'why'>): string =>
  by === 'workers' ? `no worker runs ${name}: ${why}` : `held by ${by} ${name}: ${why}`
