import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { channelOfType, type Notice, noticeOf, noticeSchema, typeOfChannel } from '../../core/notice/notice.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { count, done, id, name, nextCursor, text, time, timeOrNull } from '../../core/views/fields.ts'
import type { StoredNotice } from '../../store/contract/notices.ts'
import type { JobRow, Store } from '../../store/contract/store.ts'
import { actorFields, cursorField, limitField, requireActorAndReason } from '../input-fields.ts'
import { operation } from '../operation.ts'

/** The outbox of notices and their deliveries. */

const LIST_MAX = 1_000
const channelField = z.string().min(1).describe('name of the channel')

const listedNoticeSchema = z.strictObject({
  seq: count,
  at: time,
  kind: name,
  subject: text,
  channels: z.array(name),
  state: z.enum(['relayed', 'waiting']),
  waiting: z.array(z.strictObject({ channel: name, why: text })).describe('channels that have not taken it yet'),
  repeats: count.describe('further notices of the same cause, counted instead of sent'),
  lastAt: time,
  repeatsTold: count.describe('repeats of the notice before, reported with this one'),
  relayedAt: timeOrNull,
  notice: noticeSchema,
})
export type NoticeView = z.infer<typeof listedNoticeSchema>

const deliverySchema = z.strictObject({
  // Also the `webhook-id`, and the beginning of the Message-ID.
  id: id.describe('id of the job that delivers it'),
  notice: count.describe('seq of the notice'),
  kind: name,
  channel: name,
  state: z.enum(['waiting', 'sending', 'sent', 'nobody', 'failed', 'cancelled']),
  to: z.array(text),
  attempts: count,
  maxAttempts: count,
  answer: text.nullable().describe('the answer of the receiver'),
  refused: z.array(z.strictObject({ to: text, answer: text })),
  later: z
    .strictObject({ to: z.array(text), id })
    .nullable()
    .describe('recipients that were deferred, and the delivery that retries them'),
  error: z.strictObject({ code: name, message: text, answer: text.nullable(), at: time }).nullable(),
  createdAt: time,
  nextAttemptAt: timeOrNull,
  sentAt: timeOrNull,
})
export type DeliveryView = z.infer<typeof deliverySchema>

