import { AttemptStuck, AttemptTimeout, TotalTimeout } from '../../core/failure/attempt-failed.ts'
import { isInstance } from '../../core/failure/facts.ts'
import type { Change } from '../../core/job/change.ts'
import { packResult } from '../../core/job/result.ts'
import { withNotices } from '../../core/notice/notice.ts'
import { unpackSpent } from '../../core/policy/budget.ts'
import type { Close, CloseAnswer, WorkerKey } from '../../store/contract/store.ts'
import { type AttemptSpan, traceAttempt } from '../../tracing/tracing.ts'
import type { BreakerWatch } from '../claim/breaker-watch.ts'
import type { SlotPools } from '../claim/slot-pool.ts'
import type { Deadlines } from '../leases/deadlines.ts'
import type { LoopWatch } from '../loop-watch.ts'
import type { FullWorkerOptions } from '../options.ts'
import type { Recorder, StartRecorder } from '../recorder.ts'
import type { Reporter } from '../reporter.ts'
import { type Cancelled, LeaseLost } from './attempt.ts'
import { callAcquire, callHandler, callVerify, type Handler } from './call-handler.ts'
import {
  type Closing,
  type Flight,
  Interruption,
  isThenable,
  type Running,
  type Steps,
  UNTIL_RESUMED,
} from './flight.ts'
import { changeFor, changeForExpired, changeForShutdown, type Outcome, release } from './outcome.ts'

/** The steps of an attempt, in order. */
export const STEPS = ['claim', 'start', 'run', 'verify', 'decide', 'record', 'report'] as const
/** One step of an attempt. */
export type Step = (typeof STEPS)[number]

/** A job claimed ahead that waits longer than this for a slot is given back, for another worker. */
const BUFFERED_MS_MAX = 1_000
/** How long a job that may kill its workers waits while another such job runs. */
const SUSPECT_WAIT_MS = 10_000
const HELD_UP_MS_MIN = 100

/** The parts of a worker that an attempt passes through. */
export interface AttemptParts {
  readonly id: string
  readonly options: FullWorkerOptions
  readonly held: Map<number, Flight>
  readonly pools: SlotPools
  readonly breakers: BreakerWatch
  readonly starts: StartRecorder
  readonly recorder: Recorder
  readonly reporter: Reporter
  readonly deadlines: Deadlines
  readonly loop: LoopWatch
  key(): WorkerKey
  isAlive(): boolean
  crash(): void
  /** The worker's loop must run soon: there is an outcome to send, or a free slot. */
  scheduleCycle(): void
  /** An attempt was reported. */
  ended(): void
}

/** The attempts of one worker: the steps of each, and the events from outside that change its way. */
export class Attempts {
  readonly #parts: AttemptParts
  readonly #onReport = (flight: Flight): void => this.#parts.reporter.changed(flight)

  constructor(parts: AttemptParts) {
    this.#parts = parts
  }

