import { isoTimeOrNull } from './iso-time.ts'

/** What keeps back a job that could go, and has nothing to do with the job itself. */
export interface Hold {
  /** The kind of thing that holds it. */
  by: 'breaker' | 'queue' | 'concurrency' | 'rate' | 'workers'
  /** Which one of that kind: the breaker's name, the queue's, ... */
  name: string
  /** Half a sentence that can follow 'held by breaker gateway: '. */
  why: string
  /** When it may go, if that is known. */
  untilMs: number | null
}

export interface HoldView extends Omit<Hold, 'untilMs'> {
  until: string | null
}

export const viewHold = ({ by, name, why, untilMs }: Hold): HoldView => ({
  by,
  name,
  why,
  until: isoTimeOrNull(untilMs),
})

/** 'held by breaker gateway: 60 % of the last 20 calls failed; tries again in 25 s' */
export const holdText = ({ by, name, why }: Pick<Hold, 'by' | 'name' | 'why'>): string =>
  by === 'workers' ? `no worker runs ${name}: ${why}` : `held by ${by} ${name}: ${why}`
