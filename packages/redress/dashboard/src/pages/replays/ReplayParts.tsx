import type { ReplayView } from '../../../../src/operations/replays/replays.ts'
import { SegmentBar } from '../../parts/charts/SegmentBar.tsx'
import { Badge } from '../../parts/Marks.tsx'
import { REPLAY_WORDS } from '../../words/replays.ts'

export function ReplayStateMark({ state }: Pick<ReplayView, 'state'>) {
  const { tone, icon, meaning } = REPLAY_WORDS[state]
  return (
    <Badge tone={tone} icon={icon} title={meaning}>
      {state}
    </Badge>
  )
}

type Progress = Pick<ReplayView, 'submitted' | 'skipped' | 'waiting' | 'state'>

/** What became of its letters so far. */
export function LettersBar({ submitted, skipped, waiting, state }: Progress) {
  return (
    <SegmentBar
      label="Letters of this replay"
      unit="letter"
      isFull
      segments={[
        { name: 'submitted', count: submitted, tone: 'good', icon: 'resolved' },
        { name: 'skipped', count: skipped, tone: 'plain', icon: 'cancelled' },
        { name: state === 'aborted' ? 'left' : 'waiting', count: waiting, tone: 'faint', icon: 'queued' },
      ]}
    />
  )
}
