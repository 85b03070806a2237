import { z } from 'zod'
import { REPLAY_STATES } from '../../core/bulk-replay.ts'
import { SKIPS } from '../../core/replay-obstacle.ts'
import { STATUSES } from '../../core/states.ts'
import type { ReplayItemView, ReplayView } from '../../core/view-replay.ts'
import type { Planned } from '../plan-replay.ts'
import type { MatchingReplayed, ReplayActed, ReplayDetail, ReplayList } from '../replays.ts'
import { statusSchema } from './job.ts'
import {
  anything,
  by,
  count,
  done,
  exactly,
  id,
  name,
  nextCursor,
  number,
  text,
  time,
  timeOrNull,
  yes,
} from './schema.ts'

const skipCode = z.enum(SKIPS)

const replayFields = {
  id,
  state: z.enum(REPLAY_STATES),
  why: text,
  selection: z.strictObject({
    type: name.optional(),
    code: name.optional(),
    owner: name.optional(),
    fingerprint: text.optional(),
    since: time.optional(),
    until: time.optional(),
    replayed: yes.optional(),
  }),
  patch: anything,
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
}

const replaySchema = exactly<ReplayView>()(z.strictObject(replayFields))

const plannedFields = {
  ...done,
  replay: replaySchema.nullable(),
  willRun: count.describe('how many would become jobs, as things are now'),
  skipped: z.array(
    z.strictObject({ code: skipCode, letters: count, example: z.strictObject({ offset: count, why: text }) }),
  ),
  unchecked: z
    .array(z.strictObject({ type: name, letters: count }))
    .describe('of types that this program does not know'),
}

export const plannedSchema = exactly<Planned>()(z.strictObject(plannedFields))
export const matchingReplayedSchema = exactly<MatchingReplayed>()(z.strictObject({ ...plannedFields, isStarted: yes }))
export const replayActedSchema = exactly<ReplayActed>()(z.strictObject({ ...done, replay: replaySchema }))
export const replayListSchema = exactly<ReplayList>()(z.strictObject({ replays: z.array(replaySchema), nextCursor }))

const item = exactly<ReplayItemView>()(
  z.strictObject({
    position: count,
    offset: count,
    type: name,
    state: z.enum(['waiting', 'skipped', 'submitted']),
    skip: z.strictObject({ code: skipCode, why: text }).nullable(),
    jobId: id.nullable(),
    jobStatus: statusSchema.nullable(),
  }),
)

export const replayDetailSchema = exactly<ReplayDetail>()(
  z.strictObject({
    ...replayFields,
    jobs: z.record(z.enum([...STATUSES, 'gone']), count),
    skippedBy: z.array(z.strictObject({ code: skipCode, letters: count })),
    waitingTypes: z.array(z.strictObject({ type: name, letters: count })),
    items: z.array(item),
    nextAfter: count.nullable(),
  }),
)
