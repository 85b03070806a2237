import { redress } from 'redress'

/**
 * The bare floor: the same transitions on the same tables, written by hand as SQL in batches, with no handlers, leases
 * to renew, timers or decisions. What Redress adds on top is the difference.
 */
export interface Floor {
  /** Jobs per second, `batch` of them at a time. */
  submit(jobs: number, batch: number): Promise<number>
  /** Of as many as were submitted. `failsOnce` sends every job back to the queue once, with its failure record. */
  drain(jobs: number, options: { batch: number; failsOnce: boolean }): Promise<number>
  /** Milliseconds from asking for a submission until its job is claimed, and until the submission is acknowledged. */
  pickUp(): Promise<{ pickUpMs: number; ackMs: number }>
  close(): Promise<void>
}

/** The tables are made by Redress itself, so that both write the same rows, indexes and checks. */
export async function makeTables(store: string): Promise<void> {
  const app = redress({ store, log: false })
  app.job(FLOOR_TYPE, { run: () => undefined })
  await app.store()
  await app.stop()
}

export const FLOOR_TYPE = 'floor.noop'

/** What a failure that is tried again leaves, as Redress writes it. */
export const FAILED_ONCE = {
  spent: '{"failures":1,"byCode":{"BOOM":1}}',
  detail: 'AttemptFailed: the handler failed with BOOM',
  decision: JSON.stringify({
    because: 'BOOM is transient; failure 1 of 3; next attempt at once',
    rule: 'retry.max',
    budget: { name: 'retry.max', before: 0, after: 1, max: 3 },
    delay: { source: 'none' },
  }),
} as const

let ids = 0
export const newId = (): string => `01900000-0000-7000-8000-${(ids++).toString(16).padStart(12, '0')}`

export const perSecond = (jobs: number, beganMs: number): number => (jobs * 1000) / (performance.now() - beganMs)
