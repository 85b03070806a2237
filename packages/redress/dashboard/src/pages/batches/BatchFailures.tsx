import { useLocation } from 'preact-iso'
import type { JobView } from '../../../../src/core/views/job.ts'
import type { BatchFailureCode } from '../../../../src/operations/batches/batches.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { about, useQuery } from '../../api/query.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { Id } from '../../parts/Copy.tsx'
import { CsvButton } from '../../parts/CsvButton.tsx'
import { FaultMark } from '../../parts/Marks.tsx'
import { Pager } from '../../parts/Pager.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { jobHref, jobsHref } from '../../words/links.ts'
import { count } from '../../words/numbers.ts'

type Batch = OutputOf<'batches.show'>

/** What failed in a batch: by cause, and one by one. */
export function BatchFailures({ batch: { id, failures } }: { batch: Batch }) {
  const { cursor } = useLocation().query
  const input = { batch: id, status: 'failed', ...(cursor !== undefined && { cursor }) } as const
  const failed = useQuery('jobs.list', input, { follows: about(`batch:${id}`) })
  return (
    <>
      <h2>Failures by code</h2>
      <Table
        label="Failures of this batch by code"
        columns={codeColumns(id)}
        rows={failures.codes}
        keyOf={({ code }) => code}
      />
      {failures.isMore && <p class="quiet">There are more failed jobs than were counted here.</p>}
      <h2>Failed jobs</h2>
      <p class="buttons">
        <CsvButton batch={id} />
      </p>
      <Shown query={failed}>
        {({ jobs, nextCursor }) => (
          <>
            {jobs.length === 0 ? (
              <Empty title="No failed job is left on this page." />
            ) : (
              <Table label="Failed jobs of this batch" columns={JOBS} rows={jobs} keyOf={({ id: job }) => job} />
            )}
            <Pager param="cursor" next={nextCursor} of="failed jobs" />
          </>
        )}
      </Shown>
    </>
  )
}

const codeColumns = (batch: string): readonly Column<BatchFailureCode>[] => [
  {
    head: 'Code',
    isTitle: true,
    cell: ({ code }) => (
      <a href={jobsHref({ batch, status: 'failed', code })}>
        <code>{code}</code>
      </a>
    ),
  },
  { head: 'Fault', cell: ({ fault }) => <FaultMark fault={fault} /> },
  { head: 'Message', cell: ({ message }) => <span class="said">{message}</span> },
  { head: 'Jobs', isNumber: true, cell: (one) => count(one.count) },
  { head: 'Retryable', isNumber: true, cell: ({ retryable }) => count(retryable) },
]

const JOBS: readonly Column<JobView>[] = [
  { head: 'Job', isTitle: true, cell: ({ id }) => <Id id={id} href={jobHref(id)} /> },
  { head: 'Type', cell: ({ type }) => <span class="said">{type}</span> },
  { head: 'Owner', cell: ({ owner }) => <span class="said">{owner ?? '–'}</span> },
  {
    head: 'Failure',
    cell: ({ errorCode, errorMessage }) => (
      <span>
        <code>{errorCode}</code>
        <br />
        <span class="said">{errorMessage}</span>
      </span>
    ),
  },
  { head: 'Attempts', isNumber: true, cell: ({ attemptCount, maxAttempts }) => `${attemptCount} of ${maxAttempts}` },
  { head: 'Failed', cell: ({ failedAt }) => (failedAt === null ? '–' : <Ago at={failedAt} />) },
  {
    head: 'Actions',
    cell: (job) => (
      <span class="calm">
        <RetryOne job={job} />
      </span>
    ),
  },
]

function RetryOne({ job: { id, actions } }: { job: JobView }) {
  const retry = actions.find(({ name }) => name === 'retry')
  return (
    <ActButton
      isSmall
      refusal={retry?.allowed ? null : `It cannot be retried: ${retry?.why ?? 'unknown'}.`}
      act={{ name: 'jobs.retry', input: { id }, title: 'Retry this job', verb: 'Retry' }}
    >
      Retry
    </ActButton>
  )
}
