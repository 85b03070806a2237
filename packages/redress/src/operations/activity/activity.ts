import { z } from 'zod'
import { minuteFields, minutesOf } from '../../core/job/activity.ts'
import { isoTime, MINUTE_MS } from '../../core/text/duration.ts'
import { name, time } from '../../core/views/fields.ts'
import { typeField } from '../input-fields.ts'
import { operation } from '../operation.ts'

const activitySchema = z.strictObject({
  from: time,
  to: time.describe('when this was read; the last minute is incomplete'),
  // The oldest first, also those in which nothing happened.
  minutes: z.array(z.strictObject({ at: time, ...minuteFields })),
  notCounted: z.array(name).describe('types whose policy turns counting off'),
})

const MINUTES_MAX = 1_440

const showActivity = operation('activity.show', {
  input: z.strictObject({
    minutes: z.coerce
      .number()
      .int()
      .min(1)
      .max(MINUTES_MAX)
      .default(60)
      .describe(`number of minutes, including the current one (up to ${MINUTES_MAX})`),
    type: typeField.optional().describe('only jobs of this type'),
    queue: z.string().min(1).optional().describe('only jobs of this queue'),
  }),
  output: activitySchema,
  run: async ({ store }, { minutes: count, type, queue }) => {
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

export const activityOperations = {
  'activity.show': showActivity,
}
