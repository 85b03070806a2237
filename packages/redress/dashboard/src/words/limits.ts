import type { Policy } from '../../../src/core/policy/policy.ts'
import { count } from './numbers.ts'
import { duration } from './time.ts'

/** What holds back the jobs of a type, in words: 'at most 5 at once, 10 in 1 s'. */
export function limitsOf(policy: Policy | undefined): string {
  if (policy === undefined) return '–'
  const { concurrency, rate, backlog } = policy
  const said = [
    concurrency.max !== null && `at most ${count(concurrency.max)} at once`,
    concurrency.perKey !== null && `${count(concurrency.perKey)} at once per key`,
    rate !== null && `${count(rate.max)} in ${duration(rate.perMs)}${rate.scope === 'key' ? ' per key' : ''}`,
    backlog.max !== null && `${count(backlog.max)} may wait`,
  ].filter((one) => one !== false)
  return said.length === 0 ? 'none' : said.join(', ')
}
