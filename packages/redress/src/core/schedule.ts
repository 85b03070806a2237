/** Which missed ticks run after an outage. */
export const MISSED_RULES = ['skip', 'once', 'all'] as const
export type MissedRule = (typeof MISSED_RULES)[number]

/** So many runs at most are made up for at once; more would bury the work of today under that of last month. */
export const CATCH_UP_MAX = 100
/** A tick that is taken this late was not missed: processes restart, and a machine may be busy. */
export const LATE_MS_MAX = 60_000

export interface DueTicks {
  /** The newest that are due, oldest first: at most `CATCH_UP_MAX`. */
  newest: readonly number[]
  /** How many are due in all, or that there are at least so many: a year of seconds is not counted one by one. */
  count: number
  isAtLeast: boolean
}

export interface TickPlan {
  /** The ticks that get a job, oldest first. */
  runs: readonly number[]
  skipped: number
  isAtLeast: boolean
  /** Why some were skipped; null when none was. */
  because: string | null
}

/** Which of the due ticks run. While a schedule is paused none does, and none of those is made up for afterwards. */
export function planTicks(
  { newest, count, isAtLeast }: DueTicks,
  { missed, nowMs, isPaused, resumedAtMs }: PlanOptions,
): TickPlan {
  const eligible = isPaused ? [] : newest.filter((tickMs) => tickMs >= (resumedAtMs ?? Number.NEGATIVE_INFINITY))
  const runs = chosen(eligible, missed, nowMs)
  const skipped = count - runs.length
  const because = skipped === 0 ? null : isPaused || eligible.length === 0 ? 'it was paused' : REASONS[missed]
  return { runs, skipped, isAtLeast, because }
}

interface PlanOptions {
  missed: MissedRule
  nowMs: number
  isPaused: boolean
  resumedAtMs: number | null
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