const listNotices = operation('notices.list', {
  input: z.strictObject({
    waiting: z.boolean().default(false).describe('only notices that wait for a channel'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
  }),
  output: z.strictObject({ notices: z.array(listedNoticeSchema), nextCursor }),
  run: async ({ store }, { waiting, limit, cursor }) => {
    const before = cursor === undefined ? {} : { beforeSeq: cursor }
    const found = await store.notices({ isWaiting: waiting, limit: limit + 1, ...before })
    const known = new Set(await channelsOf(store))
    const shown = found.slice(0, limit)
    return {
      notices: shown.map((notice) => viewNotice(notice, known)),
      nextCursor: found.length > shown.length ? String(shown.at(-1)?.seq) : null,
    }
  },
})

function viewNotice(stored: StoredNotice, known: ReadonlySet<string>): NoticeView {
  const { seq, atMs, kind, subject, channels, repeats, lastAtMs, earlier, relayedAtMs } = stored
  return {
    seq,
    at: isoTime(atMs),
    kind,
    subject,
    channels,
    state: relayedAtMs === null ? 'waiting' : 'relayed',
    waiting: stored.waiting.map((channel) => ({ channel, why: whyWaiting(channel, known) })),
    repeats,
    lastAt: isoTime(lastAtMs),
    repeatsTold: earlier,
    relayedAt: isoTimeOrNull(relayedAtMs),
    notice: noticeOf(stored),
  }
}

const whyWaiting = (channel: string, known: ReadonlySet<string>): string =>
  known.has(channel)
    ? `a worker with the channel ${channel} will take it`
    : `no program has declared the channel ${channel}`

const listDeliveries = operation('notices.deliveries', {
  input: z.strictObject({
    channel: channelField.optional().describe('only deliveries of this channel'),
    failed: z.boolean().default(false).describe('only deliveries that failed'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
  }),
  output: z.strictObject({ deliveries: z.array(deliverySchema), nextCursor }),
  run: async ({ store }, { channel, failed, limit, cursor }) => {
    const types = channel === undefined ? (await channelsOf(store)).map(typeOfChannel) : [typeOfChannel(channel)]
    const filter = {
      limit: limit + 1,
      ...(failed && { status: 'failed' as const }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    }
    const pages = await Promise.all(types.map((type) => store.jobs({ ...filter, type })))
    const found = pages.flat().sort((one, other) => other.key - one.key)
    const shown = found.slice(0, limit)
    return {
      deliveries: shown.map(viewDelivery),
      nextCursor: found.length > shown.length ? String(shown.at(-1)?.key) : null,
    }
  },
})

interface StoredResult {
  to?: string[]
  answer?: string
  refused?: { to: string; answer: string }[]
  later?: string[]
  laterJob?: string
}

function viewDelivery(job: JobRow): DeliveryView {
  const { seq, notice } = JSON.parse(job.payload) as { seq: number; notice: Notice }
  const result = job.result === null ? null : (JSON.parse(job.result) as StoredResult)
  const failure = job.status === 'complete' ? null : job.latestFailure
  const context = (failure?.context ?? {}) as { to?: string | string[]; answer?: string }
  return {
    id: job.id,
    notice: seq,
    kind: notice.kind === 'app' ? notice.name : notice.kind,
    channel: channelOfType(job.type) ?? job.type,
    state: stateOf(job, result),
    to: result?.to ?? [context.to ?? []].flat(),
    attempts: job.attempt,
    maxAttempts: job.policy.retry.max,
    answer: result?.answer ?? null,
    refused: result?.refused ?? [],
    later: result?.laterJob === undefined ? null : { to: result.later ?? [], id: result.laterJob },
    error: failure && {
      code: failure.code,
      message: job.status === 'failed' ? failure.message : failure.waiting,
      answer: context.answer ?? null,
      at: isoTime(failure.atMs),
    },
    createdAt: isoTime(job.createdAtMs),
    nextAttemptAt: job.status === 'queued' ? isoTimeOrNull(job.dueAtMs) : null,
    sentAt: job.status === 'complete' && (result?.to?.length ?? 0) > 0 ? isoTimeOrNull(job.finishedAtMs) : null,
  }
}

function stateOf({ status }: JobRow, result: StoredResult | null): DeliveryView['state'] {
  if (status === 'complete') return (result?.to?.length ?? 0) > 0 ? 'sent' : 'nobody'
  if (status === 'queued') return 'waiting'
  return status === 'processing' ? 'sending' : status
}

const testChannel = operation('notices.test', {
  input: z.strictObject({
    channel: channelField,
    ...actorFields,
    reason: actorFields.reason.describe('why: part of the notice, and recorded in the audit trail'),
  }),
  output: z.strictObject({ ...done, notice: count.nullable().describe('seq of the notice') }),
  run: async ({ store }, { channel, actor, reason, dryRun }) => {
    requireActorAndReason({ actor, reason }, `the channel ${channel}`)
    const known = await channelsOf(store)
    if (!known.includes(channel)) {
      const names = known.join(', ') || 'none'
      throw new RedressError('CHANNEL_UNKNOWN', `There is no channel ${channel}; known channels: ${names}.`)
    }
    if (dryRun) {
      return { isDone: false, did: `Nothing was done. This sends a test notice through ${channel}.`, notice: null }
    }
    const content = { kind: 'test', actor, reason } as const
    const notice = { channels: [channel], subject: `channel:${channel}`, cause: channel, windowMs: 0, content }
    const [added] = await store.addNotices({ notices: [notice], by: { actor, reason, act: 'notices.test' } })
    const did = `A test notice for ${channel} is in the outbox; a worker with this channel sends it.`
    return { isDone: true, did, notice: added?.seq ?? null }
  },
})

/** The channels that some program has declared at this store, ever: each has a job type. */
async function channelsOf(store: Store): Promise<string[]> {
  return (await store.types()).flatMap(({ name }) => channelOfType(name) ?? [])
}

export const noticeOperations = {
  'notices.list': listNotices,
  'notices.deliveries': listDeliveries,
  'notices.test': testChannel,
}
