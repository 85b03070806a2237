import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { durationMs } from '../core/text/duration.ts'
import { isoMs } from '../runtime/moment.ts'
import type { ActorAndReason } from '../store/contract/store.ts'

/** Fields that several operations have in their input. */

export const idField = z.string().min(1).describe('id of the job')
export const ownerField = z.string().min(1).optional().describe('only if the job has this owner')
export const typeField = z.string().min(1).describe('name of the job type')
export const limitField = (most: number) =>
  z.coerce.number().int().min(1).max(most).default(50).describe(`maximum number of items (up to ${most})`)
export const cursorField = z.coerce
  .number()
  .int()
  .min(1)
  .optional()
  .describe('continue after the last page: its nextCursor')
export const durationInput = z.union([z.string(), z.number()])
export const dryRunField = z.boolean().default(false).describe('only show what would be done')

/** Fields of every act. The audit trail keeps actor and reason; `requireActorAndReason` checks both. */
export const actorFields = {
  actor: z.string().default('').describe('who does it'),
  reason: z.string().default('').describe('why: recorded in the audit trail'),
  dryRun: dryRunField,
}

const ACTOR_CHARS_MAX = 200
const REASON_CHARS_MAX = 2_000

/** `target` names the changed thing: 'job 17', 'queue mail'. */
export function requireActorAndReason({ actor, reason }: ActorAndReason, target: string): void {
  if (actor.trim() === '') throw new RedressError('REASON_REQUIRED', `An actor is required to change ${target}.`)
  if (reason.trim() === '') throw new RedressError('REASON_REQUIRED', `A reason is required to change ${target}.`)
  if (actor.length > ACTOR_CHARS_MAX || reason.length > REASON_CHARS_MAX) {
    const limits = `an actor has at most ${ACTOR_CHARS_MAX} characters, and a reason ${REASON_CHARS_MAX}`
    throw new RedressError('OPTION_INVALID', `Too long: ${limits}.`)
  }
}

/** A moment as a person writes it: how long ago ('2h'), or a time in ISO 8601. Read with `momentMs`. */
export const momentField = (what: string) =>
  z.string().min(1).optional().describe(`${what}: how long ago ('2h'), or a time ('2026-01-31T08:00Z')`)

const ISO_DATE = /^\d{4}-\d{2}-\d{2}/

/** By the store's clock, which the caller asks for. */
export function momentMs(text: string, field: string, nowMs: number): number {
  if (!ISO_DATE.test(text)) return nowMs - agoMs(text, field)
  const ms = isoMs(text)
  if (!Number.isNaN(ms)) return ms
  throw new RedressError('OPTION_INVALID', `${field}: ${JSON.stringify(text)} is not a time in ISO 8601.`)
}

function agoMs(text: string, field: string): number {
  try {
    return durationMs(text, field)
  } catch (error) {
    throw new RedressError('OPTION_INVALID', `${(error as Error).message}, or a time: '2026-01-31T08:00Z'`)
  }
}
