/** Which missed ticks run after an outage. */
export const MISSED_RULES = ['skip', 'once', 'all'] as const
export type MissedRule = (typeof MISSED_RULES)[number]

/** `code`: a program declares it when it starts. `runtime`: a person or a program stored it with an upsert. */
export const SCHEDULE_ORIGINS = ['code', 'runtime'] as const
export type ScheduleOrigin = (typeof SCHEDULE_ORIGINS)[number]

/** So many runs at most are made up for at once; more would bury the work of today under that of last month. */
export const CATCH_UP_MAX = 100
/** A tick that is taken this late was not missed: processes restart, and a machine may be busy. */
export const LATE_MS_MAX = 60_000
/** The shortest period. Workers look for due schedules four times a second. */
export const EVERY_MS_MIN = 1_000

/** The moments at which a schedule is due. */
export interface Ticks {
  /** The first one after a moment; null if there will be none. */
  nextMs(afterMs: number): number | null
  /** The last ones up to and with a moment, oldest first. */
  newestMs(untilMs: number, count: number): number[]
}

/** `start`, `start + every`, `start + 2 * every`, ...: counted from the start each time, so delays do not add up. */
export function everyTicks(startMs: number, everyMs: number): Ticks {
  return {
    nextMs: (afterMs) =>
      afterMs < startMs ? startMs : startMs + (Math.floor((afterMs - startMs) / everyMs) + 1) * everyMs,
    newestMs(untilMs, count) {
      const last = Math.floor((untilMs - startMs) / everyMs)
      const first = Math.max(0, last - count + 1)
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => startMs + (first + i) * everyMs)
    },
  }
}

/** No tick before `fromMs`, none after `untilMs`. A tick at one of these times counts. */
export function ticksWithin(ticks: Ticks, fromMs: number | null, untilMs: number | null): Ticks {
  const [first, last] = [fromMs ?? Number.NEGATIVE_INFINITY, untilMs ?? Number.POSITIVE_INFINITY]
  return {
    nextMs(afterMs) {
      const nextMs = ticks.nextMs(Math.max(afterMs, first - 1))
      return nextMs === null || nextMs > last ? null : nextMs
    },
    newestMs: (beforeMs, count) => ticks.newestMs(Math.min(beforeMs, last), count).filter((tickMs) => tickMs >= first),
  }
}

/** Missed ticks are counted one by one up to here; beyond, that there were more is all that is said. */
const COUNT_MAX = 1_000

export interface DueTicks {
  /** The newest that are due, oldest first: at most `CATCH_UP_MAX`. */
  newest: readonly number[]
  /** How many are due in all, or that there are at least so many: a year of seconds is not counted one by one. */
  count: number
  isAtLeast: boolean
}

/** The ticks from the planned one up to now. */
export function dueTicks(ticks: Ticks, plannedMs: number, nowMs: number): DueTicks {
  const newest = ticks.newestMs(nowMs, CATCH_UP_MAX).filter((tickMs) => tickMs >= plannedMs)
  // The rules of a zone were changed after the tick was worked out: it was promised, so it counts.
  if (newest.length === 0) return { newest: [plannedMs], count: 1, isAtLeast: false }
  if (newest.length < CATCH_UP_MAX) return { newest, count: newest.length, isAtLeast: false }
  let count = 1
  for (let tickMs = ticks.nextMs(plannedMs); tickMs !== null && tickMs <= nowMs; tickMs = ticks.nextMs(tickMs)) {
    if (++count >= COUNT_MAX) return { newest, count, isAtLeast: true }
  }
  return { newest, count, isAtLeast: false }
}

export interface TickPlan {
  /** The ticks that get a job, oldest first. */
  runs: readonly number[]
  skipped: number
  isAtLeast: boolean
  /** Why some were skipped; null when none was. */
  because: string | null
  /** These were the last runs that its count allows. */
  isLast: boolean
}

