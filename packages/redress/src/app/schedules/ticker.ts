import { RedressError } from '../../core/errors.ts'
import { dueTicks, holdMs, jitterDelayMs, planTicks } from '../../core/schedule.ts'
import { isoTime } from '../../core/text/duration.ts'
import { redactText } from '../../core/text/redact.ts'
import type { Chance } from '../../runtime/chance.ts'
import type { DueSchedule, ScheduleTaken } from '../../store/contract/schedules.ts'
import type { NewJob, Store } from '../../store/contract/store.ts'
import type { Duty } from '../../worker/duty.ts'
import type { AppHost } from '../host.ts'
import type { DeclaredSchedules } from './declared.ts'
import { tickChance, tickId, ticksOf } from './ticks.ts'

const LOOK_MS = 250
/** How often changes of other processes are read, however far off the next tick is. */
const LOOK_AGAIN_MS_MAX = 1_000
/** How many due schedules one look reads. */
const PAGE_MAX = 100
/** How many schedules of a full page one process takes. Several processes see the same page: each takes a random part. */
const PART_OF_PAGE = 25
/** How many jobs one transaction submits, unless a single schedule has more. */
const RUNS_TOGETHER_MAX = 100
/** How many pages one run takes before the other duties of the worker get their turn. */
const PAGES_PER_RUN_MAX = 400
/** An input that takes longer is given up. */
const INPUT_MS_MAX = 30_000
/** How long a look waits for functions that make inputs. Other schedules go on meanwhile. */
const INPUTS_WAIT_MS = 1_000
const SEEN_EVERY_MS = 60_000

interface Planned {
  schedule: DueSchedule
  tick: ScheduleTaken
}

/**
 * Takes the ticks of the runtime schedules, and of those that this program declares. Any number of processes may do so at
 * once.
 */
export class ScheduleTicker implements Duty {
  readonly name = 'schedules'
  readonly everyMs = LOOK_MS
  readonly #host: AppHost
  readonly #schedules: DeclaredSchedules
  readonly #chance: Chance
  /** Ticks whose inputs are being made by functions, by the names of their schedules. */
  readonly #making = new Map<string, Promise<void>>()
  #lookAt = { monoMs: 0, wallMs: 0, names: 0 }
  #seenMonoMs = 0

  constructor(host: AppHost, schedules: DeclaredSchedules, chance: Chance) {
    this.#host = host
    this.#schedules = schedules
    this.#chance = chance
  }