  /** A job was leased: its attempt begins. */
  claimed(flight: Flight): void {
    const { held, deadlines } = this.#parts
    const { lease } = flight
    const earlier = held.get(lease.key)
    // Every claim has a new number: this worker already holds the lease, and a search for lost claims found it again.
    if (!this.#parts.isAlive() || earlier?.lease.attempt === lease.attempt) return
    // The job was taken back and leased to this worker again. The earlier handler must not run beside this one.
    if (earlier !== undefined) this.lose(earlier)
    held.set(lease.key, flight)
    flight.onReport = this.#onReport
    deadlines.watch(flight.trustedUntilMonoMs)
    flight.begin(this.#attempt(flight))
  }

  /**
   * One attempt, in order. `yield` is `await` without a promise where there is none; at UNTIL_RESUMED it waits for
   * another part of the worker.
   */
  *#attempt(flight: Flight): Steps {
    const { pools, breakers, starts, options, key } = this.#parts
    const { clock } = options
    const { handler, lease } = flight
    const pool = pools.of(flight)

    if (!this.#enter('claim', flight)) return
    pool.line.add(flight)
    // Null when a slot is free. Otherwise the attempt was cancelled or given back while it waited.
    let change: Change | null = yield UNTIL_RESUMED

    if (change === null) {
      if (!this.#enter('start', flight)) return
      change = changeForExpired(flight, flight.storeNowMs(clock.monoMs())) ?? breakers.refusal(flight)
    }
    if (change === null) {
      pool.take()
      const beganMonoMs = clock.monoMs()
      const running = this.#begin(flight, beganMonoMs)
      let outcome: Outcome
      try {
        if (handler.acquire !== null) yield acquireFor(flight, handler.acquire)
        this.#started(flight, running, handler.acquire === null ? beganMonoMs : clock.monoMs())
        if (mustRecordStart(flight)) yield starts.recordNow(key(), flight)
        else starts.recordLater(key(), flight)

        if (!this.#enter('run', flight)) return
        running.span = spanOf(flight)
        if (this.#isTotalOver(flight)) throw this.#timeoutOf(flight)
        const read: unknown = handler.readInput(JSON.parse(lease.payload))
        const input: unknown = isThenable(read) ? yield read : read
        running.phase = 'execution'
        const output: unknown = yield this.#call(flight, callHandler, handler, input)

        if (!this.#enter('verify', flight)) return
        if (handler.verify !== null) {
          running.phase = 'verification'
          yield this.#call(flight, callVerify, handler.verify, output)
          running.phase = 'execution'
        }
        const kept: unknown =
          handler.checkOutput === null ? output : yield* this.#checked(running, handler.checkOutput, output)
        outcome = { kind: 'succeeded', result: packResult(kept, options.resultBytesMax) }
      } catch (thrown) {
        const { phase } = running
        outcome = isInstance(thrown, Interruption)
          ? { kind: 'interrupted', ...thrown }
          : { kind: 'failed', phase, thrown }
      }
      if (flight.hasToRelease && outcome.kind !== 'interrupted') outcome = yield* released(flight, outcome)

      if (!this.#enter('decide', flight)) return
      change = this.#decide(flight, running, outcome)
    }

    if (!this.#enter('record', flight)) return
    const closing = flight.close(clock.monoMs())
    const close = this.#record(flight, closing, change)
    const answer: CloseAnswer = yield UNTIL_RESUMED

    if (!this.#enter('report', flight)) return
    this.#report(flight, closing, close, answer)
  }

  // ---- its steps ----------------------------------------------------------------------------------------------

  /** False when nothing more may happen: the lease is lost, or the worker is dead, or falls dead at this step. */
  #enter(step: Step, flight: Flight): boolean {
    const { options, crash, isAlive } = this.#parts
    const { probe } = options
    if (probe !== undefined && probe(step, { jobId: flight.lease.id, number: flight.lease.attempt }) === 'crash')
      crash()
    return isAlive() && !flight.isAbandoned
  }

  #begin(flight: Flight, nowMonoMs: number): Running {
    const { breakers, options, deadlines, loop } = this.#parts
    loop.began()
    const running = flight.run(nowMonoMs, breakers.callEpoch(flight))
    options.onStart?.(flight.lease.type, flight.storeNowMs(nowMonoMs) - flight.lease.dueSinceMs)
    deadlines.watch(running.deadlineMonoMs)
    return running
  }

  #started({ handler }: Flight, running: Running, nowMonoMs: number): void {
    const { stuckAfterMs } = handler.policy.orphan
    running.startedMonoMs = nowMonoMs
    if (stuckAfterMs === null) return
    running.stuckMonoMs = nowMonoMs + stuckAfterMs
    this.#parts.deadlines.watch(running.stuckMonoMs)
  }

  /** Calls the author's code, inside its span. */
  #call<Of>(flight: Flight, call: AuthorCall<Of>, of: Of, value: unknown): unknown {
    const { loop, options } = this.#parts
    const { clock } = options
    const { span, attempt } = flight
    const beganMonoMs = clock.monoMs()
    try {
      if (loop.isTracing) {
        const bound = call.bind(null, of, value, attempt)
        return loop.trace(flight, () => (span === null ? bound() : span.run(bound)))
      }
      return span === null ? call(of, value, attempt) : span.run(call.bind(null, of, value, attempt))
    } finally {
      const heldUpMs = clock.monoMs() - beganMonoMs
      if (heldUpMs > HELD_UP_MS_MIN) {
        this.#forgive(flight, heldUpMs)
        loop.measured(flight, heldUpMs)
      }
    }
  }

  /** What the type's schema makes of an output. */
  *#checked(running: Running, check: NonNullable<Handler['checkOutput']>, output: unknown): Steps<unknown> {
    running.phase = 'verification'
    const checked = check(output)
    const kept: unknown = isThenable(checked) ? yield checked : checked
    running.phase = 'execution'
    return kept
  }

  #decide(flight: Flight, { deadlineMonoMs, span }: Running, outcome: Outcome): Change {
    const { options, loop } = this.#parts
    const { clock, chance } = options
    const nowMonoMs = clock.monoMs()
    loop.ended(flight, nowMonoMs)
    // A handler that held up the event loop could not be stopped at its limit. The limit holds all the same.
    const isLate = outcome.kind === 'succeeded' && nowMonoMs > deadlineMonoMs
    const judged: Outcome = isLate ? { kind: 'interrupted', reason: this.#timeoutOf(flight) } : outcome
    const change = changeFor(flight, judged, nowMonoMs, chance())
    if (span !== null) {
      const code = 'failure' in change ? (change.failure?.code ?? null) : null
      span.end(change.to === 'queued' ? change.cause : change.to, code)
    }
    return change
  }

  #record(flight: Flight, closing: Closing, change: Change): Close {
    const { id, pools, breakers, recorder, scheduleCycle } = this.#parts
    const { lease, handler } = flight
    const { ran, endedMonoMs } = closing
    if (ran !== null && ran.callEpoch !== null) breakers.ended(flight, ran.callEpoch, change, endedMonoMs)
    const { key, attempt, batch } = lease
    const startedMonoMs = ran?.startedMonoMs ?? null
    const ranMs = startedMonoMs === null ? null : endedMonoMs - startedMonoMs
    const report = flight.reports?.close() ?? null
    const ending = { key, attempt, batch, change, ranMs, ...(report !== null && { report }) }
    const close: Close = withNotices(ending, lease, handler.policy, id)
    recorder.add(flight, close)
    const pool = pools.of(flight)
    if (ran !== null && !closing.keepsSlot) pool.free()
    pool.want()
    scheduleCycle()
    return close
  }

  /** The outcome is durable. A listener may throw; the worker does not depend on it. */
  #report(flight: Flight, { ran }: Closing, { change, ranMs }: Close, answer: CloseAnswer): void {
    const { breakers, options, ended } = this.#parts
    const { id: jobId, type, attempt } = flight.lease
    // A renewal may have found out earlier that the lease was lost, and reported it.
    const isLossReported = flight.state.kind === 'gone'
    this.#leave(flight)
    if (answer === 'lost') {
      options.log.warn({ job_id: jobId, attempt }, 'an outcome came after its lease was gone and does not count')
      if (!isLossReported) this.#reportLoss(flight)
    }
    const breaker = breakers.statusOf(flight.handler.policy)
    const trace = ran?.span?.traceparent ?? flight.lease.trace
    try {
      options.onOutcome?.({ jobId, type, attempt, answer, change, ranMs, breaker, trace })
    } catch (error) {
      options.log.error({ err: error, job_id: jobId }, 'an outcome is recorded, but a listener for outcomes threw')
    }
    ended()
  }

  #reportLoss({ lease: { id: jobId, type, attempt } }: Flight): void {
    const { onLeaseLost, log } = this.#parts.options
    try {
      onLeaseLost?.({ jobId, type, attempt })
    } catch (error) {
      log.error({ err: error, job_id: jobId }, 'a lease is lost, and a listener for lost leases threw')
    }
  }

  #leave(flight: Flight): void {
    const { held, pools } = this.#parts
    const { state, lease } = flight
    const pool = pools.of(flight)
    flight.leave()
    if (held.get(lease.key) === flight) held.delete(lease.key)
    // Only now, when its outcome is durable: the next suspect may kill the process before it could be recorded.
    if (pool.line.ended(flight)) pool.beginSoon()
    if (state.kind === 'running' || (state.kind === 'closing' && state.keepsSlot)) pool.free()
  }

