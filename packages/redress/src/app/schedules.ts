import { createHash } from 'node:crypto'
import { RedressError } from '../core/errors.ts'
import { CATCH_UP_MAX, type DueTicks, MISSED_RULES, type MissedRule, planTicks } from '../core/schedule.ts'
import { DAY_MS, isoTime } from '../core/text/duration.ts'
import { isName } from '../core/text/names.ts'
import { redactText } from '../core/text/redact.ts'
import { type CronTicks, cronTicks } from '../runtime/cron.ts'
import type { StoredSchedule } from '../store/contract/schedules.ts'
import type { NewJob, Store } from '../store/contract/store.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'
import type { JobType } from './jobs/job-type.ts'
import { newJob, packPayload } from './jobs/submission.ts'
export interface ScheduleDefinition<Input> {
  /** Five fields (minute hour day month weekday), six with seconds first, or a nickname such as `@daily`. */
  cron: string
  /** A name of the IANA list; 'UTC' when left out, and never the machine's own. */
  timezone?: string
  /** A job type, or its name. */
  job: JobType<Input> | string
  /** The input of every run, or a function that makes it for each; `{}` when left out. */
  input?: NoInfer<Input> | ((tick: ScheduleTick) => NoInfer<Input> | Promise<NoInfer<Input>>)
  /** Which ticks run after an outage: none, one for all of them, or each (at most 100). */
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

/** The schedules that a program declares. */
export class DeclaredSchedules {
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
}

const parsed = new Map<string, CronTicks>()
const PARSED_MAX = 1_000

/** Reading an expression is dear, and the same few are asked for again and again. */
function ticksOf(cron: string, timezone: string): CronTicks {
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

/** Every error of a declaration names its schedule. */
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

const LOOK_MS = 250
/** How often changes of other processes are read, however far off the next tick is. */
const LOOK_AGAIN_MS_MAX = 5_000
/** A tick whose job cannot be made is tried again after this long, then after twice as long, and so on. */
const HOLD_MS = 10_000
const HOLD_MS_MAX = 300_000
/** An input that takes longer would hold up every other schedule of this program. */
const INPUT_MS_MAX = 30_000
/** A next tick that is so much later than it should be is none that ran already. */
const TOO_FAR_MS = DAY_MS
const SEEN_EVERY_MS = 60_000
/** Missed ticks are counted one by one up to here; beyond, that there were more is all that is said. */
const COUNT_MAX = 1_000

/** Takes the ticks of the schedules that this program declares. Any number of processes may do so at once. */
export class ScheduleTicker implements Duty {
  readonly name = 'schedules'
  readonly everyMs = LOOK_MS
  readonly #host: AppHost
  readonly #schedules: DeclaredSchedules
  readonly #held = new Map<string, { untilMonoMs: number; ms: number }>()
  #lookAt = { monoMs: 0, wallMs: 0, names: 0 }
  #seenMonoMs = 0

  constructor(host: AppHost, schedules: DeclaredSchedules) {
    this.#host = host
    this.#schedules = schedules
  }

  readonly run = async (): Promise<void> => {
    const { names } = this.#schedules
    if (names.length === 0 || !this.#isTimeToLook(names)) return
    const store = await this.#host.store()
    await this.#showThatWeAreHere(store, names)
    const nowMs = await store.nowMs()
    for (const schedule of await store.schedules({ names })) {
      const { name, nextAtMs } = schedule
      if (nextAtMs === null || this.#isHeld(name)) continue
      if (nextAtMs <= nowMs) await this.#take(store, schedule, nextAtMs, nowMs)
      else if (nextAtMs > nowMs + TOO_FAR_MS) await this.#bringBack(store, schedule, nextAtMs, nowMs)
    }
    this.#lookLater(names, await this.nextAtMs(), await store.nowMs())
  }

  readonly nextAtMs = async (): Promise<number | null> => {
    const { names } = this.#schedules
    if (names.length === 0) return null
    const store = await this.#host.store()
    const nowMs = await store.nowMs()
    const times = (await store.schedules({ names })).flatMap(({ name, nextAtMs }) => {
      if (nextAtMs === null) return []
      const heldMs = (this.#held.get(name)?.untilMonoMs ?? 0) - this.#host.clock.monoMs()
      return [Math.max(nextAtMs, heldMs > 0 ? nowMs + heldMs : 0)]
    })
    return times.length === 0 ? null : Math.min(...times)
  }

  async #take(store: Store, schedule: StoredSchedule, dueAtMs: number, nowMs: number): Promise<void> {
    const { name, cron, timezone, missed, revision, paused, resumedAtMs } = schedule
    const { clock, log } = this.#host
    try {
      // The stored expression, not ours: a newer version of this program may have declared another one.
      const ticks = ticksOf(cron, timezone)
      const due = dueTicks(ticks, dueAtMs, nowMs)
      const plan = planTicks(due, { missed, nowMs, isPaused: paused !== null, resumedAtMs })
      const runs: { atMs: number; job: NewJob }[] = []
      for (const atMs of plan.runs) runs.push({ atMs, job: await this.#jobOf(schedule, atMs) })
      const { skipped, isAtLeast, because } = plan
      const taken = await store.tickSchedule({
        name,
        expect: { revision, nextAtMs: dueAtMs },
        runs,
        skipped,
        because: isAtLeast && because !== null ? `${because}; there were more, which were not counted` : because,
        nextAtMs: ticks.nextMs(nowMs),
      })
      this.#held.delete(name)
      if (taken === 'taken' && skipped > 0 && paused === null) {
        log.warn({ schedule: name, skipped, ran: runs.length, because }, 'ticks of a schedule were skipped')
      }
    } catch (error) {
      if (error instanceof RedressError && error.code.startsWith('STORE_')) throw error
      // Nothing is lost: the tick stays due. It must not be tried again every moment, though.
      const ms = Math.min(HOLD_MS_MAX, (this.#held.get(name)?.ms ?? HOLD_MS / 2) * 2)
      this.#held.set(name, { untilMonoMs: clock.monoMs() + ms, ms })
      const problem = redactText(error instanceof RedressError ? `${error.code}: ${error.message}` : String(error))
      log.error({ schedule: name, err: error }, 'a tick of a schedule cannot be taken; will try again')
      await store.reportSchedule({ name, problem })
    }
  }

  /**
   * The clock was wrong, ran ahead, and was set back: the next tick may be years away. A tick that comes again finds the
   * job that it made.
   */
  async #bringBack(store: Store, { name, cron, timezone, revision }: StoredSchedule, dueAtMs: number, nowMs: number) {
    const nextAtMs = ticksOf(cron, timezone).nextMs(nowMs)
    if (nextAtMs === null || dueAtMs <= nextAtMs + TOO_FAR_MS) return
    const expect = { revision, nextAtMs: dueAtMs }
    await store.tickSchedule({ name, expect, runs: [], skipped: 0, because: null, nextAtMs })
    this.#host.log.warn({ schedule: name, from: isoTime(dueAtMs), to: isoTime(nextAtMs) }, 'the clock was set back')
  }

  async #jobOf({ name, type, payload, owner, priority }: StoredSchedule, atMs: number): Promise<NewJob> {
    const tick = { schedule: name, scheduledFor: isoTime(atMs), isTriggered: false }
    const input = await this.#inTime(this.#schedules.inputOf(tick, payload))
    const options = { id: tickId(name, atMs), priority, ...(owner !== null && { owner }) }
    return this.#host.prepare(type, input, options)
  }

  async #inTime<T>(making: Promise<T>): Promise<T> {
    const { promise: late, reject } = Promise.withResolvers<never>()
    const tooLate = new Error(`its input was not made within ${INPUT_MS_MAX / 1_000} s`)
    const timer = this.#host.clock.setTimer(INPUT_MS_MAX, () => reject(tooLate))
    try {
      return await Promise.race([making, late])
    } finally {
      timer.cancel()
    }
  }

  #isHeld(name: string): boolean {
    return (this.#held.get(name)?.untilMonoMs ?? 0) > this.#host.clock.monoMs()
  }

  /** Between ticks the store is left alone. The wall clock is compared too, because it can be set. */
  #isTimeToLook(names: readonly string[]): boolean {
    const { clock } = this.#host
    const { monoMs, wallMs, names: known } = this.#lookAt
    return clock.monoMs() >= monoMs || clock.nowMs() >= wallMs || names.length !== known
  }

  #lookLater(names: readonly string[], nextAtMs: number | null, nowMs: number): void {
    const { clock } = this.#host
    const waitMs = Math.min(LOOK_AGAIN_MS_MAX, Math.max(0, (nextAtMs ?? Number.POSITIVE_INFINITY) - nowMs))
    this.#lookAt = { monoMs: clock.monoMs() + waitMs, wallMs: clock.nowMs() + waitMs, names: names.length }
  }

  async #showThatWeAreHere(store: Store, names: readonly string[]): Promise<void> {
    const monoMs = this.#host.clock.monoMs()
    if (monoMs < this.#seenMonoMs + SEEN_EVERY_MS) return
    this.#seenMonoMs = monoMs
    await store.seeSchedules({ names })
  }
}

function dueTicks(ticks: CronTicks, dueAtMs: number, nowMs: number): DueTicks {
  const newest = ticks.newestMs(nowMs, CATCH_UP_MAX).filter((tickMs) => tickMs >= dueAtMs)
  // The rules of a zone were changed after the tick was worked out: it was promised, so it counts.
  if (newest.length === 0) return { newest: [dueAtMs], count: 1, isAtLeast: false }
  if (newest.length < CATCH_UP_MAX) return { newest, count: newest.length, isAtLeast: false }
  let count = 1
  for (let tickMs = ticks.nextMs(dueAtMs); tickMs !== null && tickMs <= nowMs; tickMs = ticks.nextMs(tickMs)) {
    if (++count >= COUNT_MAX) return { newest, count, isAtLeast: true }
  }
  return { newest, count, isAtLeast: false }
}

/** The same for the same tick in every process: a job that was submitted before an unknown commit is found again. */
export function tickId(name: string, atMs: number): string {
  const time = atMs.toString(16).padStart(12, '0')
  const hash = createHash('sha256').update(`schedule ${name} ${atMs}`).digest('hex')
  // Version 8: ours to fill. The time comes first, so that ids of later ticks are higher.
  return `${time.slice(0, 8)}-${time.slice(8, 12)}-8${hash.slice(0, 3)}-a${hash.slice(3, 6)}-${hash.slice(6, 18)}`
}
