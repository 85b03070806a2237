import type { JobRecord } from './record.ts'

type Held = Pick<JobRecord, 'status' | 'orphanedAtMs' | 'lease' | 'policy'>

/** Whether the time decides if it is an orphan: it was not reported, and its policy leaves it to a person. */
export const mayBeSilent = ({ status, orphanedAtMs, lease, policy }: Held): boolean =>
  status === 'processing' && orphanedAtMs === null && lease !== null && policy.orphan.action === 'report'

/**
 * Since when its worker is gone: as it was reported, or since its lease ran out where no worker has looked yet. A worker that
 * renews makes it null again.
 */
export function orphanedSinceMs(job: Held, nowMs: number): number | null {
  if (!mayBeSilent(job)) return job.orphanedAtMs
  const untilMs = job.lease?.untilMs ?? nowMs
  return untilMs <= nowMs ? untilMs : null
}
