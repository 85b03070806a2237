/**
 * The fence: a worker may write to the attempt that it was leased, while that attempt is open. The attempt number only grows, so
 * it is the fencing token: after a job was reclaimed and claimed again, an older holder matches no row.
 *
 * Every statement of a worker's call has this in its WHERE, with the job's key as ?1 and the attempt as ?2.
 */
export const HELD = `key = ?1 AND attempt = ?2 AND status = 'processing'`
