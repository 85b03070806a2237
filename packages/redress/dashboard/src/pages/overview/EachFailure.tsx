import { about, useQuery } from '../../api/query.ts'
import { Id } from '../../parts/Copy.tsx'
import { Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { jobHref, jobsHref } from '../../words/links.ts'

const SHOWN_MAX = 5

/** Types whose policy has `aggregates: false`: each failure is shown for itself, and never a rate. */
export function EachFailure() {
  const types = useQuery('types.list', {}, { follows: () => false, everyMs: 15_000 })
  const alone = (types.data?.types ?? []).filter(({ policy }) => !policy.aggregates)
  return alone.map(({ name }) => <FailuresOf key={name} type={name} />)
}

function FailuresOf({ type }: { type: string }) {
  const failed = useQuery('jobs.list', { type, status: 'failed', limit: SHOWN_MAX }, { follows: about('job') })
  if (failed.data === null || failed.data.jobs.length === 0) return null
  return (
    <section aria-label={`Failures of ${type}`}>
      <h2>Failed: {type}</h2>
      <Table
        label={`Failed jobs of ${type}`}
        rows={failed.data.jobs}
        keyOf={({ id }) => id}
        columns={[
          { head: 'Job', isTitle: true, cell: ({ id }) => <Id id={id} href={jobHref(id)} /> },
          {
            head: 'Why',
            cell: ({ errorCode, errorMessage }) => (
              <>
                <code>{errorCode}</code> <span class="said">{errorMessage}</span>
              </>
            ),
          },
          { head: 'Owner', cell: ({ owner }) => owner ?? '–' },
          { head: 'Failed', cell: ({ failedAt }) => (failedAt === null ? '–' : <Ago at={failedAt} />) },
        ]}
      />
      <p>
        <a href={jobsHref({ type, status: 'failed' })}>All failed jobs of {type}</a>
      </p>
    </section>
  )
}
