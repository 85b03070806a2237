import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { MISSED_RULES } from '../../core/schedule.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { anything, count, done, id, name, number, status, text, time, timeOrNull } from '../../core/views/fields.ts'
import type { ScheduleAct, StoredSchedule } from '../../store/contract/schedules.ts'
import type { NewJob, Store } from '../../store/contract/store.ts'
import { actorFields, requireActorAndReason } from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'

/** A running program renews its declarations every minute; after three missed minutes, none counts. */
const SEEN_MS_MAX = 180_000

const scheduleSchema = z.strictObject({
  name,
  state: z
    .enum(['active', 'paused', 'undeclared', 'ended'])
    .describe('undeclared: no running program declares it, so its ticks do not run'),
  cron: text,
  timezone: text,
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
  problem: z.strictObject({ message: text, at: time }).nullable().describe('why the due tick cannot run'),
  paused: z.strictObject({ at: time, actor: name, reason: text }).nullable(),
  declaredAt: time,
  seenAt: time.describe('when a running program last declared it'),
})
export type ScheduleView = z.infer<typeof scheduleSchema>

const scheduleActedSchema = z.strictObject({
  ...done,
  schedule: scheduleSchema.nullable().describe('its current state; null if it was removed'),
  jobId: id.nullable().describe('job that the trigger made'),
})
type ScheduleActed = z.infer<typeof scheduleActedSchema>

const nameField = z.string().min(1).describe('name of the schedule')

const listSchedules = operation('schedules.list', {
  input: z.strictObject({}),
  output: z.strictObject({ schedules: z.array(scheduleSchema) }),
  run: async ({ store }) => {
    const nowMs = await store.nowMs()
    return { schedules: (await store.schedules()).map((schedule) => viewSchedule(schedule, nowMs)) }
  },
})

const showSchedule = operation('schedules.show', {
  input: z.strictObject({ name: nameField }),
  output: scheduleSchema,
  run: async ({ store }, { name }) => viewSchedule(await neededSchedule(store, name), await store.nowMs()),
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
  remove: 'removes it; it comes back when a program that declares it starts',
}

const DID: Readonly<Record<ScheduleAct['kind'], string>> = {
  pause: 'is paused; its ticks are skipped until it is resumed',
  resume: 'is resumed from its next tick',
  trigger: 'runs now',
  remove: 'is removed; it comes back when a program that declares it starts',
}

async function actOn(
  context: Context,
  { name, actor, reason, dryRun }: z.output<z.ZodObject<typeof scheduleActFields>>,
  kind: ScheduleAct['kind'],
): Promise<ScheduleActed> {
  const { store } = context
  const before = await neededSchedule(store, name)
  requireActorAndReason({ actor, reason }, `schedule ${name}`)
  if (kind === 'remove') refuseDeclared(before, await store.nowMs())
  const job = kind === 'trigger' ? await jobNow(context, before) : null
  const nowMs = await store.nowMs()
  if (dryRun) {
    const did = `Nothing was done. This ${WOULD[kind]}.`
    return { isDone: false, did, schedule: viewSchedule(before, nowMs), jobId: null }
  }
  const todo: ScheduleAct = job === null ? { kind: kind as Exclude<typeof kind, 'trigger'> } : { kind: 'trigger', job }
  const answer = await store.actOnSchedule({ name, actor, reason, act: todo })
  // Another caller removed it after it was read.
  if (answer === 'not-found') await neededSchedule(store, name)
  const [now] = await store.schedules({ names: [name] })
  const schedule = now === undefined ? null : viewSchedule(now, nowMs)
  if (answer === 'done')
    return { isDone: true, did: `Schedule ${name} ${DID[kind]}.`, schedule, jobId: job?.id ?? null }
  return { isDone: false, did: `Nothing was done: schedule ${name} ${standing(now)}.`, schedule, jobId: null }
}

/** Its programs would not notice, and without a tick to take they would run nothing until they are started anew. */
function refuseDeclared(schedule: StoredSchedule, nowMs: number): void {
  const { name, state, seenAt } = viewSchedule(schedule, nowMs)
  if (state !== 'active' && state !== 'paused') return
  throw new RedressError('SCHEDULE_DECLARED', `A program declares the schedule ${name}; it was last seen at ${seenAt}.`)
}

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
  const known = (await store.schedules()).map((one) => one.name).join(', ') || 'none'
  throw new RedressError('SCHEDULE_NOT_FOUND', `There is no schedule ${name}; known schedules: ${known}.`)
}

function viewSchedule(schedule: StoredSchedule, nowMs: number): ScheduleView {
  const { name, cron, timezone, type, payload, missed, owner, priority, lastJob, runs, skipped } = schedule
  const { problem, paused } = schedule
  return {
    name,
    state: stateOf(schedule, nowMs),
    cron,
    timezone,
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
    problem: problem && { message: problem.message, at: isoTime(problem.atMs) },
    paused: paused && { at: isoTime(paused.atMs), actor: paused.actor, reason: paused.reason },
    declaredAt: isoTime(schedule.declaredAtMs),
    seenAt: isoTime(schedule.seenAtMs),
  }
}

function stateOf({ paused, nextAtMs, seenAtMs }: StoredSchedule, nowMs: number): ScheduleView['state'] {
  if (nextAtMs === null) return 'ended'
  if (nowMs - seenAtMs > SEEN_MS_MAX) return 'undeclared'
  return paused === null ? 'active' : 'paused'
}

export const scheduleOperations = {
  'schedules.list': listSchedules,
  'schedules.show': showSchedule,
  'schedules.pause': pauseSchedule,
  'schedules.resume': resumeSchedule,
  'schedules.trigger': triggerSchedule,
  'schedules.remove': removeSchedule,
}
