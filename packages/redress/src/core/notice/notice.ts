import { z } from 'zod'
import { batchCountFields } from '../batch.ts'
import { RedressError } from '../errors.ts'
import { FAULTS, type Failure, PHASES } from '../failure/failure.ts'
import { actionsFor, DECISIONS } from '../job/actions.ts'
import type { Change } from '../job/change.ts'
import { unpackSpent } from '../policy/budget.ts'
import type { NoticeKind } from '../policy/flow.ts'
import type { Policy } from '../policy/policy.ts'
import { isoTime } from '../text/duration.ts'
import { anything, count, id, name, text, time, timeOrNull } from '../views/fields.ts'

/** Reserved prefix for the engine's own job types. */
const OWN_PREFIX = 'redress.'
/** Deliveries are jobs, of one type per channel: a process claims only those of the channels that it has. */
export const NOTIFY_PREFIX = `${OWN_PREFIX}notify.`

export const isOwnType = (type: string): boolean => type.startsWith(OWN_PREFIX)
export const typeOfChannel = (channel: string): string => `${NOTIFY_PREFIX}${channel}`
export const channelOfType = (type: string): string | null =>
  type.startsWith(NOTIFY_PREFIX) ? type.slice(NOTIFY_PREFIX.length) : null

/** No app can declare or submit a type with such a name. */
export function refuseOwnType(type: string): void {
  if (typeof type !== 'string' || !isOwnType(type)) return
  throw new RedressError(
    'OPTION_INVALID',
    `${type}: names that begin with ${OWN_PREFIX} are kept for the engine itself.`,
  )
}

/** A job as a notice tells of it: never its input, which may hold anything. */
const noticeJobSchema = z.strictObject({
  id,
  type: name,
  owner: name.nullable(),
  batch: z.strictObject({ id, name }).nullable(),
  attempts: count,
  maxAttempts: count,
  createdAt: time,
  retriedFrom: id.nullable(),
  // What a person may do about it, as its policy allows.
  actions: z.array(z.strictObject({ name, why: text })),
})
/** The job that a notice is about. */
export type NoticeJob = z.infer<typeof noticeJobSchema>

/** The public part of a failure: what was really thrown is for those who may look it up. */
const noticeFailureSchema = z.strictObject({
  code: name,
  message: text,
  fault: z.enum(FAULTS),
  phase: z.enum(PHASES),
  fingerprint: text,
})
/** The public part of the failure that a notice is about. */
export type NoticeFailure = z.infer<typeof noticeFailureSchema>

const { total, complete, failed, permanent, cancelled } = batchCountFields
const noticeBatchSchema = z.strictObject({
  id,
  name,
  owner: name.nullable(),
  state: text,
  total,
  complete,
  failed,
  permanent,
  cancelled,
})
/** The batch that a notice is about. */
export type NoticeBatch = z.infer<typeof noticeBatchSchema>

const delivered = {
  at: time,
  repeats: count.describe('so many of the same cause came since the notice before, and were only counted'),
  since: timeOrNull.describe('when the notice before this one was sent; null when there was none'),
}

/** A notice as a channel gets it. */
export const noticeSchema = z.discriminatedUnion('kind', [
  z.strictObject({ ...delivered, kind: z.literal('failed'), job: noticeJobSchema, failure: noticeFailureSchema }),
  z.strictObject({ ...delivered, kind: z.literal('orphaned'), job: noticeJobSchema, worker: name }),
  z.strictObject({ ...delivered, kind: z.literal('settled'), batch: noticeBatchSchema }),
  z.strictObject({ ...delivered, kind: z.literal('app'), name, subject: text, data: anything }),
  z.strictObject({ ...delivered, kind: z.literal('test'), actor: name, reason: text }),
])
/** What a channel delivers. */
export type Notice = z.infer<typeof noticeSchema>

/** The content of a notice. `app` is a notice that a program sends itself, under a name of its own. */
export type NoticeContent = Without<Notice, keyof typeof delivered>
type Without<Union, Fields extends PropertyKey> = Union extends unknown ? Omit<Union, Fields> : never

/** A notice that is written with the change that it is about. */
export interface NewNotice {
  channels: readonly string[]
  /** What it is about: 'job:ID', 'batch:ID', 'app:NAME'. */
  subject: string
  /** Two notices of one kind, one set of channels and one cause are the same: one of them is sent per window. */
  cause: string
  /** 0 = each is sent. */
  windowMs: number
  content: NoticeContent
}

/** As the outbox has it. */
export interface NoticeRecord {
  content: NoticeContent
  atMs: number
  earlier: number
  earlierAtMs: number | null
}

/** The fields of a job that a notice needs. */
export interface NotifiedJob {
  id: string
  type: string
  owner: string | null
  attempt: number
  spent: string | null
  createdAtMs: number
  retriedFrom: string | null
  isForwardOnly: boolean
}

const NONE: readonly NewNotice[] = []

/** A job failed for good. */
export function noticesOfFailure(job: NotifiedJob, failure: Failure, policy: Policy): readonly NewNotice[] {
  if (!isNotified('failed', job.type, policy)) return NONE
  const { code, message, fault, phase, fingerprint } = failure
  return [
    {
      ...addressed('failed', job, policy),
      // By owner too: each owner gets a notice, although the cause is the same.
      cause: causeOf(job.type, fingerprint, job.owner),
      content: {
        kind: 'failed',
        job: jobOf(job, policy, false),
        failure: { code, message, fault, phase: phase, fingerprint },
      },
    },
  ]
}

