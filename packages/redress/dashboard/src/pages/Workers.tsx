import { useLocation } from 'preact-iso'
import { useQuery } from '../api/query.ts'
import { Badge } from '../parts/Marks.tsx'
import { Page } from '../parts/Page.tsx'
import { Empty, Shown } from '../parts/States.tsx'
import { Table } from '../parts/Table.tsx'
import { Ago } from '../parts/Time.tsx'

const TONES = { working: 'good', silent: 'bad', stopped: 'plain' } as const
const ICONS = { working: 'processing', silent: 'orphan', stopped: 'pause' } as const
const MEANINGS = {
  working: 'It was heard of just now.',
  silent: 'It has not reported for a while and was not stopped. Its jobs become orphans.',
  stopped: 'It was stopped in good order.',
} as const

export default function Workers() {
  const { query } = useLocation()
  const all = query.all === 'yes'
  const workers = useQuery('workers.list', { all }, { everyMs: 5_000 })
  return (
    <Page
      title="Workers"
      aside={
        <a class="button plain" href={all ? '/workers' : '/workers?all=yes'}>
          {all ? 'Only those at work' : 'Also those that are gone'}
        </a>
      }
    >
      <Shown query={workers}>
        {(found) =>
          found.workers.length === 0 ? (
            <Empty title="No worker is at work.">
              <p>
                Jobs wait until a program that declares their types runs: <code>redress worker --app app.ts</code>, or{' '}
                <code>app.start()</code> in your own.
              </p>
            </Empty>
          ) : (
            <Table
              label="Workers"
              rows={found.workers}
              keyOf={({ id }) => id}
              columns={[
                { head: 'Worker', isTitle: true, cell: ({ id }) => <code class="name">{id}</code> },
                {
                  head: 'State',
                  cell: ({ state }) => (
                    <Badge tone={TONES[state]} icon={ICONS[state]} title={MEANINGS[state]}>
                      {state}
                    </Badge>
                  ),
                },
                { head: 'Host', cell: ({ host }) => <span class="name">{host}</span> },
                { head: 'Process', isNumber: true, cell: ({ pid }) => pid },
                { head: 'Runs', cell: ({ types }) => <span class="said">{types.join(', ')}</span> },
                { head: 'Last heard of', cell: ({ seenAt }) => <Ago at={seenAt} /> },
                { head: 'Started', cell: ({ startedAt }) => <Ago at={startedAt} /> },
                { head: 'Stopped', cell: ({ stoppedAt }) => (stoppedAt === null ? '–' : <Ago at={stoppedAt} />) },
              ]}
            />
          )
        }
      </Shown>
    </Page>
  )
}
