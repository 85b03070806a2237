import { becomeIdle } from '../measures.ts'
import type { Meter } from '../processor-time.ts'
import type { Case, CaseKind } from './cases.ts'

/** A job queue with one set of settings. */
export interface System {
  id: string
  title: string
  /** The settings that differ from the defaults of the system. */
  settings: string
  backend: 'postgres' | 'sqlite' | 'redis'
  /**
   * The most jobs it gets in a case of this kind, which is a limit only for slow systems. `none`: it has no such mode.
   * A kind that is not named is measured with other settings of the same system.
   */
  kinds: Partial<Record<CaseKind, number | 'none'>>
  /** Runs one case on an empty store. Answers with the milliseconds from submission to handler in a case of latency. */
  run(order: Order): Promise<number[] | undefined>
}

export interface Order {
  given: Case
  /** Address of the database, or path of the SQLite file. */
  address: string
  jobs: number
  meter: Meter
}

/** No limit: it gets as many jobs as the case has. */
export const ALL = Number.POSITIVE_INFINITY

const BULK = 1_000

/** The calls of one peer, which all cases use. */
export interface Queue {
  /** Stores as many jobs, numbered from `from`, in one call. */
  submitMany(from: number, count: number): Promise<unknown>
  submitOne(n: number): Promise<unknown>
  /** Runs all jobs that wait. Measures from the start of a worker until the last completion is stored. */
  drain(order: DrainOrder): Promise<void>
  /** Starts a worker for which there is no job yet. Calls back on the first line of each handler. */
  idle(onStart: () => void): Promise<void>
  close(): Promise<void>
}

export interface DrainOrder {
  jobs: number
  width: number
  failsOnce: boolean
  meter: Meter
}

/** Runs a case with the calls of a peer. */
export async function runQueue(queue: Queue, { given, jobs, meter }: Order): Promise<number[] | undefined> {
  const submitAll = async () => {
    for (let n = 0; n < jobs; n += BULK) await queue.submitMany(n, Math.min(BULK, jobs - n))
  }
  let latencies: number[] | undefined
  if (given.kind === 'bulk') await meter.measure(submitAll)
  else if (given.kind === 'submit') {
    let next = 0
    const caller = async () => {
      while (next < jobs) await queue.submitOne(next++)
    }
    await meter.measure(() => Promise.all(Array.from({ length: given.width }, caller)))
  } else if (given.kind === 'latency') latencies = await measureLatency(queue, jobs, meter)
  else {
    await submitAll()
    await queue.drain({ jobs, width: given.width, failsOnce: given.kind === 'fail-once', meter })
  }
  await queue.close()
  return latencies
}

async function measureLatency(queue: Queue, jobs: number, meter: Meter): Promise<number[]> {
  let began: () => void = () => undefined
  await queue.idle(() => began())
  const pickUpMs: number[] = []
  await meter.measure(async () => {
    for (let n = 0; n < jobs; n++) {
      const picked = new Promise<number>((resolve) => {
        began = () => resolve(performance.now())
      })
      const askedMs = performance.now()
      await queue.submitOne(n)
      pickUpMs.push((await picked) - askedMs)
      await becomeIdle()
    }
  })
  return pickUpMs
}

/** Resolves when `count` has been called that often. */
export function countdown(jobs: number): { count: () => void; over: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = jobs
  return { count: () => void (--left === 0 && resolve()), over: promise }
}
