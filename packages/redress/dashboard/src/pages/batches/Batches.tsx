import { useLocation } from 'preact-iso'
import type { BatchState } from '../../../../src/core/batch.ts'
import type { BatchView } from '../../../../src/operations/batches/batches.ts'
import { about, useQuery } from '../../api/query.ts'
import { isOwner } from '../../api/session.ts'
import { CopyButton } from '../../parts/Copy.tsx'
import { FilterForm, type FilterFormField } from '../../parts/FilterForm.tsx'
import { Page } from '../../parts/Page.tsx'
import { Pager } from '../../parts/Pager.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { BATCH_WORDS } from '../../words/batches.ts'
import { cliOf } from '../../words/cli.ts'
import { jobHref } from '../../words/links.ts'
import { BatchBar, BatchStateMark } from './BatchParts.tsx'

const OWNER: Column<BatchView> = { head: 'Owner', cell: ({ owner }) => <span class="said">{owner ?? '–'}</span> }

const COLUMNS: readonly Column<BatchView>[] = [
  {
    head: 'Batch',
    isTitle: true,
    cell: ({ id, name }) => (
      <a href={`/batches/${encodeURIComponent(id)}`} class="said">
        {name}
      </a>
    ),
  },
  OWNER,
  {
    head: 'State',
    cell: ({ state, counts }) => (
      <span>
        <BatchStateMark state={state} />
        {state === 'partial' && (
          <>
            <br />
            <span class="tone-warn">{counts.failed > 0 ? 'some failed' : 'some were cancelled'}</span>
          </>
        )}
      </span>
    ),
  },
  { head: 'Jobs', cell: (batch) => <BatchBar batch={batch} /> },
  { head: 'Last error', cell: ({ lastError }) => <LastError error={lastError} /> },
  { head: 'Made', cell: ({ createdAt }) => <Ago at={createdAt} /> },
  { head: 'Settled', cell: ({ settledAt }) => (settledAt === null ? '–' : <Ago at={settledAt} />) },
]

const NAME: FilterFormField = { name: 'name', label: 'Name', hint: 'the whole name' }
const STATE: FilterFormField = {
  name: 'state',
  label: 'State',
  choices: [{ value: '', label: 'any' }, ...Object.keys(BATCH_WORDS).map((state) => ({ value: state, label: state }))],
}

export default function Batches() {
  const { query } = useLocation()
  const { state, owner, name, cursor } = query
  const input = {
    ...(state !== undefined && { state: state as BatchState }),
    ...(owner !== undefined && { owner }),
    ...(name !== undefined && { name }),
    ...(cursor !== undefined && { cursor }),
  }
  const found = useQuery('batches.list', input, { follows: about('batch'), everyMs: 60_000 })
  const isNarrow = (state ?? owner ?? name) !== undefined
  return (
    <Page
      title="Batches"
      aside={
        <CopyButton text={cliOf('batches.list', input)} what="this list as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <FilterForm
        label="Which batches"
        fields={[STATE, ...(isOwner() ? [] : [{ name: 'owner', label: 'Owner' }]), NAME]}
      />
      <Shown query={found}>
        {({ batches, nextCursor }) => (
          <>
            {batches.length === 0 ? (
              <NoBatches isFiltered={isNarrow} />
            ) : (
              <Table
                label="Batches, the newest first"
                columns={isOwner() ? COLUMNS.filter((column) => column !== OWNER) : COLUMNS}
                rows={batches}
                keyOf={({ id }) => id}
              />
            )}
            <Pager param="cursor" next={nextCursor} of="batches" />
          </>
        )}
      </Shown>
    </Page>
  )
}

function LastError({ error }: { error: BatchView['lastError'] }) {
  if (error === null) return <span class="quiet">none</span>
  return (
    <span>
      <a href={jobHref(error.jobId)} title="The job that failed so">
        <code>{error.code}</code>
      </a>
      <br />
      <span class="said">{error.message}</span>
    </span>
  )
}

function NoBatches(props: { isFiltered: boolean }) {
  if (props.isFiltered) {
    return (
      <Empty title="No batch matches.">
        <p>
          Take something out of the filter, or <a href="/batches">see all of them</a>.
        </p>
      </Empty>
    )
  }
  return (
    <Empty title="There are no batches.">
      <p>A batch is a number of jobs with a common outcome: a program makes it and hands in the jobs.</p>
    </Empty>
  )
}
