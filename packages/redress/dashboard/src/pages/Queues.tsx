import type { OutputOf } from '../../../src/operations/table.ts'
import { useQuery } from '../api/query.ts'
import { ActButton } from '../parts/actions/ActButton.tsx'
import { Badge } from '../parts/Marks.tsx'
import { Page } from '../parts/Page.tsx'
import { Empty, Shown } from '../parts/States.tsx'
import { Table } from '../parts/Table.tsx'
import { Ago } from '../parts/Time.tsx'
import { limitsOf } from '../words/limits.ts'
import { jobsHref, policyHref } from '../words/links.ts'
import { count } from '../words/numbers.ts'
import { duration } from '../words/time.ts'
import { idleQueues, NoWorkers } from './overview/NoWorkers.tsx'

type QueueOfType = OutputOf<'queues.list'>['queues'][number]

interface Queue {
  name: string
  types: QueueOfType[]
}

/** The server counts each type by itself; a pause is of the whole queue. */
function queuesOf(rows: readonly QueueOfType[]): Queue[] {
  const queues = new Map<string, QueueOfType[]>()
  for (const row of rows) queues.set(row.queue, [...(queues.get(row.queue) ?? []), row])
  return [...queues].map(([name, types]) => ({ name, types }))
}

export default function Queues() {
  const queues = useQuery('queues.list', {}, { everyMs: 5_000 })
  const types = useQuery('types.list', {}, { follows: () => false, everyMs: 15_000 })
  const workers = useQuery('workers.list', {}, { everyMs: 5_000 })
  return (
    <Page title="Queues">
      {queues.data !== null && workers.data !== null && (
        <NoWorkers queues={idleQueues(queues.data.queues, workers.data.workers)} />
      )}
      <Shown query={queues}>
        {({ queues: rows }) =>
          rows.length === 0 ? (
            <Empty title="No program has declared a job type yet.">
              <p>
                A queue is there as soon as one has. <code>redress start</code> runs an app.
              </p>
            </Empty>
          ) : (
            queuesOf(rows).map((queue) => <QueueCard key={queue.name} queue={queue} types={types.data?.types ?? []} />)
          )
        }
      </Shown>
    </Page>
  )
}

function QueueCard({ queue, types }: { queue: Queue; types: OutputOf<'types.list'>['types'] }) {
  const { name, types: rows } = queue
  const paused = rows[0]?.paused ?? null
  const policyOf = (type: string) => types.find((one) => one.name === type)?.policy
  return (
    <section class="card" aria-labelledby={`queue-${name}`}>
      <div class="page-head">
        <h2 id={`queue-${name}`} class="flush">
          {name}
        </h2>
        {paused === null ? (
          <Badge tone="good" icon="complete">
            running
          </Badge>
        ) : (
          <Badge tone="warn" icon="pause">
            paused
          </Badge>
        )}
        <div class="page-aside">
          {paused === null ? (
            <ActButton
              act={{
                name: 'queues.pause',
                input: { name },
                title: `Pause queue ${name}`,
                verb: 'Pause',
                fields: [
                  { name: 'for', label: 'For how long', kind: 'text', help: `'30m', '2h'; empty: until it is resumed` },
                ],
              }}
            >
              Pause
            </ActButton>
          ) : (
            <ActButton act={{ name: 'queues.resume', input: { name }, title: `Resume queue ${name}`, verb: 'Resume' }}>
              Resume
            </ActButton>
          )}
        </div>
      </div>
      {paused !== null && (
        <p>
          Paused by {paused.by} <Ago at={paused.at} />: <span class="said">{paused.reason}</span>.{' '}
          {paused.until === null ? (
            'Until it is resumed.'
          ) : (
            <>
              It resumes automatically <Ago at={paused.until} />.
            </>
          )}
        </p>
      )}
      <Table
        label={`Job types of queue ${name}`}
        rows={rows}
        keyOf={({ type }) => type}
        columns={[
          {
            head: 'Type',
            isTitle: true,
            cell: ({ type }) => (
              <a class="name" href={policyHref(type)}>
                {type}
              </a>
            ),
          },
          {
            head: 'Ready',
            isNumber: true,
            cell: ({ type, queued, waiting }) => (
              <a href={jobsHref({ type, status: 'queued' })}>{count(queued - waiting)}</a>
            ),
          },
          { head: 'Not due yet', isNumber: true, cell: ({ waiting }) => count(waiting) },
          {
            head: 'Oldest ready',
            isNumber: true,
            cell: ({ oldestReadyMs }) => (oldestReadyMs === null ? '–' : duration(oldestReadyMs)),
          },
          {
            head: 'Running',
            isNumber: true,
            cell: ({ type, processing }) => <a href={jobsHref({ type, status: 'processing' })}>{count(processing)}</a>,
          },
          {
            head: 'Orphaned',
            isNumber: true,
            cell: ({ orphaned }) => (orphaned === 0 ? '0' : <a href="/orphans">{count(orphaned)}</a>),
          },
          {
            head: 'Failed',
            isNumber: true,
            cell: ({ type, failed }) => <a href={jobsHref({ type, status: 'failed' })}>{count(failed)}</a>,
          },
          {
            head: 'Complete',
            isNumber: true,
            cell: ({ type, complete }) => <a href={jobsHref({ type, status: 'complete' })}>{count(complete)}</a>,
          },
          { head: 'Limits', cell: ({ type }) => limitsOf(policyOf(type)) },
        ]}
      />
    </section>
  )
}
