import { AttemptStuck, AttemptTimeout, TotalTimeout } from '../core/attempt-failed.ts'
import { unpackSpent } from '../core/budget.ts'
import type { Change } from '../core/change.ts'
import { describe } from '../core/describe.ts'
import type { Chance } from '../runtime/chance.ts'
import type { Clock } from '../runtime/clock.ts'
import { traceAttempt } from '../runtime/tracing.ts'
import { callAcquire, callHandler, callVerify } from './call-handler.ts'
import type { Flight, Outcome } from './flight.ts'
import type { Handler } from './handler.ts'
import { changeFor, packResult } from './outcome.ts'

/** The steps of an attempt, in order. `claim`, `record` and `tell` are the worker's, the rest is here. */
export const STEPS = ['claim', 'start', 'run', 'verify', 'decide', 'record', 'tell'] as const
export type Step = (typeof STEPS)[number]

/** What the pipeline needs from its worker. */
export interface PipelineHost {
  readonly clock: Clock
  readonly chance: Chance
  readonly resultBytesMax: number
  /** An attempt begins, so long after its job was due. */
  readonly tellStart?: ((type: string, waitedMs: number) => void) | undefined
  /** A try of a stage has ended. */
  readonly tellTry?: ((type: string, stage: string, ms: number) => void) | undefined
  /** False when the worker fell dead at this step; nothing more may happen then. */
  enter(step: Step, flight: Flight): boolean
  /** Records that an attempt began before it does; false when it is not ours any more. */
  tellStartNow(flight: Flight): Promise<boolean>
  /** Records that an attempt began, some time soon. */
  tellStartLater(flight: Flight): void
  /** The handler did not let the event loop turn for so long: nobody else could go on meanwhile. */
  heldUp(flight: Flight, ms: number): void
  close(flight: Flight, change: Change, nowMonoMs: number): void
}

const HELD_UP_MS_MIN = 100

/** Takes one attempt from its start to the decision about its outcome. */
export class Pipeline {
  readonly #host: PipelineHost

  constructor(host: PipelineHost) {
    this.#host = host
  }

  start(flight: Flight, nowMonoMs: number): void {
    flight.state = 'running'
    flight.isWorking = true
    flight.world = this.#host
    this.#host.tellStart?.(flight.lease.type, flight.storeNowMs(nowMonoMs) - flight.lease.dueSinceMs)
    const { policy, acquire } = flight.handler
    const { attemptMs } = policy.timeout
    flight.deadlineMonoMs = Math.min(nowMonoMs + (attemptMs ?? Number.POSITIVE_INFINITY), flight.totalDeadlineMonoMs())
    if (acquire === null) this.#depart(flight, nowMonoMs)
    else void this.#acquire(flight, acquire)
  }

