import type { LetterView } from '../../../../src/operations/dead-letters/dead-letters.ts'
import { usePreview } from '../../api/preview.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { Loading, Problem } from '../../parts/States.tsx'
import { isFiltered, type LetterFilter, selectionWords } from '../../words/letters.ts'
import { count } from '../../words/numbers.ts'

type Letter = Pick<LetterView, 'offset' | 'replays' | 'replay' | 'jobStatus' | 'input'>

/** With the input it has. What was replayed already is replayed once more by a decision of its own. */
export function ReplayButton({ letter, isSmall = false }: { letter: Letter; isSmall?: boolean }) {
  const { offset, replays, replay, jobStatus } = letter
  const isAgain = replays > 0 && jobStatus === 'failed'
  return (
    <ActButton
      isSmall={isSmall}
      refusal={replay.allowed || isAgain ? null : `It cannot be replayed: ${replay.why}.`}
      act={{
        name: 'dead-letters.replay',
        input: { offset, ...(isAgain && { again: true }) },
        title: isAgain ? `Replay dead letter ${offset} once more` : `Replay dead letter ${offset}`,
        verb: 'Replay',
        explain: isAgain && <p>It was replayed already; this makes one more job from it.</p>,
      }}
    >
      {isAgain ? 'Replay again' : 'Replay'}
    </ActButton>
  )
}

export function ReplayEditedButton({ letter: { offset, replays, jobStatus, input } }: { letter: Letter }) {
  return (
    <ActButton
      refusal={jobStatus === 'failed' ? null : `It cannot be replayed: its job is ${jobStatus} now.`}
      act={{
        name: 'dead-letters.replay',
        input: { offset, ...(replays > 0 && { again: true }) },
        title: `Replay dead letter ${offset} with another input`,
        verb: 'Replay',
        fields: [
          {
            name: 'input',
            label: 'Input',
            kind: 'json',
            isRequired: true,
            initial: JSON.stringify(input, null, 2),
            help: 'Checked like any submission. Another input is other work: it takes no dedupe key along.',
          },
        ],
      }}
    >
      Replay with another input
    </ActButton>
  )
}

export function PurgeButton(props: { offset: number; isSmall?: boolean; onDone?: () => void }) {
  const { offset, isSmall = false, onDone } = props
  return (
    <ActButton
      isSmall={isSmall}
      act={{
        name: 'dead-letters.purge',
        input: { offset },
        title: `Purge dead letter ${offset}`,
        verb: 'Purge for good',
        isDangerous: true,
        explain: <p>A letter that was purged never comes back, and its offset is not given to another.</p>,
        ...(onDone !== undefined && { onDone }),
      }}
    >
      Purge
    </ActButton>
  )
}

/** Whoever set no filter means every letter, and the dialog says so. */
export function PurgeMatchingButton({ filter }: { filter: LetterFilter }) {
  const isSome = isFiltered(filter)
  return (
    <ActButton
      act={{
        name: 'dead-letters.purge',
        input: isSome ? filter : { all: true },
        title: isSome ? 'Purge all that match' : 'Purge every dead letter',
        verb: 'Purge for good',
        isDangerous: true,
        explain: <Counted filter={filter} />,
      }}
    >
      {isSome ? 'Purge all that match' : 'Purge all'}
    </ActButton>
  )
}

function Counted({ filter }: { filter: LetterFilter }) {
  const { data, problem } = usePreview('dead-letters.purge', isFiltered(filter) ? filter : { all: true })
  if (problem !== null) return <Problem problem={problem} />
  if (data === null) return <Loading />
  return (
    <>
      <p>
        What matches now: <span class="said">{selectionWords(filter)}</span>. Letters that come later stay.
      </p>
      <ul class="results">
        {data.byCause.map(({ type, code, letters }) => (
          <li key={`${type} ${code}`}>
            <strong>{count(letters)}</strong> of <span class="said">{type}</span> with <code>{code}</code>
          </li>
        ))}
      </ul>
    </>
  )
}