  // ---- calls from other parts of the worker -------------------------------------------------------------------

  /** A slot is free for it. */
  start(flight: Flight): void {
    flight.resume(null)
  }

  /** The store has answered what became of its close. */
  recorded(flight: Flight, answer: CloseAnswer): void {
    if (this.#parts.isAlive()) flight.resume(answer)
  }

  /** The handler decides how to stop. Its outcome is recorded as cancelled, unless it succeeded first. */
  cancel(flight: Flight, reason: Cancelled): void {
    if (flight.state.kind === 'buffered') {
      this.#parts.pools.takeWaiting((other) => other === flight)
      flight.resume({ to: 'cancelled', note: reason.message })
    } else flight.stop(reason)
  }

  /** The lease is lost: stop the work, and write nothing. */
  lose(flight: Flight): void {
    const { id, pools, options, scheduleCycle } = this.#parts
    if (flight.state.kind === 'gone') return
    const { id: job_id, type, attempt } = flight.lease
    options.log.warn({ job_id, type, attempt, worker_id: id }, 'lease lost; the attempt is stopped')
    this.#reportLoss(flight)
    flight.span?.end('lost', null)
    if (flight.state.kind === 'buffered') pools.takeWaiting((other) => other === flight)
    this.#leave(flight)
    flight.stop(new LeaseLost())
    pools.of(flight).want()
    scheduleCycle()
  }

  /** Its time limit is over. */
  endByTimeout(flight: Flight): void {
    const reason = this.#endOf(flight)
    flight.stop(reason)
    flight.interrupt(reason)
    const { id: job_id, type, attempt } = flight.lease
    const isStuck = reason instanceof AttemptStuck
    const what = isStuck ? 'a stuck attempt was taken back' : 'an attempt was stopped at its time limit'
    const fields = { job_id, type, attempt, ...(isStuck && { count: 1 }) }
    this.#parts.options.log.warn(fields, `${what}; its handler may still be working`)
  }

  /** Other attempts get back the time for which a handler blocked the event loop. */
  #forgive(blocking: Flight, ms: number): void {
    for (const flight of this.#parts.held.values()) {
      if (flight !== blocking && flight.state.kind === 'running') flight.state.deadlineMonoMs += ms
    }
  }