  async #acquire(flight: Flight, acquire: NonNullable<Handler['acquire']>): Promise<void> {
    const { handler, lease, attempt } = flight
    try {
      const release = await callAcquire(acquire, await handler.readInput(JSON.parse(lease.payload)), attempt)
      if (typeof release === 'function') flight.release = release as () => unknown
    } catch (thrown) {
      this.settle(flight, { kind: 'failed', stage: 'dispatch', thrown })
      return
    }
    if (flight.state === 'running') this.#depart(flight, this.#host.clock.monoMs())
    // It was decided about, or lost, meanwhile: nothing begins, and what it holds is wanted by others.
    else await this.#letGo(flight)
  }

  #depart(flight: Flight, nowMonoMs: number): void {
    flight.startedMonoMs = nowMonoMs
    flight.stuckMonoMs = nowMonoMs + (flight.handler.policy.orphan.stuckAfterMs ?? Number.POSITIVE_INFINITY)
    // When the process stood still for longer than the lease, somebody else may have the job: the store knows.
    if (mustStartDurably(flight) || flight.trustedUntilMonoMs <= nowMonoMs) {
      void this.#host.tellStartNow(flight).then((isOurs) => {
        if (isOurs && flight.state === 'running') this.#run(flight)
        else void this.#letGo(flight)
      })
    } else {
      this.#host.tellStartLater(flight)
      this.#run(flight)
    }
  }

  #run(flight: Flight): void {
    if (!this.#host.enter('run', flight)) return
    const { handler, attempt, lease } = flight
    flight.span = traceAttempt({
      jobId: lease.id,
      type: lease.type,
      queue: handler.queue,
      attempt: lease.attempt,
      trace: lease.trace,
    })
    const beganMonoMs = this.#host.clock.monoMs()
    if (flight.totalDeadlineMonoMs() <= beganMonoMs) {
      this.#ended(flight, { kind: 'failed', stage: 'dispatch', thrown: this.timeoutOf(flight) })
      return
    }
    let stage: 'dispatch' | 'execution' = 'dispatch'
    try {
      const input = handler.readInput(JSON.parse(lease.payload))
      if (isThenable(input)) {
        void this.#runLater(flight, input)
        return
      }
      stage = 'execution'
      const output = within(flight, () => callHandler(handler, input, attempt))
      if (isThenable(output)) {
        // A thenable of the author's may give another one, or call back twice; a promise of our own never does.
        Promise.resolve(output).then(
          (value) => this.#verify(flight, value),
          (thrown) => this.#ended(flight, { kind: 'failed', stage: 'execution', thrown }),
        )
      } else this.#verify(flight, output)
    } catch (thrown) {
      this.#ended(flight, { kind: 'failed', stage, thrown })
    }
    const heldUpMs = this.#host.clock.monoMs() - beganMonoMs
    if (heldUpMs > HELD_UP_MS_MIN) this.#host.heldUp(flight, heldUpMs)
  }

  /** For schemas that answer later. */
  async #runLater(flight: Flight, input: PromiseLike<unknown>): Promise<void> {
    let stage: 'dispatch' | 'execution' = 'dispatch'
    try {
      const read = await input
      // Its time ran out, or its lease was lost, while the schema thought about it: nobody would hear the outcome.
      if (flight.state !== 'running') {
        await this.#letGo(flight)
        return
      }
      stage = 'execution'
      this.#verify(flight, await within(flight, () => callHandler(flight.handler, read, flight.attempt)))
    } catch (thrown) {
      this.#ended(flight, { kind: 'failed', stage, thrown })
    }
  }

  #verify(flight: Flight, output: unknown): void {
    const { verify } = flight.handler
    if (flight.state === 'running' && !this.#host.enter('verify', flight)) return
    if (verify === null || flight.state !== 'running') {
      this.#succeed(flight, output)
      return
    }
    flight.isVerifying = true
    const failed = (thrown: unknown) => this.#ended(flight, { kind: 'failed', stage: 'verification', thrown })
    try {
      const verified = within(flight, () => callVerify(verify, output, flight.attempt))
      if (isThenable(verified)) Promise.resolve(verified).then(() => this.#succeed(flight, output), failed)
      else this.#succeed(flight, output)
    } catch (thrown) {
      failed(thrown)
    }
  }

  #succeed(flight: Flight, output: unknown): void {
    try {
      this.#ended(flight, { kind: 'succeeded', result: packResult(output, this.#host.resultBytesMax) })
    } catch (thrown) {
      this.#ended(flight, { kind: 'failed', stage: 'execution', thrown })
    }
  }

  /** The author's code is through with the attempt: what it held is let go before anybody hears of the outcome. */
  #ended(flight: Flight, outcome: Outcome): void {
    if (flight.release === null) this.settle(flight, outcome)
    else
      void this.#letGo(flight).then((thrown) =>
        this.settle(flight, thrown === null ? outcome : spoilt(outcome, thrown)),
      )
  }

  /** What it was refused with, if it was. */
  async #letGo(flight: Flight): Promise<{ thrown: unknown } | null> {
    const { release } = flight
    flight.release = null
    try {
      await release?.()
      return null
    } catch (thrown) {
      flight.attempt.context({ notReleased: describe(thrown) })
      return { thrown }
    }
  }

  /** The first outcome counts: a handler that ends after its time is over, or after its lease is gone, is not heard. */
  settle(flight: Flight, heard: Outcome): void {
    flight.isWorking = false
    if (flight.state !== 'running' || !this.#host.enter('decide', flight)) return
    const nowMonoMs = this.#host.clock.monoMs()
    const isBegun = flight.startedMonoMs !== null
    // A handler that held up the event loop could not be stopped at its limit. The limit holds all the same.
    const outcome: Outcome =
      heard.kind === 'succeeded' && nowMonoMs > flight.deadlineMonoMs
        ? { kind: 'failed', stage: 'execution', thrown: this.timeoutOf(flight) }
        : heard.kind === 'failed' && !isBegun
          ? { ...heard, stage: 'dispatch' }
          : heard
    const change = changeFor(flight, outcome, nowMonoMs, this.#host.chance())
    flight.endSpan(change.to === 'queued' ? change.cause : change.to, codeOf(change))
    this.#host.close(flight, change, nowMonoMs)
  }

  /** Why the attempt is stopped at `endMonoMs`. */
  endOf(flight: Flight): AttemptTimeout | TotalTimeout | AttemptStuck {
    const { stuckAfterMs } = flight.handler.policy.orphan
    const isStuck = stuckAfterMs !== null && flight.stuckMonoMs < flight.deadlineMonoMs
    return isStuck ? new AttemptStuck(stuckAfterMs) : this.timeoutOf(flight)
  }

  timeoutOf(flight: Flight): AttemptTimeout | TotalTimeout {
    const { attemptMs, totalMs } = flight.handler.policy.timeout
    const isTotal = totalMs !== null && flight.totalDeadlineMonoMs() <= this.#host.clock.monoMs()
    return isTotal ? new TotalTimeout(totalMs) : new AttemptTimeout(attemptMs ?? 0)
  }
}

/** Where the record must say "it began" before it begins: by policy, or because an earlier worker died holding it. */
function mustStartDurably({ handler, lease }: Flight): boolean {
  if (handler.policy.audit === 'write-ahead') return true
  if (lease.spent === null) return false
  const { reclaims, releases } = unpackSpent(lease.spent)
  return reclaims > 0 || releases > 0
}

/** Who could not let go has not done all of its work; a failure stays what it was. */
const spoilt = (outcome: Outcome, { thrown }: { thrown: unknown }): Outcome =>
  outcome.kind === 'failed' ? outcome : { kind: 'failed', stage: 'execution', thrown }

const within = <T>({ span }: Flight, work: () => T): T => (span === null ? work() : span.run(work))

const codeOf = (change: Change): string | null => ('failure' in change ? (change.failure?.code ?? null) : null)

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
