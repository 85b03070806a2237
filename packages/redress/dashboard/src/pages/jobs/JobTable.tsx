import type { JobView } from '../../../../src/core/views/job.ts'
import { isOwner } from '../../api/session.ts'
import { Id } from '../../parts/Copy.tsx'
import { StatusMark } from '../../parts/Marks.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { jobHref, jobsHref } from '../../words/links.ts'
import { now } from '../../words/time.ts'

const DECIDE = 'A person has to decide.'

/** Jobs, each with what one must know to decide whether to look closer. */
export function JobTable({ rows, current }: { rows: readonly JobView[]; current: string | null }) {
  return (
    <div class="job-rows">
      <Table
        label="Jobs, the newest first"
        columns={COLUMNS}
        rows={rows}
        keyOf={({ id }) => id}
        current={rows.findIndex(({ id }) => id === current)}
      />
    </div>
  )
}

const COLUMNS: readonly Column<JobView>[] = [
  {
    head: 'Job',
    isTitle: true,
    cell: ({ id, type }) => (
      <>
        <a class="name" href={jobHref(id)} data-job={id}>
          {type}
        </a>{' '}
        <Id id={id} />
      </>
    ),
  },
  { head: 'Status', cell: (job) => <Standing job={job} /> },
  { head: 'Why', cell: (job) => <Why job={job} /> },
  {
    head: 'Owner',
    cell: ({ owner }) =>
      owner === null ? (
        <span class="quiet">nobody</span>
      ) : (
        <a class="name" href={jobsHref({ owner })}>
          {owner}
        </a>
      ),
  },
  { head: 'Attempts', isNumber: true, cell: ({ attemptCount, maxAttempts }) => `${attemptCount}/${maxAttempts}` },
  { head: 'Age', isNumber: true, cell: ({ createdAt }) => <Ago at={createdAt} /> },
]

function Standing({ job: { status, orphanedAt, progress, cancelRequestedAt } }: { job: JobView }) {
  return (
    <span>
      <StatusMark status={status} isOrphaned={orphanedAt !== null} />
      {status === 'processing' && progress > 0 && <span class="quiet"> {Math.round(progress * 100)} %</span>}
      {status === 'processing' && cancelRequestedAt !== null && <span class="quiet"> asked to cancel</span>}
    </span>
  )
}

/** What went wrong, what holds it, or when it goes on: whatever there is. */
function Why({ job: { errorCode, errorMessage, held, retryAfter, orphanedAt } }: { job: JobView }) {
  return (
    <span>
      {errorCode !== null && (
        <>
          <code>{errorCode}</code> <span class="said">{errorMessage}</span>{' '}
        </>
      )}
      {orphanedAt !== null && (isOwner() ? DECIDE : <a href="/orphans">{DECIDE}</a>)}
      {held.map(({ by, name, why }) => (
        <span key={`${by} ${name}`} class="quiet">
          {by === 'workers' ? 'No worker' : `Held by ${by} ${name}`}: <span class="said">{why}</span>.{' '}
        </span>
      ))}
      {retryAfter !== null && held.length === 0 && (
        <span class="quiet">
          {Date.parse(retryAfter) > now.value ? (
            <>
              Next attempt <Ago at={retryAfter} />.
            </>
          ) : (
            'Waits for a worker.'
          )}
        </span>
      )}
    </span>
  )
}
