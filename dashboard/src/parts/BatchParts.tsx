import type { BatchState } from '../../../src/core/rollup.ts'
import type { BatchView } from '../../../src/core/view-batch.ts'
import { BATCH_WORDS } from '../words/batches.ts'
import { jobsHref } from '../words/links.ts'
import { Badge } from './Marks.tsx'
import { SegmentBar } from './SegmentBar.tsx'

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
