/** Time as an argument: everything that waits or reads a clock is given one of these. */
export interface Clock {
  /** Milliseconds since the epoch. */
  nowMs(): number
  /** Milliseconds that only grow, for measuring how long something took. */
  monoMs(): number
  setTimer(delayMs: number, wake: () => void): Timer
}

export interface Timer {
  cancel(): void
}

/** A longer delay overflows Node's timer and fires at once. */
const TIMER_MS_MAX = 2 ** 31 - 1

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monoMs: () => performance.now(),
  setTimer(delayMs, wake) {
    let handle: NodeJS.Timeout
    const wait = (leftMs: number): void => {
      handle =
        leftMs <= TIMER_MS_MAX ? setTimeout(wake, leftMs) : setTimeout(() => wait(leftMs - TIMER_MS_MAX), TIMER_MS_MAX)
    }
    wait(Math.max(0, delayMs))
    return { cancel: () => clearTimeout(handle) }
  },
}

/** A timer that does not keep the process alive: what it wakes is lost when the process ends. */
export const idleTimer = (ms: number, wake: () => void): void => void setTimeout(wake, ms).unref()

interface PendingTimer {
  atMs: number
  order: number
  wake: () => void
}

/** A clock that stands still until a test moves it. Timers fire in the order of their times. */
export class VirtualClock implements Clock {
  #nowMs: number
  #monoMs = 0
  #order = 0
  readonly #timers = new Set<PendingTimer>()

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#nowMs = startMs
  }

  nowMs(): number {
    return this.#nowMs
  }

  monoMs(): number {
    return this.#monoMs
  }

  setTimer(delayMs: number, wake: () => void): Timer {
    const timer: PendingTimer = { atMs: this.#monoMs + Math.max(0, delayMs), order: this.#order++, wake }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  /** Moves time on and fires what became due; `settle` lets the woken code finish before the next timer fires. */
  async advance(byMs: number, settle: () => Promise<void> = async () => undefined): Promise<void> {
    const untilMs = this.#monoMs + byMs
    for (;;) {
      const next = this.#nextTimer(untilMs)
      if (next === undefined) break
      this.#timers.delete(next)
      this.#moveTo(Math.max(next.atMs, this.#monoMs))
      next.wake()
      await settle()
    }
    this.#moveTo(untilMs)
    await settle()
  }

  /** The wall clock is set forward or back, as an administrator or NTP does; measured time does not move. */
  jump(byMs: number): void {
    this.#nowMs += byMs
  }

  #moveTo(monoMs: number): void {
    this.#nowMs += monoMs - this.#monoMs
    this.#monoMs = monoMs
  }

  #nextTimer(untilMs: number): PendingTimer | undefined {
    let next: PendingTimer | undefined
    for (const timer of this.#timers) {
      if (timer.atMs > untilMs) continue
      if (next === undefined || timer.atMs < next.atMs || (timer.atMs === next.atMs && timer.order < next.order)) {
        next = timer
      }
    }
    return next
  }
}

/** One timer for many deadlines: it can only be set earlier, until it rings. */
export class Alarm {
  readonly #clock: Clock
  readonly #ring: (lateMs: number) => void
  #timer: Timer | null = null
  #dueMonoMs = Number.POSITIVE_INFINITY

  constructor(clock: Clock, ring: (lateMs: number) => void) {
    this.#clock = clock
    this.#ring = ring
  }

  setWithin(delayMs: number): void {
    this.setAt(this.#clock.monoMs() + delayMs)
  }

  setAt(dueMonoMs: number): void {
    if (this.#dueMonoMs <= dueMonoMs) return
    this.#timer?.cancel()
    this.#dueMonoMs = dueMonoMs
    this.#timer = this.#clock.setTimer(dueMonoMs - this.#clock.monoMs(), () => {
      const lateMs = this.#clock.monoMs() - this.#dueMonoMs
      this.#timer = null
      this.#dueMonoMs = Number.POSITIVE_INFINITY
      this.#ring(lateMs)
    })
  }

  cancel(): void {
    this.#timer?.cancel()
    this.#timer = null
    this.#dueMonoMs = Number.POSITIVE_INFINITY
  }
}
