import { type App, failureCodes, type JobType, redress } from 'redress'
import { perSecond } from './floor.ts'
import { onFresh, type Place } from './places.ts'

export const codes = failureCodes({ BOOM: { fault: 'dependency', retry: 'transient', message: 'It went wrong.' } })

/** What the handlers of one drain do. */
export const HANDLERS = {
  'no-op': async () => undefined,
  'fails once, declared': async (_input: unknown, attempt: { number: number; fail(code: 'BOOM'): never }) => {
    if (attempt.number === 1) attempt.fail('BOOM')
  },
  'fails once, thrown': async (input: { n: number }, attempt: { number: number }) => {
    if (attempt.number === 1) throw new Error(`it went wrong with ${input.n}`)
  },
} as const
export type HandlerName = keyof typeof HANDLERS

export const BENCH_TYPE = 'bench.job'
const BULK = 1_000

/** An app on a store, with one job type. */
export async function openBench(store: string, handler: HandlerName = 'no-op', defaults = false) {
  const app = redress({ store, log: false })
  const type = app.job(BENCH_TYPE, {
    codes,
    // Jobs that may safely run again, so that the worker may claim ahead of its slots.
    policy: defaults ? {} : { retry: { max: 3, unknown: 'transient' }, orphan: 'requeue' },
    run: HANDLERS[handler] as (input: { n: number }) => Promise<undefined>,
  })
  await app.store()
  return { app, type: type as JobType<{ n: number }> }
}

/** Runs something with such an app on an empty store. */
export const onBench = (
  place: Place,
  handler: HandlerName,
  defaults: boolean,
  run: (bench: Awaited<ReturnType<typeof openBench>> & { store: string }) => Promise<void>,
): Promise<void> =>
  onFresh(place, async ({ store }) => {
    const bench = await openBench(store, handler, defaults)
    await run({ ...bench, store })
    await bench.app.stop()
  })

export async function submitBulk(type: JobType<{ n: number }>, jobs: number, priority = 0): Promise<number> {
  const beganMs = performance.now()
  for (let n = 0; n < jobs; n += BULK) {
    const inputs = Array.from({ length: Math.min(BULK, jobs - n) }, (_, i) => ({ n: n + i }))
    await type.submitMany(inputs, { priority })
  }
  return perSecond(jobs, beganMs)
}

/** One submission at a time from each of `inFlight` callers. */
export async function submitSingly(type: JobType<{ n: number }>, jobs: number, inFlight: number): Promise<number> {
  let next = 0
  const beganMs = performance.now()
  const caller = async () => {
    while (next < jobs) await type.submit({ n: next++ })
  }
  await Promise.all(Array.from({ length: inFlight }, caller))
  return perSecond(jobs, beganMs)
}

/** What a drain may set: handlers at once, and who is told how many jobs are complete. */
export interface DrainOptions {
  concurrency?: number
  onEvery?: (done: number) => void
}

/** Jobs per second from the start of a worker to the last job's durable completion. */
export async function drain(app: App, jobs: number, options: DrainOptions = {}): Promise<number> {
  const run = await prepareDrain(app, jobs, options)
  const beganMs = performance.now()
  await run()
  return perSecond(jobs, beganMs)
}

/** Loads the worker's modules, which no job pays for, and answers with the drain itself. */
export async function prepareDrain(
  app: App,
  jobs: number,
  { concurrency = 10, onEvery }: DrainOptions = {},
): Promise<() => Promise<void>> {
  let done = 0
  const drained = Promise.withResolvers<void>()
  const worker = await app.makeWorker({
    concurrency,
    onOutcome: ({ change }) => {
      if (change.to !== 'complete') return
      done++
      onEvery?.(done)
      if (done === jobs) drained.resolve()
    },
  })
  return async () => {
    await worker.start()
    await drained.promise
  }
}

/**
 * Long enough for a worker to store the outcome and to find no other job. Ends at a random part of a millisecond: a timer
 * of ours would fire together with the timers of a worker that polls, whose poll would then cost no time.
 */
export async function becomeIdle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 5))
  const untilMs = performance.now() + Math.random()
  while (performance.now() < untilMs) await new Promise((resolve) => setImmediate(resolve))
}

/**
 * From `submit` to the handler's first line, and to the acknowledgement, one job at a time on an idle worker. `measure`
 * is given the part that counts.
 */
export async function idleLatency(
  store: string,
  jobs: number,
  measure: (work: () => Promise<void>) => Promise<void> = (work) => work(),
): Promise<{ pickUpMs: number[]; ackMs: number[] }> {
  const app = redress({ store, log: false })
  let began: () => void = () => undefined
  const type = app.job('bench.latency', { run: () => began() })
  await app.work()
  const pickUpMs: number[] = []
  const ackMs: number[] = []
  await measure(async () => {
    for (let n = 0; n < jobs; n++) {
      const picked = new Promise<number>((resolve) => {
        began = () => resolve(performance.now())
      })
      const askedMs = performance.now()
      await type.submit({ n })
      ackMs.push(performance.now() - askedMs)
      pickUpMs.push((await picked) - askedMs)
      await becomeIdle()
    }
  })
  await app.stop()
  return { pickUpMs, ackMs }
}
