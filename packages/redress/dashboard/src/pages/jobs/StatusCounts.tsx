import type { Status } from '../../../../src/core/job/states.ts'
import { about, useQuery } from '../../api/query.ts'
import { Icon } from '../../parts/Icon.tsx'
import { bounded } from '../../words/numbers.ts'
import { type Filter, STATUSES, withStatus } from '../../words/qualifiers.ts'
import { listHref } from './list-href.ts'

/** To count costs the server more than to list, there are five of them, and nobody reads them to the second. */
const FOLLOWING = { follows: about('job'), restMs: 5_000 }

/** How many there are of each status, whatever status is asked for; each leads to them. */
export function StatusCounts({ filter }: { filter: Filter }) {
  return (
    <nav aria-label="By status" class="bar">
      <ul class="chips">
        {STATUSES.map((status) => (
          <li key={status}>
            <StatusCount filter={filter} status={status} />
          </li>
        ))}
      </ul>
    </nav>
  )
}

function StatusCount({ filter, status }: { filter: Filter; status: Status }) {
  const { data } = useQuery('jobs.count', { ...filter, status }, FOLLOWING)
  const isAsked = filter.status === status
  const look = data?.count === 0 ? 'none' : `status-${status}`
  return (
    <a
      class={`chip ${look}`}
      href={listHref(withStatus(filter, isAsked ? null : status))}
      aria-current={isAsked ? 'true' : undefined}
      title={isAsked ? 'Show every status' : `Show only ${status} ones`}
    >
      <Icon name={status} /> {status} <strong>{data === null ? '…' : bounded(data)}</strong>
    </a>
  )
}
