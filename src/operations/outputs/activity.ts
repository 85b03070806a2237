import { z } from 'zod'
import type { ActivityView } from '../activity.ts'
import { count, exactly, name, number, time } from './schema.ts'

const wait = number.nullable().describe('how long jobs had been due when they began, as near as a factor of two')

export const activitySchema = exactly<ActivityView>()(
  z.strictObject({
    from: time,
    to: time.describe('when this was read: the last minute is not over yet'),
    minutes: z.array(
      z.strictObject({
        at: time,
        complete: count,
        failed: count.describe('jobs that failed for good'),
        cancelled: count,
        faults: z
          .strictObject({
            caller: count,
            dependency: count,
            system: count,
            code: count,
            operator: count,
            unknown: count,
          })
          .describe('failed attempts by whose fault they were, also those that were retried'),
        waitP50Ms: wait,
        waitP95Ms: wait,
      }),
    ),
    notCounted: z.array(name).describe('types of which nothing is counted, by their policy'),
  }),
)
