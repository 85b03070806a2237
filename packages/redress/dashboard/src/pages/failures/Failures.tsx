import { useLocation } from 'preact-iso'
import type { GroupState } from '../../../../src/core/failure/group.ts'
import type { InputOf } from '../../../../src/operations/table.ts'
import { about, useQuery } from '../../api/query.ts'
import { CopyButton } from '../../parts/Copy.tsx'
import { Page } from '../../parts/Page.tsx'
import { Pager } from '../../parts/Pager.tsx'
import { Empty, Problem, Shown } from '../../parts/States.tsx'
import { cliOf } from '../../words/cli.ts'
import { FAULT_WORDS } from '../../words/faults.ts'
import { jobsHref } from '../../words/links.ts'
import { GroupTable } from './GroupTable.tsx'
import '../../styles/failures.css'

/** What needs somebody is shown first; a group that came back counts among it. */
const VIEWS: Readonly<Record<string, { name: string; states: readonly (GroupState | null)[] }>> = {
  open: { name: 'Open', states: ['regressed', 'open'] },
  snoozed: { name: 'Snoozed', states: ['snoozed'] },
  resolved: { name: 'Resolved', states: ['resolved'] },
  all: { name: 'All', states: [null] },
}

const FOLLOWING = { follows: about('job', 'failures'), everyMs: 30_000 }
const FILTERS = ['type', 'code', 'fault', 'q', 'sort'] as const

export default function Failures() {
  const { query } = useLocation()
  const view = Object.hasOwn(VIEWS, query.state ?? '') ? String(query.state) : 'open'
  const filter = Object.fromEntries(FILTERS.flatMap((name) => (query[name] ? [[name, query[name]]] : [])))
  const { states } = VIEWS[view] as (typeof VIEWS)[string]
  return (
    <Page
      title="Failures"
      aside={
        <CopyButton text={cliOf('failures.list', { ...filter, state: states.at(-1) })} what="this list as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <nav class="tabs" aria-label="Which groups">
        {Object.entries(VIEWS).map(([key, { name }]) => (
          <a
            key={key}
            href={`/failures?${new URLSearchParams({ ...filter, state: key })}`}
            aria-current={key === view ? 'page' : undefined}
          >
            {name}
          </a>
        ))}
      </nav>
      <FilterForm view={view} filter={filter} />
      {/* What came back is few, and is shown before the first page of the others. */}
      {states
        .filter((state) => state !== 'regressed' || query.cursor === undefined)
        .map((state) => (
          <Groups
            key={state}
            filter={{ ...filter, ...(state !== null && { state }) }}
            state={state}
            cursor={query.cursor}
          />
        ))}
      <NotGrouped />
    </Page>
  )
}

/** A plain form: what is asked for is in the address, also without a script to put it there. */
function FilterForm({ view, filter }: { view: string; filter: Readonly<Record<string, string>> }) {
  const { route } = useLocation()
  return (
    <search>
      <form
        class="bar"
        onSubmit={(event) => {
          event.preventDefault()
          const given = [...new FormData(event.currentTarget)].filter(([, value]) => value !== '') as [string, string][]
          route(`/failures?${new URLSearchParams([['state', view], ...given])}`)
        }}
      >
        <label>
          <span class="unseen">Search</span>
          <input name="q" type="search" placeholder="Message, code, type" value={filter.q ?? ''} />
        </label>
        <label>
          <span class="unseen">Job type</span>
          <input name="type" placeholder="Job type" value={filter.type ?? ''} />
        </label>
        <label>
          <span class="unseen">At fault</span>
          <select name="fault" value={filter.fault ?? ''}>
            <option value="">Any fault</option>
            {Object.entries(FAULT_WORDS).map(([fault, { word }]) => (
              <option key={fault} value={fault}>
                {word}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span class="unseen">Order</span>
          <select name="sort" value={filter.sort ?? ''}>
            <option value="">Last seen first</option>
            <option value="count">Most failures first</option>
          </select>
        </label>
        <button type="submit" class="plain">
          Filter
        </button>
      </form>
    </search>
  )
}

interface GroupsProps {
  filter: InputOf<'failures.list'>
  state: GroupState | null
  cursor: string | undefined
}

const isFiltered = ({ type, code, fault, q }: InputOf<'failures.list'>): boolean =>
  [type, code, fault, q].some((one) => one !== undefined)

const EMPTY: Readonly<Record<GroupState, string>> = {
  open: 'No failure is open.',
  regressed: '',
  snoozed: 'No group is snoozed.',
  resolved: 'Nothing was resolved yet.',
}

function Groups({ filter, state, cursor }: GroupsProps) {
  const groups = useQuery('failures.list', { ...filter, ...(cursor !== undefined && { cursor }) }, FOLLOWING)
  return (
    <Shown query={groups}>
      {({ groups: found, nextCursor }) => (
        <>
          {found.length > 0 && state === 'regressed' && <h2>Came back after they were resolved</h2>}
          {found.length > 0 && state === 'open' && <h2>Open</h2>}
          {found.length > 0 && <GroupTable groups={found} label={state ?? 'all groups'} />}
          {found.length === 0 && state !== 'regressed' && <NoGroups state={state} isFiltered={isFiltered(filter)} />}
          {/* Two lists cannot both be paged by one address. */}
          {state !== 'regressed' && <Pager param="cursor" next={nextCursor} of="failures" />}
        </>
      )}
    </Shown>
  )
}

/** Whoever looks for one thing must not read that there is nothing at all. */
function NoGroups(props: { state: GroupState | null; isFiltered: boolean }) {
  const { state } = props
  const title = state === null ? 'Nothing has failed yet.' : EMPTY[state]
  if (!props.isFiltered) return <Empty title={title} />
  return (
    <Empty title={`With this filter: ${title.charAt(0).toLowerCase()}${title.slice(1)}`}>
      <p>
        <a href={`/failures?state=${state ?? 'all'}`}>Look without the filter</a>
      </p>
    </Empty>
  )
}

/** Types whose policy wants no sums: each of their failures stands for itself. */
function NotGrouped() {
  const { data, problem } = useQuery('failures.list', { limit: 1 }, { follows: () => false })
  if (problem !== null) return <Problem problem={problem} />
  if (data === null || data.notGrouped.length === 0) return null
  return (
    <>
      <h2>Each on its own</h2>
      <p>
        These types are not summed up, by their policy:{' '}
        {data.notGrouped.map((type) => (
          <a key={type} class="spaced" href={jobsHref({ type, status: 'failed' })}>
            failed jobs of {type}
          </a>
        ))}
      </p>
    </>
  )
}