  readonly run = async (): Promise<void> => {
    const { names } = this.#schedules
    if (!this.#isTimeToLook(names)) return
    const store = await this.#host.store()
    if (names.length > 0) await this.#showThatWeAreHere(store, names)
    for (let pages = 0; pages < PAGES_PER_RUN_MAX; pages++) {
      const { nowMs, due, astray, nextAtMs } = await store.dueSchedules(this.#asked(PAGE_MAX))
      for (const schedule of astray) await this.#planAgain(store, schedule, nowMs)
      this.#lookLater(due.length > 0 ? nowMs : nextAtMs, nowMs)
      if (due.length === 0) return
      const taken = await this.#take(store, this.#partOf(due), nowMs)
      // Other processes took them, or are doing so now: the next look sees what is left.
      if (taken === 0 && due.length < PAGE_MAX) return
    }
  }

  readonly nextAtMs = async (): Promise<number | null> => {
    const store = await this.#host.store()
    const { nowMs, due, nextAtMs } = await store.dueSchedules(this.#asked(1))
    const atMs = due.length > 0 ? nowMs : nextAtMs
    this.#lookLater(atMs, nowMs)
    return atMs
  }

  #asked(limit: number): { declared: string[]; limit: number } {
    return { declared: this.#schedules.names.filter((name) => !this.#making.has(name)), limit }
  }

  #partOf(due: readonly DueSchedule[]): readonly DueSchedule[] {
    if (due.length < PAGE_MAX) return due
    const first = Math.floor(this.#chance() * (PAGE_MAX / PART_OF_PAGE)) * PART_OF_PAGE
    return due.slice(first, first + PART_OF_PAGE)
  }

  /** Answers with how many were taken or are held from now on. */
  async #take(store: Store, due: readonly DueSchedule[], nowMs: number): Promise<number> {
    let done = 0
    const planned: Planned[] = []
    for (const schedule of due.filter(({ payload }) => payload !== null)) {
      const tick = await this.#plan(store, schedule, nowMs)
      if (tick === null) done++
      else planned.push({ schedule, tick })
    }
    for (const together of inGroups(planned)) done += await this.#takeTogether(store, together)
    const slow = due.filter(({ payload }) => payload === null)
    if (slow.length > 0) await this.#takeSlowly(store, slow, nowMs)
    return done + slow.length
  }

  /** Their inputs come from functions, which may take long: each is taken for itself, and others do not wait for it. */
  async #takeSlowly(store: Store, due: readonly DueSchedule[], nowMs: number): Promise<void> {
    const { clock, log } = this.#host
    for (const schedule of due) {
      const { name } = schedule
      const taking = this.#plan(store, schedule, nowMs)
        .then(async (tick) => void (tick !== null && (await this.#takeTogether(store, [{ schedule, tick }]))))
        .catch((error: unknown) => log.warn({ schedule: name, err: error }, 'a tick was not taken; will try again'))
        .finally(() => this.#making.delete(name))
      this.#making.set(name, taking)
    }
    const { promise: waited, resolve } = Promise.withResolvers<void>()
    const timer = clock.setTimer(INPUTS_WAIT_MS, resolve)
    await Promise.race([Promise.all(this.#making.values()), waited])
    timer.cancel()
  }

  /** null if its tick cannot be taken, and the schedule is held. */
  async #plan(store: Store, schedule: DueSchedule, nowMs: number): Promise<ScheduleTaken | null> {
    const { name, missed, revision, paused, resumedAtMs, nextAtMs: dueAtMs, count, counted } = schedule
    try {
      // The stored timing, not ours: a newer version of this program may have declared another one.
      const ticks = ticksOf(schedule)
      const due = dueTicks(ticks, dueAtMs, nowMs)
      const runsLeft = count === null ? null : Math.max(0, count - counted)
      const plan = planTicks(due, { missed, nowMs, isPaused: paused !== null, resumedAtMs, runsLeft })
      const runs: { atMs: number; job: NewJob }[] = []
      for (const atMs of plan.runs) {
        const jitterMs = jitterDelayMs(schedule.jitterMs, atMs, ticks.nextMs(atMs), tickChance(name, atMs))
        runs.push({ atMs, job: await this.#jobOf(schedule, atMs, Math.max(0, atMs + jitterMs - nowMs)) })
      }
      const { skipped, isAtLeast, because, isLast } = plan
      return {
        name,
        expect: { revision, nextAtMs: dueAtMs },
        runs,
        skipped,
        because: isAtLeast && because !== null ? `${because}; there were more, which were not counted` : because,
        nextAtMs: isLast ? null : ticks.nextMs(nowMs),
      }
    } catch (error) {
      await this.#hold(store, schedule, error)
      return null
    }
  }

  /**
   * In one transaction. If the store refuses it, one of them is the cause (its type is unknown, say): the halves are tried
   * until it is found, so that it does not stop the others.
   */
  async #takeTogether(store: Store, planned: readonly Planned[]): Promise<number> {
    try {
      const answers = await store.tickSchedules({ ticks: planned.map(({ tick }) => tick) })
      const taken = planned.filter((_, i) => answers[i] === 'taken')
      for (const { schedule, tick } of taken) this.#tellSkipped(schedule, tick)
      return taken.length
    } catch (error) {
      if (isOfStore(error)) throw error
      const [first, ...rest] = planned
      if (first === undefined) throw error
      if (rest.length === 0) {
        await this.#hold(store, first.schedule, error)
        return 1
      }
      const middle = Math.ceil(planned.length / 2)
      const before = await this.#takeTogether(store, planned.slice(0, middle))
      return before + (await this.#takeTogether(store, planned.slice(middle)))
    }
  }

  #tellSkipped({ name, paused }: DueSchedule, { skipped, runs, because }: ScheduleTaken): void {
    if (skipped === 0 || paused !== null) return
    this.#host.log.warn({ schedule: name, skipped, ran: runs.length, because }, 'ticks of a schedule were skipped')
  }

  /** Nothing is lost: the tick stays due. It must not be tried again every moment, though, nor be in the way of others. */
  async #hold(store: Store, schedule: DueSchedule, error: unknown): Promise<void> {
    if (isOfStore(error)) throw error
    const { name, revision, nextAtMs } = schedule
    const problem = redactText(error instanceof RedressError ? `${error.code}: ${error.message}` : String(error))
    this.#host.log.error({ schedule: name, err: error }, 'a tick of a schedule cannot be taken; will try again')
    await store.holdSchedule({ name, expect: { revision, nextAtMs }, problem, holdMs: holdMs(schedule.holdMs) })
  }

  /**
   * The clock was wrong, ran ahead, and was set back: the next tick may be years away. A tick that comes again finds the
   * job that it made.
   */
  async #planAgain(store: Store, schedule: DueSchedule, nowMs: number): Promise<void> {
    const { name, revision, nextAtMs: plannedMs } = schedule
    const nextAtMs = ticksOf(schedule).nextMs(nowMs)
    const expect = { revision, nextAtMs: plannedMs }
    await store.tickSchedules({ ticks: [{ name, expect, runs: [], skipped: 0, because: null, nextAtMs }] })
    if (nextAtMs === plannedMs) return
    const to = nextAtMs === null ? null : isoTime(nextAtMs)
    this.#host.log.warn({ schedule: name, from: isoTime(plannedMs), to }, 'the clock was set back')
  }

  async #jobOf({ name, type, payload, owner, priority }: DueSchedule, atMs: number, delayMs: number): Promise<NewJob> {
    const tick = { schedule: name, scheduledFor: isoTime(atMs), isTriggered: false }
    const input = await this.#inTime(this.#schedules.inputOf(tick, payload))
    const options = { id: tickId(name, atMs), priority, delay: delayMs, ...(owner !== null && { owner }) }
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

  /** Between ticks the store is left alone. The wall clock is compared too, because it can be set. */
  #isTimeToLook(names: readonly string[]): boolean {
    const { clock } = this.#host
    const { monoMs, wallMs, names: known } = this.#lookAt
    return clock.monoMs() >= monoMs || clock.nowMs() >= wallMs || names.length !== known
  }

  #lookLater(nextAtMs: number | null, nowMs: number): void {
    const { clock } = this.#host
    const waitMs = Math.min(LOOK_AGAIN_MS_MAX, Math.max(0, (nextAtMs ?? Number.POSITIVE_INFINITY) - nowMs))
    const names = this.#schedules.names.length
    this.#lookAt = { monoMs: clock.monoMs() + waitMs, wallMs: clock.nowMs() + waitMs, names }
  }

  async #showThatWeAreHere(store: Store, names: readonly string[]): Promise<void> {
    const monoMs = this.#host.clock.monoMs()
    if (monoMs < this.#seenMonoMs + SEEN_EVERY_MS) return
    this.#seenMonoMs = monoMs
    await store.seeSchedules({ names })
  }
}

const isOfStore = (error: unknown): boolean => error instanceof RedressError && error.code.startsWith('STORE_')

function inGroups(planned: readonly Planned[]): Planned[][] {
  const groups: Planned[][] = []
  let runs = Number.POSITIVE_INFINITY
  for (const one of planned) {
    if (runs + one.tick.runs.length > RUNS_TOGETHER_MAX) {
      groups.push([])
      runs = 0
    }
    groups.at(-1)?.push(one)
    runs += one.tick.runs.length
  }
  return groups
}
