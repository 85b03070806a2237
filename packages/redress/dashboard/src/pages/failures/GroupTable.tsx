import type { OutputOf } from '../../../../src/operations/table.ts'
import { Sparkline } from '../../parts/charts/Sparkline.tsx'
import { FaultMark, GroupStateMark } from '../../parts/Marks.tsx'
import { Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { groupHref } from '../../words/links.ts'
import { count } from '../../words/numbers.ts'
import { GroupActs } from './actions.tsx'

type Group = OutputOf<'failures.list'>['groups'][number]

const COLUMNS = [
  {
    head: 'What failed',
    isTitle: true,
    cell: ({ fingerprint, code, message }: Group) => (
      <>
        <a class="name" href={groupHref(fingerprint)}>
          <code>{code}</code>
        </a>{' '}
        <span class="said">{message}</span>
      </>
    ),
  },
  { head: 'At fault', cell: ({ fault }: Group) => <FaultMark fault={fault} /> },
  {
    head: 'Where',
    cell: ({ type, queue }: Group) => (
      <>
        <span class="name">{type}</span> <span class="name quiet">{queue}</span>
      </>
    ),
  },
  {
    head: 'Failures',
    isNumber: true,
    cell: ({ count: n, finalCount }: Group) => (
      <span title={`${count(finalCount)} of them ended their job`}>{count(n)}</span>
    ),
  },
  { head: 'Last day', cell: ({ hours }: Group) => <Sparkline counts={hours} of="Failures" /> },
  { head: 'Last seen', cell: ({ lastSeenAt }: Group) => <Ago at={lastSeenAt} /> },
  { head: 'First seen', cell: ({ firstSeenAt }: Group) => <Ago at={firstSeenAt} /> },
  { head: 'State', cell: ({ state }: Group) => <GroupStateMark state={state} /> },
  { head: 'Actions', cell: (group: Group) => <GroupActs group={group} isSmall /> },
]

export function GroupTable({ groups, label }: { groups: readonly Group[]; label: string }) {
  return <Table label={label} rows={groups} keyOf={({ fingerprint }) => fingerprint} columns={COLUMNS} />
}
