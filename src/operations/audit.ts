import { z } from 'zod'
import { type AuditView, viewAct } from '../core/view-audit.ts'
import { limitField, operation } from './operation.ts'
import { auditListSchema } from './outputs/audit.ts'
import { momentField, momentMs } from './time-field.ts'

const LIST_MAX = 1_000

export interface AuditList {
  entries: AuditView[]
  /** Give it as `cursor` for the older ones; null when these were the last. */
  nextCursor: string | null
}

export const auditTrail = operation('audit.list', {
  input: z.strictObject({
    // Not `actor`: that is who performs an operation, and doors fill it in.
    by: z.string().min(1).optional().describe('only what this person did'),
    act: z.string().min(1).optional().describe(`only this operation ('jobs.retry'), or all that begin so ('jobs')`),
    target: z.string().min(1).optional().describe(`only what was done to this kind of thing: 'job', 'queue', ...`),
    id: z.string().min(1).optional().describe('only what was done to this one'),
    since: momentField('not older than this'),
    until: momentField('older than this'),
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
  output: auditListSchema,
  run: async ({ store }, { by, act, target, id, since, until, limit, cursor }): Promise<AuditList> => {
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
