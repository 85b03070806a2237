import type { ReplayState } from '../../../../src/core/dead-letter/replay.ts'
import type { ReplayView } from '../../../../src/operations/replays/views.ts'
import type { PendingAct } from '../../api/act.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'

interface Act extends Pick<PendingAct, 'verb' | 'isDangerous'> {
  name: 'replays.start' | 'replays.pause' | 'replays.resume' | 'replays.abort'
  from: readonly ReplayState[]
  explain: string
}

const ACTS: readonly Act[] = [
  {
    ...{ name: 'replays.start', verb: 'Start', from: ['planned'] },
    explain: 'Workers make a job of each letter that nothing stands in the way of when its turn comes.',
  },
  {
    ...{ name: 'replays.pause', verb: 'Pause', from: ['canary', 'running'] },
    explain: 'It holds where it is. Jobs that were made already go on.',
  },
  {
    ...{ name: 'replays.resume', verb: 'Resume', from: ['paused', 'stopped'] },
    explain: 'It goes on where it was held. Time lost in a pause is not made up for.',
  },
  {
    ...{ name: 'replays.abort', verb: 'Abort', isDangerous: true },
    from: ['planning', 'planned', 'canary', 'running', 'paused', 'stopped'],
    explain: 'It ends for good. Jobs that were made already go on; letters that wait stay as they are.',
  },
]

const OVERRULES = 'Its canary stopped it. Whoever resumes it overrules the canary: the rest goes without waiting.'

/** What can be done with a replay that stands so. */
export function ReplayButtons({ replay: { id, state } }: { replay: Pick<ReplayView, 'id' | 'state'> }) {
  return ACTS.filter(({ from }) => from.includes(state)).map(({ name, verb, isDangerous = false, explain }) => (
    <ActButton
      key={name}
      act={{
        ...{ name, input: { id }, verb, isDangerous },
        title: `${verb} this replay`,
        explain: <p>{name === 'replays.resume' && state === 'stopped' ? OVERRULES : explain}</p>,
      }}
    >
      {verb}
    </ActButton>
  ))
}
