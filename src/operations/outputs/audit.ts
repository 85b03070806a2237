import { z } from 'zod'
import type { AuditView } from '../../core/view-audit.ts'
import type { AuditList } from '../audit.ts'
import { count, exactly, name, nextCursor, text, time } from './schema.ts'

const entry = exactly<AuditView>()(
  z.strictObject({
    seq: count,
    at: time,
    actor: name,
    act: name.describe('the name of the operation'),
    reason: text,
    target: name.describe('the kind of thing it was done to'),
    ids: z.array(text),
    data: z.record(text, z.unknown()).nullable(),
  }),
)

export const auditListSchema = exactly<AuditList>()(z.strictObject({ entries: z.array(entry), nextCursor }))
