import { z } from 'zod'
import { isoTime } from '../../core/text/duration.ts'
import { count, name, nextCursor, text, time } from '../../core/views/fields.ts'
import type { StoredAct } from '../../store/contract/audit.ts'
import { cursorField, limitField, momentField, momentMs } from '../input-fields.ts'
import { operation } from '../operation.ts'

const LIST_MAX = 1_000

const entrySchema = z.strictObject({
  seq: count,
  at: time,
  actor: name,
  act: name.describe('the name of the operation'),
  reason: text,
  target: name.describe('the kind of thing it was done to'),
  ids: z.array(text),
  data: z.record(text, z.unknown()).nullable(),
})
export type AuditView = z.infer<typeof entrySchema>

const auditTrail = operation('audit.list', {
  input: z.strictObject({
    // Not `actor`: doors fill that in with the caller.
    by: z.string().min(1).optional().describe('only entries of this actor'),
    act: z.string().min(1).optional().describe(`only this operation ('jobs.retry'), or all of a group ('jobs')`),
    target: z.string().min(1).optional().describe(`only entries about this kind of target: 'job', 'queue', ...`),
    id: z.string().min(1).optional().describe('only entries about this id'),
    since: momentField('not older than this'),
    until: momentField('older than this'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
  }),
  output: z.strictObject({ entries: z.array(entrySchema), nextCursor }),
  run: async ({ store }, { by, act, target, id, since, until, limit, cursor }) => {
    const nowMs = await store.nowMs()
    const found = await store.auditTrail({
      filter: {
        ...(by !== undefined && { actor: by }),
        ...(act !== undefined && { act }),
        ...(target !== undefined && { target }),
        ...(id !== undefined && { id }),
        ...(since !== undefined && { sinceMs: momentMs(since, 'since', nowMs) }),
        ...(until !== undefined && { untilMs: momentMs(until, 'until', nowMs) }),
      },
      beforeSeq: cursor ?? null,
      limit: limit + 1,
    })
    const shown = found.slice(0, limit)
    return {
      entries: shown.map(viewAct),
      nextCursor: found.length > shown.length ? String(shown.at(-1)?.seq) : null,
    }
  },
})

function viewAct({ seq, atMs, actor, act, reason, target, ids, data }: StoredAct): AuditView {
  return { seq, at: isoTime(atMs), actor, act, reason, target, ids, data }
}

export const auditOperations = {
  'audit.list': auditTrail,
}
