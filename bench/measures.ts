import { type App, failureCodes, type JobType, redress } from 'redress'
import { perSecond } from './floor.ts'

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
  const app = redress({ store })
  const type = app.job(BENCH_TYPE, {
    codes,
    // Jobs that may safely run again, so that the worker may claim ahead of its slots.
    policy: defaults ? {} : { retry: { max: 3, unknown: 'transient' }, orphan: 'requeue' },
    run: HANDLERS[handler] as (input: { n: number }) => Promise<undefined>,
  })
  await app.store()
  return { app, type: type as JobType<{ n: number }> }
}

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

/** From the start of a worker to the last job's durable completion. Loading its modules is not measured: no job pays it. */
export async function drain(app: App, jobs: number, onEvery?: (done: number) => void): Promise<number> {
  let done = 0
  const drained = Promise.withResolvers<void>()
  const worker = await app.makeWorker({
    onOutcome: ({ change }) => {
      if (change.to !== 'complete') return
      done++
      onEvery?.(done)
      if (done === jobs) drained.resolve()
    },
  })
  const beganMs = performance.now()
  await worker.start()
  await drained.promise
  return perSecond(jobs, beganMs)
}

/** From `submit` to the handler's first line, and to the acknowledgement, one job at a time on an idle worker. */
export async function idleLatency(store: string, jobs: number): Promise<{ pickUpMs: number[]; ackMs: number[] }> {
  const app = redress({ store })
  let began: () => void = () => undefined
  const type = app.job('bench.latency', { run: () => began() })
  await app.work()
  const pickUpMs: number[] = []
  const ackMs: number[] = []
  for (let n = 0; n < jobs; n++) {
    const picked = new Promise<number>((resolve) => {
      began = () => resolve(performance.now())
    })
    const askedMs = performance.now()
    await type.submit({ n })
    ackMs.push(performance.now() - askedMs)
    pickUpMs.push((await picked) - askedMs)
  }
  await app.stop()
  return { pickUpMs, ackMs }
}
