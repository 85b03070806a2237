import { z } from 'zod'
import { FAULTS, STAGES } from '../../core/failure.ts'
import type { Notice, NoticeBatch, NoticeFailure, NoticeJob } from '../../core/notices.ts'
import type { DeliveryView, NoticeView } from '../notices.ts'
import { anything, count, done, exactly, id, name, nextCursor, text, time, timeOrNull } from './schema.ts'

const job = exactly<NoticeJob>()(
  z.strictObject({
    id,
    type: name,
    owner: name.nullable(),
    batch: z.strictObject({ id, name }).nullable(),
    attempts: count,
    maxAttempts: count,
    createdAt: time,
    retriedFrom: id.nullable(),
    actions: z.array(z.strictObject({ name, why: text })),
  }),
)

const failure = exactly<NoticeFailure>()(
  z.strictObject({ code: name, message: text, fault: z.enum(FAULTS), stage: z.enum(STAGES), fingerprint: text }),
)

const batch = exactly<NoticeBatch>()(
  z.strictObject({
    id,
    name,
    owner: name.nullable(),
    state: text,
    total: count,
    complete: count,
    failed: count,
    permanent: count,
    cancelled: count,
  }),
)

const told = {
  at: time,
  repeats: count.describe('so many of the same cause came since the notice before, and were only counted'),
  since: timeOrNull,
}

const contentSchema = exactly<Notice>()(
  z.discriminatedUnion('kind', [
    z.strictObject({ ...told, kind: z.literal('failed'), job, failure }),
    z.strictObject({ ...told, kind: z.literal('orphaned'), job, worker: name }),
    z.strictObject({ ...told, kind: z.literal('settled'), batch }),
    z.strictObject({ ...told, kind: z.literal('app'), name, subject: text, data: anything }),
    z.strictObject({ ...told, kind: z.literal('test'), actor: name, reason: text }),
  ]),
)

const noticeSchema = exactly<NoticeView>()(
  z.strictObject({
    seq: count,
    at: time,
    kind: name,
    subject: text,
    channels: z.array(name),
    state: z.enum(['relayed', 'waiting']),
    waiting: z.array(z.strictObject({ channel: name, why: text })),
    repeats: count,
    lastAt: time,
    repeatsTold: count,
    relayedAt: timeOrNull,
    notice: contentSchema,
  }),
)

export const noticeListSchema = z.strictObject({ notices: z.array(noticeSchema), nextCursor })

const deliverySchema = exactly<DeliveryView>()(
  z.strictObject({
    id: id.describe('of the job that delivers it'),
    notice: count.describe('seq of the notice'),
    kind: name,
    channel: name,
    state: z.enum(['waiting', 'sending', 'sent', 'nobody', 'failed', 'cancelled']),
    to: z.array(text),
    attempts: count,
    maxAttempts: count,
    answer: text.nullable(),
    refused: z.array(z.strictObject({ to: text, answer: text })),
    later: z.strictObject({ to: z.array(text), id }).nullable(),
    error: z.strictObject({ code: name, message: text, answer: text.nullable(), at: time }).nullable(),
    createdAt: time,
    nextAttemptAt: timeOrNull,
    sentAt: timeOrNull,
  }),
)

export const deliveryListSchema = z.strictObject({ deliveries: z.array(deliverySchema), nextCursor })

export const channelTestedSchema = z.strictObject({ ...done, notice: count.nullable().describe('seq of the notice') })
