import { RedressError } from '../core/errors.ts'
import { isName } from '../core/name.ts'
import { MISSED_RULES, type MissedRule } from '../core/schedule.ts'
import type { ScheduleActed } from '../operations/schedule-acts.ts'
import type { ScheduleView } from '../operations/schedules.ts'
import { type CronTicks, cronTicks } from '../runtime/cron.ts'
import type { By, Store } from '../store/store.ts'
import type { AppHost } from './host.ts'
import type { JobType } from './job-type.ts'
import { packPayload } from './read-input.ts'
import { newJob } from './submission.ts'

export interface ScheduleDefinition<Input> {
  /** Five fields (minute hour day month weekday), six with seconds first, or a nickname such as `@daily`. */
  cron: string
  /** A name of the IANA list; 'UTC' when left out, and never the machine's own. */
  timezone?: string
  /** A job type, or its name. */
  job: JobType<Input> | string
  /** The input of every run, or a function that makes it for each; `{}` when left out. */
  input?: NoInfer<Input> | ((tick: ScheduleTick) => NoInfer<Input> | Promise<NoInfer<Input>>)
  /** What becomes of ticks that no process was there for: none runs, one for all of them, or each (at most 100). */
  missed?: MissedRule
  owner?: string
  priority?: number
}

/** What an input is made for. */
export interface ScheduleTick {
  schedule: string
  /** ISO 8601 in UTC: when the run was due, which may be some time ago. */
  scheduledFor: string
  /** A person asked for it, beside the schedule. */
  isTriggered: boolean
}

export interface Declared {
  type: string
  payload: string | null
  makeInput: ((tick: ScheduleTick) => unknown) | null
  cron: string
  timezone: string
  missed: MissedRule
  owner: string | null
  priority: number
}

// biome-ignore lint/suspicious/noExplicitAny: whether the input fits the job type is checked where `schedule` is called
type AnyDefinition = ScheduleDefinition<any>

const FIELDS = ['cron', 'timezone', 'job', 'input', 'missed', 'owner', 'priority']
const INPUT_BYTES_MAX = 1024 * 1024

/** The schedules that a program declares, and what can be done with those that are stored. */
export class Schedules {
  readonly #host: AppHost
  readonly #declared = new Map<string, Declared>()

  constructor(host: AppHost) {
    this.#host = host
  }

  get names(): string[] {
    return [...this.#declared.keys()]
  }

  declare(name: string, definition: AnyDefinition): void {
    if (!isName(name)) {
      throw invalid(
        `${JSON.stringify(name)} is not a name for a schedule: begin with a letter, then letters, digits and . _ : -`,
      )
    }
    if (this.#declared.has(name)) throw invalid(`The schedule ${name} was declared already`, 'Give each its own name.')
    this.#declared.set(
      name,
      naming(name, () => this.#checked(definition)),
    )
  }

  #checked(definition: AnyDefinition): Declared {
    // A misspelt time zone must not become UTC in silence.
    const stray = Object.keys(definition ?? {}).find((field) => !FIELDS.includes(field))
    if (stray !== undefined) throw invalid(`${stray}: a schedule has no such field; it has ${FIELDS.join(', ')}`)
    const { cron, timezone = 'UTC', job, input = {}, missed = 'once', ...options } = definition ?? {}
    const type = typeof job === 'string' ? job : job?.name
    if (!isName(type)) throw invalid('job: it must be a job type, or the name of one')
    if (!MISSED_RULES.includes(missed)) {
      throw invalid(`missed: it must be one of ${MISSED_RULES.join(', ')}, not ${JSON.stringify(missed)}`)
    }
    if (ticksOf(cron, timezone).nextMs(this.#host.clock.nowMs()) === null) {
      throw invalid(`cron: ${JSON.stringify(cron)} never comes`)
    }
    const makeInput = typeof input === 'function' ? (input as Declared['makeInput']) : null
    const payload = makeInput === null ? packPayload(type, input, INPUT_BYTES_MAX) : null
    const { owner, priority } = newJob(type, '', { ...given(options) }, () => '')
    return { type, payload, makeInput, cron: cron.trim(), timezone, missed, owner, priority }
  }

  /** Makes what was declared known to the store. */
  async register(store: Store): Promise<void> {
    if (this.#declared.size === 0) return
    const nowMs = await store.nowMs()
    const schedules = [...this.#declared].flatMap(([name, { makeInput: _, ...declared }]) => {
      const nextAtMs = ticksOf(declared.cron, declared.timezone).nextMs(nowMs)
      return nextAtMs === null ? [] : [{ name, ...declared, nextAtMs }]
    })
    await store.declareSchedules({ schedules })
  }

  /** The input of a run; undefined where another program declares the schedule, and so makes the input. */
  async inputOf(tick: ScheduleTick, payload: string | null): Promise<unknown> {
    if (payload !== null) return JSON.parse(payload) as unknown
    return this.#declared.get(tick.schedule)?.makeInput?.(tick)
  }

  async list(): Promise<ScheduleView[]> {
    return (await this.#host.perform('schedules.list', {})).schedules
  }

  /** null when there is none of this name. */
  async find(name: string): Promise<ScheduleView | null> {
    return (await this.list()).find((schedule) => schedule.name === name) ?? null
  }

  pause(name: string, by: By): Promise<ScheduleActed> {
    return this.#host.perform('schedules.pause', { name, ...by })
  }

  resume(name: string, by: By): Promise<ScheduleActed> {
    return this.#host.perform('schedules.resume', { name, ...by })
  }

  /** Runs it now, beside its ticks. */
  trigger(name: string, by: By): Promise<ScheduleActed> {
    return this.#host.perform('schedules.trigger', { name, ...by })
  }

  remove(name: string, by: By): Promise<ScheduleActed> {
    return this.#host.perform('schedules.remove', { name, ...by })
  }
}

const parsed = new Map<string, CronTicks>()
const PARSED_MAX = 1_000

/** Reading an expression is dear, and the same few are asked for again and again. */
export function ticksOf(cron: string, timezone: string): CronTicks {
  const key = JSON.stringify([cron, timezone])
  let ticks = parsed.get(key)
  if (ticks === undefined) {
    ticks = cronTicks(cron, timezone)
    if (parsed.size >= PARSED_MAX) parsed.clear()
    parsed.set(key, ticks)
  }
  return ticks
}

const given = (options: object): object =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

const invalid = (message: string, action?: string): RedressError =>
  new RedressError('SCHEDULE_INVALID', `${message}.`, action === undefined ? {} : { action })

/** Whatever is wrong with a declaration, it says with which. */
function naming(name: string, check: () => Declared): Declared {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof RedressError)) throw error
    throw new RedressError('SCHEDULE_INVALID', `The schedule ${name} cannot be declared: ${error.message}`, {
      action: error.action,
      cause: error,
    })
  }
}
