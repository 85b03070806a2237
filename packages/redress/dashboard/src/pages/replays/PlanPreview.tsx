import type { OutputOf } from '../../../../src/operations/table.ts'
import type { Refused } from '../../api/perform.ts'
import { SegmentBar } from '../../parts/charts/SegmentBar.tsx'
import { Empty, Loading, Problem } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { some } from '../../words/numbers.ts'
import { SKIP_WORDS } from '../../words/replays.ts'

type Planned = OutputOf<'replays.plan'>
type Skipped = Planned['skipped'][number]

const COLUMNS: readonly Column<Skipped>[] = [
  {
    head: 'Because',
    isTitle: true,
    cell: ({ code }) => (
      <span>
        <code>{code}</code> {SKIP_WORDS[code]}
      </span>
    ),
  },
  { head: 'Skipped', isNumber: true, cell: ({ letters }) => letters },
  {
    head: 'Such as',
    cell: ({ example }) => (
      <span>
        <a href={`/dead-letters/${example.offset}`}>letter {example.offset}</a>: <span class="said">{example.why}</span>
      </span>
    ),
  },
]

/** A dry run: which letters would become jobs now, and why the others would not. */
export function PlanPreview({ data, problem }: { data: Planned | null; problem: Refused | null }) {
  if (problem !== null) return <Problem problem={problem} />
  if (data === null) return <Loading />
  const { willRun, skipped, unchecked } = data
  const skips = skipped.reduce((sum, { letters }) => sum + letters, 0)
  if (willRun + skips === 0) {
    return (
      <Empty title="No dead letter is like that.">
        <p>Take something out of the filter.</p>
      </Empty>
    )
  }
  return (
    <div role="status">
      <SegmentBar
        label="What would become of the letters"
        unit="letter"
        isFull
        segments={[
          { name: 'will run', count: willRun, tone: 'good', icon: 'complete' },
          { name: 'will be skipped', count: skips, tone: 'plain', icon: 'cancelled' },
        ]}
      />
      {skipped.length > 0 && (
        <Table label="What will be skipped, and why" columns={COLUMNS} rows={skipped} keyOf={({ code }) => code} />
      )}
      {unchecked.map(({ type, letters }) => (
        <div key={type} class="notice warn">
          <p>
            <strong>Not checked here:</strong> {some(letters, 'letter')} of <span class="said">{type}</span>. A worker
            that knows the type checks each before it goes.
          </p>
        </div>
      ))}
    </div>
  )
}
