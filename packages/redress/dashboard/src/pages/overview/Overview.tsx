import { about, useQuery } from '../../api/query.ts'
import { Page } from '../../parts/Page.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { some } from '../../words/numbers.ts'
import { GroupTable } from '../failures/GroupTable.tsx'
import { Activity } from './Activity.tsx'
import { BreakerStrips } from './BreakerStrips.tsx'
import { EachFailure } from './EachFailure.tsx'
import { idleQueues, NoWorkers } from './NoWorkers.tsx'
import { OldestWaiting } from './OldestWaiting.tsx'
import '../../styles/failures.css'
import '../../styles/overview.css'

const GROUPS_SHOWN = 8

/** For the ten seconds after an alert: what is wrong first, then what waits for a person, then how it goes. */
export function Overview() {
  const queues = useQuery('queues.list', {}, { everyMs: 5_000 })
  const workers = useQuery('workers.list', {}, { everyMs: 5_000 })
  return (
    <Page title="Overview">
      {queues.data !== null && workers.data !== null && (
        <NoWorkers queues={idleQueues(queues.data.queues, workers.data.workers)} />
      )}
      <OpenGroups />
      <EachFailure />
      <BreakerStrips />
      <OrphansWaiting />
      {queues.data !== null && <OldestWaiting queues={queues.data.queues} />}
      <Activity />
    </Page>
  )
}

function OpenGroups() {
  const following = { follows: about('job', 'failures'), everyMs: 30_000 }
  const regressed = useQuery('failures.list', { state: 'regressed', limit: GROUPS_SHOWN }, following)
  const open = useQuery('failures.list', { state: 'open', limit: GROUPS_SHOWN }, following)
  return (
    <section aria-labelledby="open-failures">
      <h2 id="open-failures">Open failures</h2>
      <Shown query={open}>
        {({ groups, nextCursor }) => {
          const found = [...(regressed.data?.groups ?? []), ...groups]
          const all = found.slice(0, GROUPS_SHOWN)
          const isMore = found.length > all.length || nextCursor !== null
          if (all.length === 0) return <Empty title="No failure is open." />
          return (
            <>
              <GroupTable groups={all} label="Open groups of failures" />
              <p>
                <a href="/failures">{isMore ? `More than ${some(all.length, 'group')}: see all` : 'All failures'}</a>
              </p>
            </>
          )
        }}
      </Shown>
    </section>
  )
}

const COUNTED_MAX = 100

function OrphansWaiting() {
  const { data } = useQuery('orphans.list', { limit: COUNTED_MAX }, { follows: about('job'), everyMs: 15_000 })
  if (data === null || data.jobs.length === 0) return null
  const types = [...new Set(data.jobs.map(({ type }) => type))].join(', ')
  return (
    <section aria-labelledby="orphans">
      <h2 id="orphans">Orphans</h2>
      <p class="notice warn">
        <a href="/orphans">
          {some(data.jobs.length, 'job')}
          {data.nextCursor !== null && ' or more'}
        </a>{' '}
        {data.jobs.length === 1 ? 'has lost its worker and waits' : 'have lost their worker and wait'} for a person to
        decide: {types}.
      </p>
    </section>
  )
}
