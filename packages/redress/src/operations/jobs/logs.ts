import { z } from 'zod'
import { isoTime } from '../../core/text/duration.ts'
import { anything, count, nextCursor, text, time } from '../../core/views/fields.ts'
import type { StoredLogLine } from '../../store/contract/reports.ts'
import type { JobRow, Store } from '../../store/contract/store.ts'
import { cursorField, idField } from '../input-fields.ts'
import { operation } from '../operation.ts'
import { aboutJob, neededJob } from './needed-job.ts'

const LINES_MAX = 1_000
/** `jobs.show` answers with this many lines at most. */
const LAST_LINES = 10

const logLineSchema = z.strictObject({
  seq: count.describe('position among the events of the whole store'),
  at: time,
  attempt: count,
  line: count.describe('number of the line in its attempt, from 1'),
  message: text,
  fields: z.record(z.string(), anything).nullable(),
})
export type LogLineView = z.infer<typeof logLineSchema>

const logCountSchema = z.strictObject({
  attempt: count,
  lines: count.describe('lines that are kept'),
  dropped: count.describe('lines that were dropped, because the attempt logged too many'),
})

/** The end of the log of a job, for an answer about the job. */
export const lastLinesSchema = z.strictObject({
  lines: z.array(logLineSchema).describe('the newest lines, the oldest first'),
  count: count.describe('lines of all attempts'),
  dropped: count,
})

const viewLine = ({ seq, atMs, attempt, number, message, fields }: StoredLogLine): LogLineView => ({
  ...{ seq, at: isoTime(atMs), attempt, line: number, message, fields },
})

export const logs = operation('jobs.logs', {
  input: z.strictObject({
    id: idField,
    attempt: z.coerce.number().int().min(1).optional().describe('only lines of this attempt'),
    tail: z.coerce.number().int().min(1).max(LINES_MAX).optional().describe('only the newest lines: this many'),
    limit: z.coerce.number().int().min(1).max(LINES_MAX).default(LINES_MAX).describe('lines per page'),
    cursor: cursorField,
  }),
  output: z.strictObject({ lines: z.array(logLineSchema), attempts: z.array(logCountSchema), nextCursor }),
  about: aboutJob,
  run: async ({ store }, { id, attempt, tail, limit, cursor }) => {
    await neededJob(store, id)
    const page = tail === undefined ? { afterSeq: cursor ?? 0, limit } : { limit: tail }
    const filter = { id, ...page, ...(attempt !== undefined && { attempt }) }
    const [lines, counts] = await Promise.all([store.logs(filter), store.logCounts({ id })])
    const last = lines.at(-1)
    return {
      lines: lines.map(viewLine),
      attempts: counts.filter((one) => attempt === undefined || one.attempt === attempt),
      nextCursor: tail === undefined && last !== undefined && lines.length === limit ? String(last.seq) : null,
    }
  },
})

export const NO_LINES: z.infer<typeof lastLinesSchema> = { lines: [], count: 0, dropped: 0 }

/** Most jobs log nothing: then one small read says so. */
export async function lastLinesOf(store: Store, { id }: Pick<JobRow, 'id'>): Promise<z.infer<typeof lastLinesSchema>> {
  const counts = await store.logCounts({ id })
  if (counts.length === 0) return NO_LINES
  const lines = await store.logs({ id, limit: LAST_LINES })
  return {
    lines: lines.map(viewLine),
    count: counts.reduce((sum, one) => sum + one.lines, 0),
    dropped: counts.reduce((sum, one) => sum + one.dropped, 0),
  }
}
