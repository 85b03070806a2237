import { z } from 'zod'
import { RedressError } from '../core/errors.ts'
import { isoTime } from '../core/iso-time.ts'
import type { ScheduleAct, StoredSchedule } from '../store/schedules.ts'
import type { NewJob } from '../store/store.ts'
import { checkBy } from './by.ts'
import { actFields, type Context, operation } from './operation.ts'
import { scheduleActedSchema } from './outputs/schedule.ts'
import { nameField, neededSchedule, type ScheduleView, viewSchedule } from './schedules.ts'

export interface ScheduleActed {
  isDone: boolean
  /** One sentence: what was done, or with `dryRun` what would be. */
  did: string
  /** As it stands now; null when it was removed. */
  schedule: ScheduleView | null
  /** The job that a trigger made. */
  jobId: string | null
}

const { id: _, ...byFields } = actFields
const scheduleActFields = { name: nameField, ...byFields }

const act = (kind: ScheduleAct['kind']) =>
  operation(`schedules.${kind}`, {
    input: z.strictObject(scheduleActFields),
    output: scheduleActedSchema,
    run: (context, asked) => actOn(context, asked, kind),
  })

export const pauseSchedule = act('pause')
export const resumeSchedule = act('resume')
export const triggerSchedule = act('trigger')
export const removeSchedule = act('remove')

interface Asked {
  name: string
  actor: string
  reason: string
  dryRun: boolean
}

const WOULD: Readonly<Record<ScheduleAct['kind'], string>> = {
  pause: 'stops its runs; ticks that come meanwhile are skipped',
  resume: 'lets it run again, from its next tick on',
  trigger: 'submits a job now; its ticks stay as they are',
  remove: 'removes it; it comes back when a program that declares it starts',
}

const DID: Readonly<Record<ScheduleAct['kind'], string>> = {
  pause: 'is paused: ticks that come meanwhile are skipped',
  resume: 'runs again, from its next tick on',
  trigger: 'runs now',
  remove: 'is removed; it comes back when a program that declares it starts',
}

async function actOn(
  context: Context,
  { name, actor, reason, dryRun }: Asked,
  kind: ScheduleAct['kind'],
): Promise<ScheduleActed> {
  const { store } = context
  const before = await neededSchedule(store, name)
  checkBy({ actor, reason }, `schedule ${name}`)
  if (kind === 'remove') refuseDeclared(before, await store.nowMs())
  const job = kind === 'trigger' ? await jobNow(context, before) : null
  const nowMs = await store.nowMs()
  if (dryRun) {
    const did = `Nothing was done. This ${WOULD[kind]}.`
    return { isDone: false, did, schedule: viewSchedule(before, nowMs), jobId: null }
  }
  const todo: ScheduleAct = job === null ? { kind: kind as Exclude<typeof kind, 'trigger'> } : { kind: 'trigger', job }
  const answer = await store.actOnSchedule({ name, actor, reason, act: todo })
  // Somebody removed it since we looked.
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
  return `was paused already, by ${paused.actor} at ${isoTime(paused.atMs)}: ${paused.reason}`
}

async function jobNow({ store, prepare, inputOfSchedule }: Context, schedule: StoredSchedule): Promise<NewJob> {
  const { name, type, payload, owner, priority } = schedule
  const tick = { schedule: name, scheduledFor: isoTime(await store.nowMs()), isTriggered: true }
  const input = await (inputOfSchedule?.(tick, payload) ?? (payload === null ? undefined : JSON.parse(payload)))
  if (input === undefined) {
    throw new RedressError(
      'SCHEDULE_INVALID',
      `The input of schedule ${name} is made by the program that declares it.`,
      {
        action: `Trigger it there, with app.schedules.trigger(), or submit a job of type ${type} yourself.`,
      },
    )
  }
  return prepare(type, input, { priority, ...(owner !== null && { owner }) })
}