/**
 * Which of the due ticks run. While a schedule is paused none does, and none of those is made up for afterwards. Only
 * runs use up the count: a skipped tick does not.
 */
export function planTicks(
  { newest, count, isAtLeast }: DueTicks,
  { missed, nowMs, isPaused, resumedAtMs, runsLeft }: PlanOptions,
): TickPlan {
  const eligible = isPaused ? [] : newest.filter((tickMs) => tickMs >= (resumedAtMs ?? Number.NEGATIVE_INFINITY))
  const allowed = chosen(eligible, missed, nowMs)
  const runs = allowed.slice(0, runsLeft ?? allowed.length)
  // Ticks after the last run of a schedule that ends are not skipped: they do not exist.
  const skipped = count - allowed.length
  const because = skipped === 0 ? null : isPaused || eligible.length === 0 ? 'it was paused' : REASONS[missed]
  return { runs, skipped, isAtLeast, because, isLast: runsLeft !== null && runs.length >= runsLeft }
}

interface PlanOptions {
  missed: MissedRule
  nowMs: number
  isPaused: boolean
  resumedAtMs: number | null
  /** How many runs its count still allows; null if it has no count. */
  runsLeft: number | null
}

function chosen(eligible: readonly number[], missed: MissedRule, nowMs: number): readonly number[] {
  switch (missed) {
    case 'all':
      return eligible.slice(-CATCH_UP_MAX)
    case 'once':
      return eligible.slice(-1)
    case 'skip':
      return eligible.slice(-1).filter((tickMs) => nowMs - tickMs <= LATE_MS_MAX)
  }
}

const REASONS: Readonly<Record<MissedRule, string>> = {
  skip: "no process was there in time, and missed is 'skip'",
  once: "no process was there in time, and missed is 'once': one run stands for all",
  all: `no process was there in time, and at most ${CATCH_UP_MAX} runs are made up for`,
}

/** How long after its tick a run begins: less than the jitter, and before the next tick. */
export function jitterDelayMs(jitterMs: number, tickMs: number, nextMs: number | null, chance: number): number {
  const roomMs = nextMs === null ? jitterMs : Math.min(jitterMs, nextMs - tickMs)
  return Math.floor(chance * roomMs)
}

const HOLD_MS = 10_000
const HOLD_MS_MAX = 300_000

/** For how long a schedule whose tick cannot be taken is left alone: 10 s, then twice as long each time, up to 5 minutes. */
export const holdMs = (beforeMs: number): number => Math.min(HOLD_MS_MAX, Math.max(HOLD_MS, beforeMs * 2))

/** What must be the same so that a changed schedule keeps its next tick. */
interface Timing {
  cron: string | null
  everyMs: number | null
  timezone: string
  fromMs: number | null
}

const isTimedSame = (one: Timing, other: Timing): boolean =>
  one.cron === other.cron &&
  one.everyMs === other.everyMs &&
  one.timezone === other.timezone &&
  one.fromMs === other.fromMs

interface Changing extends Timing {
  untilMs: number | null
  count: number | null
}

/**
 * The next tick of a schedule that is changed: the one it had, unless its timing is new or it had ended. Its count goes
 * on over a change.
 */
export function nextAfterChange(
  before: Changing & { nextAtMs: number | null; counted: number },
  changed: Changing & { nextAtMs: number | null },
): { nextAtMs: number | null; isTimedAnew: boolean } {
  const isTimedAnew = !isTimedSame(before, changed) || before.nextAtMs === null
  const nextAtMs = isTimedAnew ? changed.nextAtMs : before.nextAtMs
  const isOver =
    nextAtMs === null ||
    nextAtMs > (changed.untilMs ?? Number.POSITIVE_INFINITY) ||
    before.counted >= (changed.count ?? Number.POSITIVE_INFINITY)
  return { nextAtMs: isOver ? null : nextAtMs, isTimedAnew }
}
