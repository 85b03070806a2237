import type { JobView } from '../../../../src/core/views/job.ts'
import { about, useQuery } from '../../api/query.ts'
import { whyNot } from '../../api/session.ts'
import { type PastHold, pausesOf } from '../../words/past-holds.ts'
import { stretchesOf } from '../breakers/stretches.ts'

const ACTS_MAX = 50
const NEVER = { follows: () => false }

/**
 * What kept a job back in its time, as far as it is known: a job that was never begun has no event of that, but the
 * breaker and the queue have. Whoever may not see those sees that it waited.
 */
export function usePastHolds(job: JobView | null, nowMs: number): PastHold[] {
  const may = job !== null && whyNot('breakers.show') === null
  const types = useQuery('types.list', may ? {} : null, NEVER)
  const breaker = types.data?.types.find(({ name }) => name === job?.type)?.policy.breaker ?? null
  const name = breaker?.mode === 'hold' ? breaker.guards : null
  const shown = useQuery('breakers.show', name === null ? null : { name }, { follows: about(`breaker:${name}`) })
  const queue = job?.queue ?? ''
  const asked = may && whyNot('audit.list') === null ? { target: 'queue', id: queue, limit: ACTS_MAX } : null
  const acts = useQuery('audit.list', asked, { follows: about(`queue:${queue}`) })
  if (job === null) return []
  const stretches =
    shown.data === null ? [] : stretchesOf(shown.data.history, shown.data.status, Date.parse(job.createdAt), nowMs)
  return [
    ...stretches.flatMap(({ status, fromMs, toMs }) =>
      status === 'closed' ? [] : [{ fromMs, toMs, by: `breaker ${name}` }],
    ),
    ...pausesOf(queue, acts.data?.entries ?? [], nowMs),
  ]
}
