import type { JobRecord } from './record.ts'

type Held = Pick<JobRecord, 'status' | 'orphanedAtMs' | 'lease' | 'policy'>

/** Whether only the time decides if it is an orphan: no worker reported it, and its policy leaves it to a person. */
export const mayBeSilent = ({ status, orphanedAtMs, lease, policy }: Held): boolean =>
  status === 'processing' && orphanedAtMs === null && lease !== null && policy.orphan.action === 'report'

/**
 * Since when its worker is lost: when it was reported, or when its lease expired if no worker has looked yet. A
 * renewal makes it null again.
 */
export function orphanedSinceMs(job: Held, nowMs: number): number | null {
  if (!mayBeSilent(job)) return job.orphanedAtMs
  const untilMs = job.lease?.untilMs ?? nowMs
  return untilMs <= nowMs ? untilMs : null
}
