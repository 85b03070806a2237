import type { BatchState } from '../../../../src/core/batch.ts'
import type { BatchView } from '../../../../src/operations/batches/batches.ts'
import { SegmentBar } from '../../parts/charts/SegmentBar.tsx'
import { Badge } from '../../parts/Marks.tsx'
import { BATCH_WORDS } from '../../words/batches.ts'
import { jobsHref } from '../../words/links.ts'
export function BatchStateMark({ state }: { state: BatchState }) {
  const { tone, icon, meaning } = BATCH_WORDS[state]
  return (
    <Badge tone={tone} icon={icon} title={meaning}>
      {state.toUpperCase()}
    </Badge>
  )
}

const SEGMENTS = [
  { name: 'complete', tone: 'good', icon: 'complete' },
  { name: 'failed', tone: 'bad', icon: 'failed' },
  { name: 'cancelled', tone: 'plain', icon: 'cancelled' },
  { name: 'processing', tone: 'warn', icon: 'processing' },
  { name: 'queued', tone: 'faint', icon: 'queued' },
] as const

/** The jobs of a batch by status; each number leads to those jobs. */
export function BatchBar({ batch: { id, name, counts }, isFull = false }: { batch: BatchView; isFull?: boolean }) {
  return (
    <SegmentBar
      label={`Jobs of ${name}`}
      unit="job"
      isFull={isFull}
      segments={SEGMENTS.map((segment) => ({
        ...segment,
        count: counts[segment.name],
        href: jobsHref({ batch: id, status: segment.name }),
      }))}
    />
  )
}
