import { z } from 'zod'
import { type ActiveMinute, minutesOf } from '../core/activity.ts'
import { MINUTE_MS } from '../core/duration.ts'
import { isoTime } from '../core/iso-time.ts'
import { operation, typeField } from './operation.ts'
import { activitySchema } from './outputs/activity.ts'

export interface ActivityView {
  from: string
  /** When this was read: the last minute is not over yet. */
  to: string
  /** The oldest first, also those in which nothing happened. */
  minutes: MinuteView[]
  /** Types whose policy has `aggregates: false`. */
  notCounted: string[]
}

export type MinuteView = Omit<ActiveMinute, 'minuteMs'> & { at: string }

const MINUTES_MAX = 1_440

export const showActivity = operation('activity.show', {
  input: z.strictObject({
    minutes: z.coerce
      .number()
      .int()
      .min(1)
      .max(MINUTES_MAX)
      .default(60)
      .describe(`how many minutes, up to the present one (up to ${MINUTES_MAX})`),
    type: typeField.optional().describe('only jobs of this type'),
    queue: z.string().min(1).optional().describe('only jobs of the types of this queue'),
  }),
  output: activitySchema,
  run: async ({ store }, { minutes: count, type, queue }): Promise<ActivityView> => {
    const known = await store.types()
    const asked = known.filter((one) => (type ?? one.name) === one.name && (queue ?? one.queue) === one.queue)
    const [counted, notCounted] = [true, false].map((isCounted) =>
      asked.filter(({ policy }) => policy.aggregates === isCounted).map(({ name }) => name),
    ) as [string[], string[]]
    const nowMs = await store.nowMs()
    const counts = await store.activity({ types: counted, sinceMs: nowMs - (count - 1) * MINUTE_MS })
    const minutes = minutesOf(counts, count, nowMs).map(({ minuteMs, ...rest }) => ({ at: isoTime(minuteMs), ...rest }))
    return { from: minutes[0]?.at ?? isoTime(nowMs), to: isoTime(nowMs), minutes, notCounted }
  },
})
