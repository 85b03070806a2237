import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { MISSED_RULES, SCHEDULE_ORIGINS } from '../../core/schedule.ts'
import { exactMs, isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import {
  anything,
  count,
  done,
  id,
  name,
  nextCursor,
  number,
  status,
  text,
  time,
  timeOrNull,
} from '../../core/views/fields.ts'
import type { ScheduleAct, StoredSchedule } from '../../store/contract/schedules.ts'
import type { NewJob, Store } from '../../store/contract/store.ts'
import { actorFields, durationInput, limitField, requireActorAndReason } from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'

/** A running program renews its declarations every minute; after three missed minutes, none counts. */
const SEEN_MS_MAX = 180_000

const LIST_MAX = 1_000
/** An error that names the known schedules names this many. */
const KNOWN_MAX = 10

const scheduleSchema = z.strictObject({
  name,
  origin: z
    .enum(SCHEDULE_ORIGINS)
    .describe('code: a program declares it when it starts; runtime: it was stored with an upsert'),
  state: z
    .enum(['active', 'paused', 'undeclared', 'ended'])
    .describe('undeclared: no running program declares it, so its ticks do not run; ended: it has no further tick'),
  cron: text.nullable().describe('null if it has a period'),
  every: text.nullable().describe('its period, as elapsed time; null if it has an expression'),
  timezone: text,
  from: timeOrNull.describe('no tick before this'),
  until: timeOrNull.describe('no tick after this'),
  jitter: text.nullable().describe('a run begins up to this long after its tick'),
  count: count.nullable().describe('how many runs it has in all; null if there is no end'),
  counted: count.describe('how many of these runs were made'),
  type: name,
  input: anything.describe('null if the program makes it for each run'),
  missed: z.enum(MISSED_RULES),
  owner: name.nullable(),
  priority: number,
  nextAt: timeOrNull,
  lastAt: timeOrNull,
  lastJob: z.strictObject({ id, status: status.nullable().describe('null when retention removed the job') }).nullable(),
  runs: count,
  skipped: count,
  problem: z
    .strictObject({ message: text, at: time, retryAt: timeOrNull.describe('when the tick is tried again') })
    .nullable()
    .describe('why the due tick cannot run'),
  paused: z.strictObject({ at: time, actor: name, reason: text }).nullable(),
  declaredAt: time.describe('when its definition last changed'),
  seenAt: time.describe('when a running program last declared it, or when it was last upserted'),
})
export type ScheduleView = z.infer<typeof scheduleSchema>

const scheduleActedSchema = z.strictObject({
  ...done,
  schedule: scheduleSchema.nullable().describe('its current state; null if it was removed or does not exist yet'),
  jobId: id.nullable().describe('job that the trigger made'),
})
type ScheduleActed = z.infer<typeof scheduleActedSchema>

const nameField = z.string().min(1).describe('name of the schedule')

const listSchedules = operation('schedules.list', {
  input: z.strictObject({
    owner: z.string().min(1).optional().describe('only schedules whose jobs have this owner'),
    q: z.string().trim().min(1).max(200).optional().describe('part of the name or of the job type'),
    limit: limitField(LIST_MAX),
    cursor: z.string().min(1).optional().describe('continue after the last page: its nextCursor'),
  }),
  output: z.strictObject({ schedules: z.array(scheduleSchema), nextCursor }),
  run: async ({ store }, { owner, q, limit, cursor }) => {
    const nowMs = await store.nowMs()
    const found = await store.schedules({
      ...(owner !== undefined && { owner }),
      ...(q !== undefined && { q }),
      ...(cursor !== undefined && { afterName: cursor }),
      limit: limit + 1,
    })
    const shown = found.slice(0, limit)
    return {
      schedules: shown.map((schedule) => viewSchedule(schedule, nowMs)),
      nextCursor: found.length > shown.length ? (shown.at(-1)?.name ?? null) : null,
    }
  },
})

const showSchedule = operation('schedules.show', {
  input: z.strictObject({ name: nameField }),
  output: scheduleSchema,
  run: async ({ store }, { name }) => viewSchedule(await neededSchedule(store, name), await store.nowMs()),
})

const upsertSchedule = operation('schedules.upsert', {
  input: z.strictObject({
    name: nameField.describe('name of the schedule, such as report:customer-17'),
    job: z.string().min(1).describe('name of the job type'),
    cron: z.string().min(1).optional().describe("expression: '0 3 * * *'; or give every"),
    every: durationInput.optional().describe("period, as elapsed time: '90s'"),
    timezone: z.string().min(1).optional().describe("time zone of cron, such as 'Europe/Berlin'; default UTC"),
    input: anything.optional().describe('input of every run, as JSON; default {}'),
    from: z.string().min(1).optional().describe("no run before this time: '2026-01-31T08:00:00Z'"),
    until: z.string().min(1).optional().describe('no run after this time'),
    jitter: durationInput.optional().describe("each run begins up to this long after its tick: '5m'"),
    count: z.coerce.number().int().min(1).optional().describe('end after so many runs'),
    missed: z.enum(MISSED_RULES).optional().describe('which missed ticks run after an outage; default once'),
    owner: z.string().min(1).optional().describe('owner of the jobs'),
    priority: z.coerce.number().int().optional().describe('priority of the jobs; default 0'),
    ...actorFields,
  }),
  output: scheduleActedSchema,
  run: async (context, { name, actor, reason, dryRun, ...asked }) => {
    const { store } = context
    const schedule = await context.planSchedule(name, given(asked))
    requireActorAndReason({ actor, reason }, `schedule ${name}`)
    const [before] = await store.schedules({ names: [name] })
    const nowMs = await store.nowMs()
    if (before?.origin === 'code') throw declaredInCode(before, nowMs)
    if (before === undefined && schedule.nextAtMs === null) throw neverRuns(name)
    const standing = before === undefined ? null : viewSchedule(before, nowMs)
    if (dryRun) {
      const would = before === undefined ? 'creates the schedule' : 'changes the schedule, unless it is the same'
      return { isDone: false, did: `Nothing was done. This ${would}.`, schedule: standing, jobId: null }
    }
    const answer = await store.upsertSchedule({ schedule, actor, reason })
    const now = await neededSchedule(store, name)
    // A program declared it after it was read.
    if (answer === 'declared') throw declaredInCode(now, nowMs)
    const view = viewSchedule(now, nowMs)
    const { did, isDone } = UPSERTED[answer]
    const next = view.nextAt === null ? 'It has ended: it has no further tick.' : `Its next tick is at ${view.nextAt}.`
    return { isDone, did: `${did(name)} ${next}`, schedule: view, jobId: null }
  },
})

const UPSERTED = {
  created: { isDone: true, did: (name: string) => `Schedule ${name} is created.` },
  changed: { isDone: true, did: (name: string) => `Schedule ${name} is changed.` },
  same: { isDone: false, did: (name: string) => `Nothing was done: schedule ${name} has this definition.` },
}

const given = <Fields extends object>(fields: Fields): { [Name in keyof Fields]: Exclude<Fields[Name], undefined> } =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never

const neverRuns = (name: string): RedressError =>
  new RedressError('SCHEDULE_INVALID', `The schedule ${name} would never run: it has no tick before its \`until\`.`, {
    action: 'Give a later `until`, or leave it out.',
  })

const scheduleActFields = { name: nameField, ...actorFields }

const act = (kind: ScheduleAct['kind']) =>
  operation(`schedules.${kind}`, {
    input: z.strictObject(scheduleActFields),
    output: scheduleActedSchema,
    run: (context, asked) => actOn(context, asked, kind),
  })

const pauseSchedule = act('pause')
const resumeSchedule = act('resume')
const triggerSchedule = act('trigger')
const removeSchedule = act('remove')

const WOULD: Readonly<Record<ScheduleAct['kind'], string>> = {
  pause: 'pauses it; its ticks are skipped until it is resumed',
  resume: 'resumes it from its next tick',
  trigger: 'submits a job now; its ticks stay unchanged',
  remove: 'removes it',
}

const DID: Readonly<Record<ScheduleAct['kind'], string>> = {
  pause: 'is paused; its ticks are skipped until it is resumed',
  resume: 'is resumed from its next tick',
  trigger: 'runs now',
  remove: 'is removed',
}

/** Of a removed schedule that a program declared. */
const COMES_BACK = '; it comes back when a program that declares it starts'

async function actOn(
  context: Context,
  { name, actor, reason, dryRun }: z.output<z.ZodObject<typeof scheduleActFields>>,
  kind: ScheduleAct['kind'],
): Promise<ScheduleActed> {
  const { store } = context
  const before = await neededSchedule(store, name)
  requireActorAndReason({ actor, reason }, `schedule ${name}`)
  if (kind === 'remove') refuseDeclared(before, await store.nowMs())
  const more = kind === 'remove' && before.origin === 'code' ? COMES_BACK : ''
  const job = kind === 'trigger' ? await jobNow(context, before) : null
  const nowMs = await store.nowMs()
  if (dryRun) {
    const did = `Nothing was done. This ${WOULD[kind]}${more}.`
    return { isDone: false, did, schedule: viewSchedule(before, nowMs), jobId: null }
  }
  const todo: ScheduleAct = job === null ? { kind: kind as Exclude<typeof kind, 'trigger'> } : { kind: 'trigger', job }
  const answer = await store.actOnSchedule({ name, actor, reason, act: todo })
  // Another caller removed it after it was read.
  if (answer === 'not-found') await neededSchedule(store, name)
  const [now] = await store.schedules({ names: [name] })
  const schedule = now === undefined ? null : viewSchedule(now, nowMs)
  if (answer === 'done')
    return { isDone: true, did: `Schedule ${name} ${DID[kind]}${more}.`, schedule, jobId: job?.id ?? null }
  return { isDone: false, did: `Nothing was done: schedule ${name} ${standing(now)}.`, schedule, jobId: null }
}

/** Its programs would not notice, and without a tick to take they would run nothing until they are started anew. */
function refuseDeclared(schedule: StoredSchedule, nowMs: number): void {
  if (schedule.origin === 'runtime' || isObsolete(schedule, nowMs)) return
  throw declaredInCode(schedule, nowMs)
}

function declaredInCode(schedule: StoredSchedule, nowMs: number): RedressError {
  const { name, seenAtMs } = schedule
  const message = `A program declares the schedule ${name}; it was last seen at ${isoTime(seenAtMs)}.`
  if (!isObsolete(schedule, nowMs)) return new RedressError('SCHEDULE_DECLARED', message)
  return new RedressError('SCHEDULE_DECLARED', message, {
    action: `No running program declares it any more: remove it with \`redress schedules remove ${name}\` first.`,
  })
}

const isObsolete = ({ seenAtMs }: StoredSchedule, nowMs: number): boolean => nowMs - seenAtMs > SEEN_MS_MAX

function standing(schedule: StoredSchedule | undefined): string {
  const paused = schedule?.paused
  if (!paused) return 'is not paused'
  return `was already paused by ${paused.actor} at ${isoTime(paused.atMs)}: ${paused.reason}`
}

async function jobNow({ store, prepare, inputOfSchedule }: Context, schedule: StoredSchedule): Promise<NewJob> {
  const { name, type, payload, owner, priority } = schedule
  const tick = { schedule: name, scheduledFor: isoTime(await store.nowMs()), isTriggered: true }
  const input = await (inputOfSchedule?.(tick, payload) ?? (payload === null ? undefined : JSON.parse(payload)))
  if (input === undefined) {
    throw new RedressError('SCHEDULE_INVALID', `Only the program that declares schedule ${name} can make its input.`, {
      action: `Call app.schedules.trigger() in that program, or submit a job of type ${type}.`,
    })
  }
  return prepare(type, input, { priority, ...(owner !== null && { owner }) })
}

async function neededSchedule(store: Store, name: string): Promise<StoredSchedule> {
  const [schedule] = await store.schedules({ names: [name] })
  if (schedule !== undefined) return schedule
  const known = (await store.schedules({ limit: KNOWN_MAX + 1 })).map((one) => one.name)
  const more = known.length > KNOWN_MAX ? ', ...' : ''
  const names = known.slice(0, KNOWN_MAX).join(', ') || 'none'
  throw new RedressError('SCHEDULE_NOT_FOUND', `There is no schedule ${name}; known schedules: ${names}${more}.`)
}

function viewSchedule(schedule: StoredSchedule, nowMs: number): ScheduleView {
  const { name, origin, cron, everyMs, timezone, jitterMs, count, counted, type, payload, missed } = schedule
  const { owner, priority, lastJob, runs, skipped, problem, paused, heldUntilMs } = schedule
  return {
    name,
    origin,
    state: stateOf(schedule, nowMs),
    cron,
    every: everyMs === null ? null : exactMs(everyMs),
    timezone,
    from: isoTimeOrNull(schedule.fromMs),
    until: isoTimeOrNull(schedule.untilMs),
    jitter: jitterMs === 0 ? null : exactMs(jitterMs),
    count,
    counted,
    type,
    input: payload === null ? null : JSON.parse(payload),
    missed,
    owner,
    priority,
    nextAt: isoTimeOrNull(schedule.nextAtMs),
    lastAt: isoTimeOrNull(schedule.lastAtMs),
    lastJob,
    runs,
    skipped,
    problem: problem && {
      message: problem.message,
      at: isoTime(problem.atMs),
      retryAt: heldUntilMs > nowMs ? isoTime(heldUntilMs) : null,
    },
    paused: paused && { at: isoTime(paused.atMs), actor: paused.actor, reason: paused.reason },
    declaredAt: isoTime(schedule.declaredAtMs),
    seenAt: isoTime(schedule.seenAtMs),
  }
}

function stateOf(schedule: StoredSchedule, nowMs: number): ScheduleView['state'] {
  if (schedule.nextAtMs === null) return 'ended'
  if (schedule.origin === 'code' && isObsolete(schedule, nowMs)) return 'undeclared'
  return schedule.paused === null ? 'active' : 'paused'
}

export const scheduleOperations = {
  'schedules.list': listSchedules,
  'schedules.show': showSchedule,
  'schedules.upsert': upsertSchedule,
  'schedules.pause': pauseSchedule,
  'schedules.resume': resumeSchedule,
  'schedules.trigger': triggerSchedule,
  'schedules.remove': removeSchedule,
}
