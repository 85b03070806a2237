import { createHash } from 'node:crypto'
import { DAY_MS } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { isoTime } from '../core/iso-time.ts'
import { redactText } from '../core/redact.ts'
import { CATCH_UP_MAX, type DueTicks, planTicks } from '../core/schedule.ts'
import type { CronTicks } from '../runtime/cron.ts'
import type { StoredSchedule } from '../store/schedules.ts'
import type { NewJob, Store } from '../store/store.ts'
import type { Duty } from '../worker/duty.ts'
import type { AppHost } from './host.ts'
import { type Schedules, ticksOf } from './schedules.ts'

const LOOK_MS = 250
/** What other processes may have changed is looked for this often, however far off the next tick is. */
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
  readonly #schedules: Schedules
  readonly #held = new Map<string, { untilMonoMs: number; ms: number }>()
  #lookAt = { monoMs: 0, wallMs: 0, names: 0 }
  #seenMonoMs = 0

  constructor(host: AppHost, schedules: Schedules) {
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

  /** Between ticks the store is left alone. The wall clock is compared, too: somebody may set it. */
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
