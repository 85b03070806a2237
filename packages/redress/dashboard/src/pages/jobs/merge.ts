import type { JobView } from '../../../../src/core/views/job.ts'

export interface Merged {
  /** The same jobs in the same order, as they stand now. */
  rows: JobView[]
  /** Jobs that belong into the list and are not in it yet. */
  newCount: number
  /** Shown, and no longer in the answer: how they stand has to be asked of each. */
  missing: JobView[]
}

/**
 * Whoever reads a list must not have it moved away under their eyes, or press on what has just come there. So the jobs
 * that are shown stay where they are, also those that the filter would not find any more, and new ones are counted.
 */
export function merge(shown: readonly JobView[], fresh: readonly JobView[]): Merged {
  const now = new Map(fresh.map((job) => [job.id, job]))
  const known = new Set(shown.map(({ id }) => id))
  const oldest = shown.at(-1)?.createdAt ?? ''
  return {
    rows: shown.map((job) => now.get(job.id) ?? job),
    // What is older than the last one only moved up from the next page.
    newCount: fresh.filter(({ id, createdAt }) => !known.has(id) && createdAt >= oldest).length,
    missing: shown.filter(({ id }) => !now.has(id)),
  }
}
