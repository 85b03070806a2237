import { AttemptFailed, type FailOptions } from '../core/attempt-failed.ts'
import { type Duration, durationMs } from '../core/duration.ts'

export interface AttemptFailOptions extends Omit<FailOptions, 'retryAfterMs'> {
  /** How long the other side asked us to wait: a lower bound beside the policy's backoff. */
  retryAfter?: Duration
}

export function failWith(code: string, { retryAfter, ...rest }: AttemptFailOptions = {}): AttemptFailed {
  const wait = retryAfter === undefined ? {} : { retryAfterMs: durationMs(retryAfter, 'retryAfter') }
  return new AttemptFailed(code, { ...rest, ...wait })
}
