import type { ReplayItemView } from '../../../../src/operations/replays/replays.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { Id } from '../../parts/Copy.tsx'
import { FilterForm } from '../../parts/FilterForm.tsx'
import { Badge, StatusMark } from '../../parts/Marks.tsx'
import { Pager } from '../../parts/Pager.tsx'
import { Empty } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { jobHref } from '../../words/links.ts'
import { SKIP_WORDS } from '../../words/replays.ts'

const COLUMNS: readonly Column<ReplayItemView>[] = [
  { head: 'Letter', isTitle: true, cell: ({ offset }) => <a href={`/dead-letters/${offset}`}>Letter {offset}</a> },
  { head: 'Position', cell: ({ position }) => position },
  { head: 'Type', cell: ({ type }) => <span class="said">{type}</span> },
  { head: 'Result', cell: (item) => <Result item={item} /> },
  { head: 'Job', cell: ({ jobId }) => (jobId === null ? '–' : <Id id={jobId} href={jobHref(jobId)} />) },
]

const STATE_FIELD = {
  name: 'state',
  label: 'Only those that',
  choices: [
    { value: '', label: 'are part of it' },
    { value: 'submitted', label: 'became jobs' },
    { value: 'skipped', label: 'were skipped' },
    { value: 'waiting', label: 'wait' },
  ],
}

export function ReplayItems({ replay: { items, nextAfter } }: { replay: OutputOf<'replays.show'> }) {
  return (
    <>
      <FilterForm label="Which letters of this replay" fields={[STATE_FIELD]} />
      {items.length === 0 ? (
        <Empty title="No letter of this replay matches." />
      ) : (
        <Table
          label="Letters of this replay, in their order"
          columns={COLUMNS}
          rows={items}
          keyOf={({ position }) => String(position)}
        />
      )}
      <Pager param="after" next={nextAfter} of="letters" />
    </>
  )
}

function Result({ item: { state, skip, jobStatus } }: { item: ReplayItemView }) {
  if (state === 'waiting') {
    return (
      <Badge tone="plain" icon="queued">
        waiting
      </Badge>
    )
  }
  if (skip !== null) {
    return (
      <span>
        <Badge tone="plain" icon="cancelled" title={SKIP_WORDS[skip.code]}>
          skipped
        </Badge>{' '}
        <code>{skip.code}</code>
        <br />
        <span class="said">{skip.why}</span>
      </span>
    )
  }
  return jobStatus === null ? <span class="quiet">removed after its retention</span> : <StatusMark status={jobStatus} />
}