/** Its worker is gone, and a person is to decide (P55). A worker takes all its jobs along: they are one cause. */
export function noticesOfOrphan(job: NotifiedJob, worker: string, policy: Policy): readonly NewNotice[] {
  if (!isNotified('orphaned', job.type, policy)) return NONE
  return [
    {
      ...addressed('orphaned', job, policy),
      cause: causeOf(job.type, worker, job.owner),
      content: { kind: 'orphaned', job: jobOf(job, policy, true), worker },
    },
  ]
}

/** A batch settled; each settlement causes a notice. */
export function noticesOfSettlement(batch: NoticeBatch, channels: readonly string[]): readonly NewNotice[] {
  if (channels.length === 0) return NONE
  const { id, name, owner, state, total, complete, failed, permanent, cancelled } = batch
  const content = { id, name, owner, state, total, complete, failed, permanent, cancelled }
  return [
    {
      channels: sortedSet(channels),
      subject: `batch:${id}`,
      cause: id,
      windowMs: 0,
      content: { kind: 'settled', batch: content },
    },
  ]
}

/** The kind under which a notice is counted and listed. */
export function kindOf(content: NoticeContent): string {
  return content.kind === 'app' ? `app:${content.name}` : content.kind
}

/** Adds the batch of the job, which the store knows and the worker does not. */
export function inBatch(content: NoticeContent, batch: NoticeJob['batch']): NoticeContent {
  return 'job' in content ? { ...content, job: { ...content.job, batch } } : content
}

export function noticeOf({ content, atMs, earlier, earlierAtMs }: NoticeRecord): Notice {
  const since = earlier === 0 || earlierAtMs === null ? null : isoTime(earlierAtMs)
  return { ...content, at: isoTime(atMs), repeats: earlier, since }
}

export interface CountedNotice {
  untilMs: number
  /** How many were counted instead of sent. */
  repeats: number
  atMs: number
}

/** Whether a notice is sent or counted on the last one. Called in the transaction that writes the answer. */
export function sendOrCount(
  { windowMs }: Pick<NewNotice, 'windowMs'>,
  last: CountedNotice | null,
  nowMs: number,
): { count: true } | { count: false; untilMs: number; earlier: number; earlierAtMs: number | null } {
  const untilMs = nowMs + windowMs
  if (windowMs === 0 || last === null) return { count: false, untilMs, earlier: 0, earlierAtMs: null }
  // Older than the last one: the clock was set back. The window must not last until the clock has caught up.
  if (nowMs >= last.atMs && nowMs < last.untilMs) return { count: true }
  return { count: false, untilMs, earlier: last.repeats, earlierAtMs: last.atMs }
}

/** A notice about a notice that failed could go on for ever, so there is none. */
function isNotified(kind: NoticeKind, type: string, { notify }: Policy): boolean {
  return notify[kind].length > 0 && !isOwnType(type)
}

const addressed = (kind: NoticeKind, { id }: NotifiedJob, { notify }: Policy) => ({
  channels: sortedSet(notify[kind]),
  subject: `job:${id}`,
  windowMs: notify.windowMs,
})

/** The same channels in another order are the same set. */
export const sortedSet = (channels: readonly string[]): string[] => [...new Set(channels)].sort()

const causeOf = (...parts: (string | null)[]): string => JSON.stringify(parts)

function jobOf(job: NotifiedJob, policy: Policy, isOrphan: boolean): NoticeJob {
  const { id, type, owner, attempt, spent, createdAtMs, retriedFrom, isForwardOnly } = job
  const status = isOrphan ? 'processing' : 'failed'
  const judged = {
    status,
    orphanedAtMs: isOrphan ? 0 : null,
    cancelRequestedAtMs: null,
    isForwardOnly,
    retriedAs: null,
    retriedAsStatus: null,
    attempt,
    dueAtMs: null,
    isDeadLettered: false,
    policy,
  } as const
  return {
    id,
    type,
    owner,
    batch: null,
    attempts: attempt - unpackSpent(spent).attemptBase,
    maxAttempts: policy.retry.max,
    createdAt: isoTime(createdAtMs),
    retriedFrom,
    actions: actionsFor(judged)
      .filter(({ name, allowed }) => allowed && DECISIONS.has(name))
      .map(({ name, why }) => ({ name, why })),
  }
}

/** Adds the notices of a change to its record; without the field where there are none. */
export function withNotices<Recorded extends { change: Change | { to: 'orphaned' } }>(
  recorded: Recorded,
  job: NotifiedJob,
  policy: Policy,
  worker: string,
): Recorded & { notices?: readonly NewNotice[] } {
  const { change } = recorded
  if (change.to !== 'failed' && change.to !== 'orphaned') return recorded
  const notices =
    change.to === 'failed'
      ? noticesOfFailure({ ...job, spent: change.spent }, change.failure, policy)
      : noticesOfOrphan(job, worker, policy)
  return notices.length === 0 ? recorded : { ...recorded, notices }
}
