import type { AuditView } from '../../../src/operations/audit/audit.ts'
import { groupHref, jobHref } from '../words/links.ts'
import { Id } from './Copy.tsx'
import { LongValue } from './LongText.tsx'
import { type Column, Table } from './Table.tsx'
import { Ago, Clock } from './Time.tsx'

const IDS_SHOWN = 5

const named = (path: string) => (id: string) => `${path}/${encodeURIComponent(id)}`

/** Where each kind of thing is shown; what has no page of its own leads to the page of all. */
const PAGE_OF: Readonly<Record<string, (id: string) => string>> = {
  job: jobHref,
  batch: named('/batches'),
  replay: named('/replays'),
  'dead-letter': named('/dead-letters'),
  'failure-group': groupHref,
  queue: () => '/queues',
  breaker: () => '/breakers',
  schedule: () => '/schedules',
}

/** Who did what, why, and to which things. */
export function AuditEntries({ entries, label }: { entries: readonly AuditView[]; label: string }) {
  return <Table label={label} columns={COLUMNS} rows={entries} keyOf={({ seq }) => String(seq)} />
}

const COLUMNS: readonly Column<AuditView>[] = [
  { head: 'What', isTitle: true, cell: ({ act }) => <code>{act}</code> },
  { head: 'Who', cell: ({ actor }) => <span class="said">{actor}</span> },
  { head: 'Why', cell: ({ reason }) => <span class="said">{reason}</span> },
  {
    head: 'To what',
    cell: ({ target, ids, data }) => (
      <>
        {target} <Ids target={target} ids={ids} />
        {data !== null && Object.keys(data).length > 0 && (
          <details>
            <summary>Data</summary>
            <LongValue value={data} what="the data" />
          </details>
        )}
      </>
    ),
  },
  {
    head: 'When',
    cell: ({ at }) => (
      <>
        <Clock at={at} />{' '}
        <span class="quiet">
          (<Ago at={at} />)
        </span>
      </>
    ),
  },
]

function Ids({ target, ids }: Pick<AuditView, 'target' | 'ids'>) {
  const shown = ids.slice(0, IDS_SHOWN)
  const rest = ids.slice(IDS_SHOWN)
  return (
    <>
      <IdList target={target} ids={shown} />
      {rest.length > 0 && (
        <details>
          <summary>and {rest.length} more</summary>
          <IdList target={target} ids={rest} />
        </details>
      )}
    </>
  )
}

const IdList = ({ target, ids }: Pick<AuditView, 'target' | 'ids'>) => (
  <>
    {ids.map((id) => {
      const href = PAGE_OF[target]?.(id)
      return (
        <span key={id}>
          <Id id={id} {...(href !== undefined && { href })} />{' '}
        </span>
      )
    })}
  </>
)
