import { z } from 'zod'
import { REPLAY_STATES, type ReplayAct, type ReplayState, SKIPS, stateAfter } from '../../core/dead-letter/replay.ts'
import { RedressError } from '../../core/errors.ts'
import { STATUSES } from '../../core/job/states.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import {
  anything,
  by,
  count,
  done,
  flag,
  id,
  name,
  nextCursor,
  number,
  status,
  text,
  time,
  timeOrNull,
} from '../../core/views/fields.ts'
import type { StoredReplay, StoredReplayItem } from '../../store/contract/replays.ts'
import type { ActorAndReason, Store } from '../../store/contract/store.ts'
import { allField, filterFields, filterOf, refuseAccidentalAll } from '../dead-letters/filter.ts'
import { actorFields, cursorField, durationInput, limitField, requireActorAndReason } from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'
import { planReplay } from './plan.ts'

const skipCode = z.enum(SKIPS)

/** The replay of many dead letters. */
const replaySchema = z.strictObject({
  id,
  state: z.enum(REPLAY_STATES),
  why: text.describe('why it is in this state'),
  selection: z.strictObject({
    type: name.exactOptional(),
    code: name.exactOptional(),
    owner: name.exactOptional(),
    fingerprint: text.exactOptional(),
    since: time.exactOptional(),
    until: time.exactOptional(),
    replayed: flag.exactOptional(),
  }),
  patch: anything.describe('JSON merge patch for each input; null: inputs stay unchanged'),
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
  jobStatus: status.nullable().describe('current status; null if there is no job'),
})
export type ReplayItemView = z.infer<typeof itemSchema>

const replayDetailSchema = z.strictObject({
  ...replaySchema.shape,
  jobs: z.record(z.enum([...STATUSES, 'gone']), count).describe('current statuses of its jobs'),
  skippedBy: z.array(z.strictObject({ code: skipCode, letters: count })),
  waitingTypes: z.array(z.strictObject({ type: name, letters: count })),
  items: z.array(itemSchema),
  nextAfter: count.nullable().describe('pass it as after for the next page; null on the last page'),
})

export const replayPlannedSchema = z.strictObject({
  ...done,
  replay: replaySchema.nullable().describe('null when nothing was planned'),
  willRun: count.describe('how many letters would become jobs now'),
  skipped: z.array(
    z.strictObject({ code: skipCode, letters: count, example: z.strictObject({ offset: count, why: text }) }),
  ),
  // A worker that knows the type checks them when their turn comes.
  unchecked: z
    .array(z.strictObject({ type: name, letters: count }))
    .describe('of types that this program does not know'),
})
export type ReplayPlanned = z.infer<typeof replayPlannedSchema>

const LIST_MAX = 1_000

const idOfReplay = z.string().min(1).describe('id of the replay')
const planFields = {
  ...filterFields,
  all: allField,
  ...actorFields,
  rate: durationInput.optional().describe(`maximum rate: '5/s', '90/m', '200/h'`),
  canary: z.coerce
    .number()
    .int()
    .min(0)
    .max(10_000)
    .default(0)
    .describe('run this many first, and wait for their outcomes'),
  canaryFailures: z.coerce.number().int().min(0).default(0).describe('how many jobs of the canary may fail'),
  patch: z.unknown().optional().describe('JSON merge patch (RFC 7396) for each input'),
  again: z.boolean().default(false).describe('also letters that were already replayed'),
}
export const planInput = z.strictObject(planFields)

export async function planMatching(context: Context, given: z.output<typeof planInput>): Promise<ReplayPlanned> {
  const { all, type, code, owner, fingerprint, since, until, replayed, ...planning } = given
  requireActorAndReason(given, 'dead letters')
  const nowMs = await context.store.nowMs()
  const filter = filterOf({ type, code, owner, fingerprint, since, until, replayed }, nowMs)
  refuseAccidentalAll(filter, all, 'replay')
  const { replay, ...planned } = await planReplay(context, { ...planning, filter })
  return { ...planned, replay: replay && viewReplay(replay) }
}

const planOfReplay = operation('replays.plan', { input: planInput, output: replayPlannedSchema, run: planMatching })

// ---- acts ----------------------------------------------------------------------------------------------------------

const replayActedSchema = z.strictObject({ ...done, replay: replaySchema })
type ReplayActed = z.infer<typeof replayActedSchema>

const actInput = z.strictObject({ ...actorFields, id: idOfReplay })

const DID: Readonly<Record<ReplayAct, string>> = {
  start: 'is started; workers that know its types run it',
  pause: 'is paused; jobs that it made continue',
  resume: 'is resumed',
  abort: 'is aborted; jobs that it made continue',
}

