import { useLocation } from 'preact-iso'
import type { ReplayState } from '../../../../src/core/dead-letter/replay.ts'
import type { ReplayView } from '../../../../src/operations/replays/replays.ts'
import type { Changes } from '../../api/live.ts'
import { useQuery } from '../../api/query.ts'
import { CopyButton, Id } from '../../parts/Copy.tsx'
import { FilterForm } from '../../parts/FilterForm.tsx'
import { Page } from '../../parts/Page.tsx'
import { Pager } from '../../parts/Pager.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { selectionWords } from '../../words/letters.ts'
import { REPLAY_WORDS } from '../../words/replays.ts'
import { LettersBar, ReplayStateMark } from './ReplayParts.tsx'

/** A letter that becomes a job is a job that is queued. */
const mayMoveReplays = ({ events }: Changes): boolean =>
  Object.keys(events).some((event) => event === 'job.queued' || event.startsWith('replay.'))

const COLUMNS: readonly Column<ReplayView>[] = [
  { head: 'Replay', isTitle: true, cell: ({ id }) => <Id id={id} href={`/replays/${encodeURIComponent(id)}`} /> },
  {
    head: 'State',
    cell: ({ state, why }) => (
      <span>
        <ReplayStateMark state={state} />
        <br />
        <span class="said">{why}</span>
      </span>
    ),
  },
  { head: 'Letters', cell: ({ selection }) => <span class="said">{selectionWords(selection)}</span> },
  { head: 'Progress', cell: (replay) => <LettersBar {...replay} /> },
  {
    head: 'Planned by',
    cell: ({ plannedBy, createdAt }) => (
      <span>
        <span class="said">
          {plannedBy.actor}: {plannedBy.reason}
        </span>
        <br />
        <span class="quiet">
          <Ago at={createdAt} />
        </span>
      </span>
    ),
  },
]

const STATE_FIELD = {
  name: 'state',
  label: 'State',
  choices: [{ value: '', label: 'any' }, ...Object.keys(REPLAY_WORDS).map((state) => ({ value: state, label: state }))],
}

export default function Replays() {
  const { query } = useLocation()
  const input = {
    ...(query.state !== undefined && { state: query.state as ReplayState }),
    ...(query.cursor !== undefined && { cursor: query.cursor }),
  }
  const found = useQuery('replays.list', input, { follows: mayMoveReplays })
  return (
    <Page
      title="Replays"
      aside={
        <>
          <a class="button" href="/replays/new">
            Plan a replay
          </a>
          <CopyButton text={cliOf('replays.list', input)} what="this list as a command">
            Copy as CLI
          </CopyButton>
        </>
      }
    >
      <FilterForm label="Which replays" fields={[STATE_FIELD]} />
      <Shown query={found}>
        {({ replays, nextCursor }) => (
          <>
            {replays.length === 0 ? (
              <NoReplays isFiltered={query.state !== undefined} />
            ) : (
              <Table label="Replays, the newest first" columns={COLUMNS} rows={replays} keyOf={({ id }) => id} />
            )}
            <Pager param="cursor" next={nextCursor} of="replays" />
          </>
        )}
      </Shown>
    </Page>
  )
}

function NoReplays(props: { isFiltered: boolean }) {
  if (props.isFiltered) return <Empty title="No replay is in this state." />
  return (
    <Empty title="There are no replays.">
      <p>
        When the cause of many <a href="/dead-letters">dead letters</a> is fixed, plan a replay of all of them: you see
        first which would run, and how fast is yours to say.
      </p>
    </Empty>
  )
}