  /** Gives back jobs that wait too long for a slot. */
  giveBackWaiting(): void {
    const nowMonoMs = this.#parts.options.clock.monoMs()
    const hasWaited = ({ claimedMonoMs, handler }: Flight) =>
      nowMonoMs - claimedMonoMs > BUFFERED_MS_MAX && !handler.policy.forwardOnly
    for (const flight of this.#parts.pools.takeWaiting(hasWaited)) {
      flight.resume(
        flight.isSuspect
          ? release(flight, 'another job that may be what kills its workers runs first', SUSPECT_WAIT_MS)
          : release(flight, 'no slot became free'),
      )
    }
  }

  /** Gives back all jobs that wait for a slot, because the worker stops. */
  giveBackAll(): void {
    const { clock, chance } = this.#parts.options
    for (const flight of this.#parts.pools.takeWaiting(() => true)) {
      flight.resume(
        flight.handler.policy.shutdown === 'fail'
          ? changeForShutdown(flight, clock.monoMs(), chance())
          : release(flight, 'the worker stopped before it began'),
      )
    }
  }

  /** The worker is dead: it writes and reports nothing more. */
  crash(): void {
    const { held, pools } = this.#parts
    for (const flight of held.values()) flight.leave()
    held.clear()
    pools.clear()
  }

  /** Why the attempt is stopped at `endMonoMs`. */
  #endOf(flight: Flight): AttemptTimeout | TotalTimeout | AttemptStuck {
    const { stuckAfterMs } = flight.handler.policy.orphan
    const isStuck = stuckAfterMs !== null && flight.endMonoMs < flight.deadlineMonoMs
    return isStuck ? new AttemptStuck(stuckAfterMs) : this.#timeoutOf(flight)
  }

  #timeoutOf(flight: Flight): AttemptTimeout | TotalTimeout {
    const { attemptMs, totalMs } = flight.handler.policy.timeout
    return this.#isTotalOver(flight) ? new TotalTimeout(totalMs ?? 0) : new AttemptTimeout(attemptMs ?? 0)
  }

  #isTotalOver(flight: Flight): boolean {
    if (flight.handler.policy.timeout.totalMs === null) return false
    return flight.totalDeadlineMonoMs() <= this.#parts.options.clock.monoMs()
  }
}

type AuthorCall<Of> = (of: Of, value: unknown, attempt: Flight['attempt']) => unknown

async function acquireFor(flight: Flight, acquire: NonNullable<Handler['acquire']>): Promise<void> {
  const { handler, lease, attempt } = flight
  flight.hold(await callAcquire(acquire, await handler.readInput(JSON.parse(lease.payload)), attempt))
}

/** Releases what `acquire` got, before the outcome is decided. If that fails, the work is not complete. */
function* released(flight: Flight, outcome: Outcome): Steps<Outcome> {
  try {
    const refusal: { thrown: unknown } | null = yield flight.release()
    if (refusal === null || outcome.kind === 'failed') return outcome
    return { kind: 'failed', phase: 'execution', ...refusal }
  } catch (interruption) {
    return { kind: 'interrupted', ...(interruption as Interruption) }
  }
}

/**
 * Where the record must say "it began" before it begins: by policy, because an earlier worker died holding the job,
 * because the process stood still for longer than the lease, or because the job expires unless it begins. In that case
 * the store knows who has the job.
 */
function mustRecordStart({ handler, lease, startedMonoMs, trustedUntilMonoMs }: Flight): boolean {
  if (handler.policy.audit === 'write-ahead' || (startedMonoMs !== null && trustedUntilMonoMs <= startedMonoMs))
    return true
  if (lease.expiresAtMs !== null) return true
  if (lease.spent === null) return false
  const { reclaims, releases } = unpackSpent(lease.spent)
  return reclaims > 0 || releases > 0
}

function spanOf({ lease: { id: jobId, type, attempt, trace }, handler: { queue } }: Flight): AttemptSpan | null {
  return traceAttempt({ jobId, type, queue, attempt, trace })
}