export async function actOnReplay(
  store: Store,
  name: ReplayAct,
  { id, actor, reason, dryRun }: ActorAndReason & { id: string; dryRun: boolean },
): Promise<ReplayActed> {
  const replay = await neededReplay(store, id)
  requireActorAndReason({ actor, reason }, `replay ${id}`)
  if (stateAfter(name, replay) === null) throw wrongState(name, replay)
  if (dryRun) {
    const waiting = replay.total - replay.submitted - replay.skipped
    const did = `Nothing was done. Replay ${id} is ${replay.state}, and ${waiting} letters wait; this would ${name} it.`
    return { isDone: false, did, replay: viewReplay(replay) }
  }
  const answer = await store.moveReplay({ id, act: name, actor, reason, expect: replay.state })
  const now = await neededReplay(store, id)
  if (answer === 'moved-on') throw movedOn(now, replay.state)
  return { isDone: true, did: `Replay ${id} ${DID[name]}.`, replay: viewReplay(now) }
}

const WHY_NOT: Readonly<Partial<Record<ReplayState, string>>> = {
  planning: 'its selection was not finished; abort it and plan again',
  planned: 'it has not been started',
  done: 'it has ended',
  aborted: 'it was aborted; plan a new one for what is left',
}

const DONE: Readonly<Record<ReplayAct, string>> = {
  start: 'started',
  pause: 'paused',
  resume: 'resumed',
  abort: 'aborted',
}

function wrongState(name: ReplayAct, { id, state, why }: StoredReplay): RedressError {
  return new RedressError(
    'REPLAY_WRONG_STATE',
    `Replay ${id} is ${state}, so it cannot be ${DONE[name]}: ${WHY_NOT[state] ?? why}.`,
  )
}

function movedOn({ id, state }: StoredReplay, before: ReplayState): RedressError {
  const message = `Replay ${id} is ${state} now; it was ${before} when this was decided. Nothing was done.`
  return new RedressError('REPLAY_WRONG_STATE', message)
}

const startReplay = operation('replays.start', {
  input: actInput,
  output: replayActedSchema,
  run: ({ store }, given) => actOnReplay(store, 'start', given),
})
const pauseReplay = operation('replays.pause', {
  input: actInput,
  output: replayActedSchema,
  run: ({ store }, given) => actOnReplay(store, 'pause', given),
})
const resumeReplay = operation('replays.resume', {
  input: actInput,
  output: replayActedSchema,
  run: ({ store }, given) => actOnReplay(store, 'resume', given),
})
const abortReplay = operation('replays.abort', {
  input: actInput,
  output: replayActedSchema,
  run: ({ store }, given) => actOnReplay(store, 'abort', given),
})

// ---- reading -------------------------------------------------------------------------------------------------------

const listReplays = operation('replays.list', {
  input: z.strictObject({
    state: z.enum(REPLAY_STATES).optional().describe('only replays in this state'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
  }),
  output: z.strictObject({ replays: z.array(replaySchema), nextCursor }),
  run: async ({ store }, { state, limit, cursor }) => {
    const found = await store.replays({
      limit: limit + 1,
      ...(state !== undefined && { state }),
      ...(cursor !== undefined && { beforeKey: cursor }),
    })
    const shown = found.slice(0, limit)
    return {
      replays: shown.map(viewReplay),
      nextCursor: found.length > shown.length ? String(shown.at(-1)?.key) : null,
    }
  },
})

const showReplay = operation('replays.show', {
  input: z.strictObject({
    id: idOfReplay,
    state: z.enum(['waiting', 'skipped', 'submitted']).optional().describe('only letters in this state'),
    after: z.coerce.number().int().min(0).default(0).describe('only letters after this position'),
    limit: limitField(LIST_MAX),
  }),
  output: replayDetailSchema,
  run: async ({ store }, { id, state, after, limit }) => {
    const replay = await neededReplay(store, id)
    const { jobs, skipped, waiting } = await store.replayCounts({ id })
    const found = await store.replayItems({
      ...{ id, afterPosition: after, limit: limit + 1 },
      ...(state !== undefined && { state }),
    })
    const items = found.slice(0, limit)
    return {
      ...viewReplay(replay),
      jobs,
      skippedBy: skipped,
      waitingTypes: waiting,
      items: items.map(viewItem),
      nextAfter: found.length > items.length ? (items.at(-1)?.position ?? null) : null,
    }
  },
})

async function neededReplay(store: Store, id: string): Promise<StoredReplay> {
  const replay = await store.replay({ id })
  if (replay === null) throw new RedressError('REPLAY_NOT_FOUND', `There is no replay ${id}.`)
  return replay
}

function viewReplay(replay: StoredReplay): ReplayView {
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

function viewItem({ position, offset, type, state, skip, job, status }: StoredReplayItem): ReplayItemView {
  return { position, offset, type, state, skip, jobId: state === 'submitted' ? job : null, jobStatus: status }
}

export const replayOperations = {
  'replays.plan': planOfReplay,
  'replays.start': startReplay,
  'replays.pause': pauseReplay,
  'replays.resume': resumeReplay,
  'replays.abort': abortReplay,
  'replays.list': listReplays,
  'replays.show': showReplay,
}
