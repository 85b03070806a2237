import { z } from 'zod'
import { SKIPS } from '../../core/dead-letter/obstacle.ts'
import { REPLAY_STATES } from '../../core/dead-letter/replay.ts'
import { STATUSES } from '../../core/job/states.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/iso-time.ts'
import {
  anything,
  by,
  count,
  done,
  flag,
  id,
  name,
  number,
  status,
  text,
  time,
  timeOrNull,
} from '../../core/views/fields.ts'
import type { StoredReplay, StoredReplayItem } from '../../store/contract/replays.ts'

const skipCode = z.enum(SKIPS)

/** The replay of many dead letters. */
export const replaySchema = z.strictObject({
  id,
  state: z.enum(REPLAY_STATES),
  why: text.describe('why it stands so'),
  selection: z.strictObject({
    type: name.exactOptional(),
    code: name.exactOptional(),
    owner: name.exactOptional(),
    fingerprint: text.exactOptional(),
    since: time.exactOptional(),
    until: time.exactOptional(),
    replayed: flag.exactOptional(),
  }),
  patch: anything.describe('JSON merge patch for each input; null where they stay as they are'),
  perSecond: number.nullable(),
  canary: count,
  canaryFailuresMax: count,
  plannedBy: by,
  startedBy: by.nullable(),
  total: count,
  submitted: count,
  skipped: count,
  waiting: count,
  createdAt: time,
  startedAt: timeOrNull,
  endedAt: timeOrNull,
})
export type ReplayView = z.infer<typeof replaySchema>

const itemSchema = z.strictObject({
  position: count,
  offset: count,
  type: name,
  state: z.enum(['waiting', 'skipped', 'submitted']),
  skip: z.strictObject({ code: skipCode, why: text }).nullable(),
  jobId: id.nullable(),
  jobStatus: status.nullable().describe('as it is now; null where there is no job, or none any more'),
})
export type ReplayItemView = z.infer<typeof itemSchema>

export const replayDetailSchema = z.strictObject({
  ...replaySchema.shape,
  jobs: z.record(z.enum([...STATUSES, 'gone']), count).describe('the jobs it made, as they stand now'),
  skippedBy: z.array(z.strictObject({ code: skipCode, letters: count })),
  waitingTypes: z.array(z.strictObject({ type: name, letters: count })),
  items: z.array(itemSchema),
  nextAfter: count.nullable().describe('give it as after for more of them; null when nothing is left'),
})

export const replayPlannedSchema = z.strictObject({
  ...done,
  replay: replaySchema.nullable().describe('null when nothing was planned'),
  willRun: count.describe('how many would become jobs, as things are now'),
  skipped: z.array(
    z.strictObject({ code: skipCode, letters: count, example: z.strictObject({ offset: count, why: text }) }),
  ),
  // A worker that knows the type checks them when their turn comes.
  unchecked: z
    .array(z.strictObject({ type: name, letters: count }))
    .describe('of types that this program does not know'),
})
export type ReplayPlanned = z.infer<typeof replayPlannedSchema>

export function viewReplay(replay: StoredReplay): ReplayView {
  const { total, submitted, skipped } = replay
  const { sinceMs, untilMs, isReplayed, type, code, owner, fingerprint } = replay.selection
  return {
    id: replay.id,
    state: replay.state,
    why: replay.why,
    selection: {
      ...(type !== undefined && { type }),
      ...(code !== undefined && { code }),
      ...(owner !== undefined && { owner }),
      ...(fingerprint !== undefined && { fingerprint }),
      ...(sinceMs !== undefined && { since: isoTime(sinceMs) }),
      ...(untilMs !== undefined && { until: isoTime(untilMs) }),
      ...(isReplayed !== undefined && { replayed: isReplayed }),
    },
    patch: replay.patch === null ? null : JSON.parse(replay.patch),
    perSecond: replay.perSecond,
    canary: replay.canary,
    canaryFailuresMax: replay.canaryFailuresMax,
    plannedBy: replay.plannedBy,
    startedBy: replay.startedBy,
    total,
    submitted,
    skipped,
    waiting: total - submitted - skipped,
    createdAt: isoTime(replay.createdAtMs),
    startedAt: isoTimeOrNull(replay.startedAtMs),
    endedAt: isoTimeOrNull(replay.endedAtMs),
  }
}

export function viewItem({ position, offset, type, state, skip, job, status }: StoredReplayItem): ReplayItemView {
  return { position, offset, type, state, skip, jobId: state === 'submitted' ? job : null, jobStatus: status }
}
