import { RedressError } from '../core/errors.ts'
import type { ListOptions } from './artifact-store.ts'
import { checkPrefix } from './key.ts'

/** As many as an object store gives at once. */
const PAGE_MAX = 1000

export function pageBounds({ prefix = '', after = '', limit = PAGE_MAX, signal }: ListOptions) {
  checkPrefix(prefix)
  signal?.throwIfAborted()
  if (!Number.isInteger(limit) || limit < 1) {
    throw new RedressError('OPTION_INVALID', `limit must be a whole number from 1 on, not ${limit}.`)
  }
  return { prefix, after, limit: Math.min(limit, PAGE_MAX), signal }
}

/** Compared with NaN nothing is young enough to stay: an age that is no number would remove everything. */
export function checkedAge(olderThanMs: number, minMs = 0): number {
  if (typeof olderThanMs === 'number' && !Number.isNaN(olderThanMs) && olderThanMs >= minMs) return olderThanMs
  throw new RedressError('OPTION_INVALID', `olderThanMs must be a number of milliseconds, not ${olderThanMs}.`)
}
