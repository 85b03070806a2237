import { useLocation } from 'preact-iso'
import type { JobView } from '../../../src/core/views/job.ts'
import type { OutputOf } from '../../../src/operations/table.ts'
import { about, useQuery } from '../api/query.ts'
import { ActButton } from '../parts/actions/ActButton.tsx'
import { CopyButton, Id } from '../parts/Copy.tsx'
import { Page } from '../parts/Page.tsx'
import { Pager } from '../parts/Pager.tsx'
import { Empty, Shown } from '../parts/States.tsx'
import { type Column, Table } from '../parts/Table.tsx'
import { Ago, Clock } from '../parts/Time.tsx'
import { cliOf } from '../words/cli.ts'
import { jobHref, jobsHref, policyHref } from '../words/links.ts'
import { actOn } from './job/actions.tsx'

type Worker = OutputOf<'workers.list'>['workers'][number]
type Policy = OutputOf<'types.list'>['types'][number]['policy']

/** Jobs whose worker is gone: nobody but a person may say what became of them. */
export default function Orphans() {
  const { query } = useLocation()
  const input = query.cursor === undefined ? {} : { cursor: query.cursor }
  const orphans = useQuery('orphans.list', input, { follows: about('job'), everyMs: 15_000 })
  const workers = useQuery('workers.list', { all: true }, { everyMs: 10_000 })
  const types = useQuery('types.list', {}, { follows: () => false })
  const workerOf = (job: JobView) => workers.data?.workers.find(({ id }) => id === job.worker) ?? null
  const policyOf = (job: JobView) => types.data?.types.find(({ name }) => name === job.type)?.policy ?? null
  return (
    <Page
      title="Orphans"
      aside={
        <CopyButton text={cliOf('orphans.list', {})} what="this as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <Shown query={orphans}>
        {({ jobs, nextCursor }) =>
          jobs.length === 0 ? (
            <Empty title="No job waits here for a person.">
              <p>
                A job comes here when its worker is gone and its policy has <code>orphan: 'report'</code>. Other
                policies put it back into the queue, or end it, by themselves.
              </p>
            </Empty>
          ) : (
            <>
              <Choices />
              <Table
                label="Orphans, the newest first"
                columns={columns(workerOf, policyOf)}
                rows={jobs}
                keyOf={({ id }) => id}
              />
              <Pager param="cursor" next={nextCursor} of="orphans" />
            </>
          )
        }
      </Shown>
    </Page>
  )
}

function Choices() {
  return (
    <section class="card" aria-labelledby="choices">
      <h2 id="choices" class="flush">
        What you can do
      </h2>
      <p>
        The worker of each of these jobs has not been heard of since its lease ran out, and nobody knows how far it
        came. Look first at what the job leaves behind: a file, a row, a sent mail.
      </p>
      <dl class="facts">
        <dt>
          <strong>Wait</strong>
        </dt>
        <dd>If the worker comes back, the job continues and is no longer an orphan.</dd>
        <dt>
          <strong>Mark failed</strong>
        </dt>
        <dd>
          The job ends as failed. If the worker comes back after that, its writes are refused and do not count; what it
          does outside may still happen.
        </dd>
        <dt>
          <strong>Retry</strong>
        </dt>
        <dd>Possible once it is marked failed, as the policy of its type says. Partial work is then repeated.</dd>
      </dl>
    </section>
  )
}

type Lookup<T> = (job: JobView) => T | null

const columns = (workerOf: Lookup<Worker>, policyOf: Lookup<Policy>): readonly Column<JobView>[] => [
  {
    head: 'Job',
    isTitle: true,
    cell: ({ id, type }) => (
      <>
        <a class="name" href={jobHref(id)}>
          {type}
        </a>{' '}
        <Id id={id} />
      </>
    ),
  },
  {
    head: 'Owner',
    cell: ({ owner }) =>
      owner === null ? (
        <span class="quiet">nobody</span>
      ) : (
        <a class="said" href={jobsHref({ owner })}>
          {owner}
        </a>
      ),
  },
  {
    head: 'Worker',
    cell: (job) => (
      <>
        <span class="code said">{job.worker ?? 'not known'}</span> <Host worker={workerOf(job)} />
      </>
    ),
  },
  { head: 'Last heard of', cell: (job) => <Heard worker={workerOf(job)} /> },
  { head: 'Lease ran out', cell: ({ leaseUntil }) => leaseUntil !== null && <Ago at={leaseUntil} /> },
  {
    head: 'Reported',
    cell: ({ orphanedAt }) =>
      orphanedAt !== null && (
        <>
          <Clock at={orphanedAt} />{' '}
          <span class="quiet">
            (<Ago at={orphanedAt} />)
          </span>
        </>
      ),
  },
  {
    head: 'Retry',
    cell: (job) => <Afterwards type={job.type} policy={policyOf(job)} />,
  },
  { head: 'Act', cell: (job) => <MarkFailed job={job} policy={policyOf(job)} /> },
]

const Host = ({ worker }: { worker: Worker | null }) =>
  worker === null ? null : (
    <span class="quiet">
      at {worker.host}, process {worker.pid}
    </span>
  )

function Heard({ worker }: { worker: Worker | null }) {
  if (worker === null) return <span class="quiet">It is not in the list of workers any more.</span>
  return (
    <>
      <Clock at={worker.seenAt} /> (<Ago at={worker.seenAt} />){' '}
      {worker.state === 'working' && <strong>It works again.</strong>}
    </>
  )
}

const AFTERWARDS: Readonly<Record<Policy['manualRetry']['mode'], string>> = {
  'in-place': 'afterwards, in place',
  'new-job': 'afterwards, as a new job',
  off: 'never, by its policy',
}

const Afterwards = ({ type, policy }: { type: string; policy: Policy | null }) => (
  <a href={policyHref(type)}>{policy === null ? 'see its policy' : AFTERWARDS[policy.manualRetry.mode]}</a>
)

function MarkFailed({ job, policy }: { job: JobView; policy: Policy | null }) {
  const action = job.actions.find(({ name }) => name === 'mark-failed')
  const mode = policy?.manualRetry.mode
  return (
    <ActButton
      isSmall
      refusal={action?.allowed === false ? action.why : null}
      act={{
        ...actOn(job.id, 'mark-failed'),
        explain: (
          <>
            <p>
              It is unknown how far <strong>{job.worker ?? 'its worker'}</strong> came. After this, whatever it still
              writes is refused.
            </p>
            {mode !== undefined && <p>Retry: {AFTERWARDS[mode]}.</p>}
          </>
        ),
      }}
    >
      Mark failed
    </ActButton>
  )
}
