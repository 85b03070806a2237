import { useLocation } from 'preact-iso'
import type { InputOf, OutputOf } from '../../../../src/operations/table.ts'
import { Refused } from '../../api/perform.ts'
import { usePreview } from '../../api/preview.ts'
import { useQuery } from '../../api/query.ts'
import { whyNot } from '../../api/session.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { NarrowBy, type NarrowField } from '../../parts/NarrowBy.tsx'
import { Page } from '../../parts/Page.tsx'
import { Problem } from '../../parts/States.tsx'
import { isFiltered, LETTER_FIELDS, letterFilter } from '../../words/letters.ts'
import { PlanPreview } from './PlanPreview.tsx'

const AGAIN: NarrowField = { name: 'again', label: 'Also letters that were replayed already', kind: 'flag' }
const ALL: NarrowField = { name: 'all', label: 'Every dead letter there is', kind: 'flag' }

const HOW: readonly NarrowField[] = [
  { name: 'rate', label: 'Rate, at most', hint: '5/s, 90/m, 200/h', help: 'Empty: as fast as workers make them.' },
  {
    name: 'canary',
    label: 'Canary',
    hint: '10',
    help: 'So many go first; the rest waits until their jobs have ended.',
  },
  { name: 'canaryFailures', label: 'Of these may fail', hint: '0', help: 'One more, and the replay stops by itself.' },
  {
    name: 'patch',
    label: 'Change each input',
    kind: 'json',
    hint: '{"gateway": "new", "retries": null}',
    help: 'A JSON merge patch: members replace, null removes. Empty: inputs stay as they are.',
  },
]

type Plan = InputOf<'replays.plan'>

export default function NewReplay() {
  const { query, route } = useLocation()
  const { types = [] } = useQuery('types.list', {}, { follows: () => false }).data ?? {}
  const plan = planOf(query)
  const why = whyNot('replays.plan')
  const isChosen = isFiltered(letterFilter(query)) || query.all === '1'
  const asked = why !== null || plan instanceof Refused || !isChosen ? null : plan
  const preview = usePreview('replays.plan', asked)
  const refusal = !isChosen
    ? 'No letters are chosen yet.'
    : plan instanceof Refused
      ? plan.message
      : preview.data?.willRun === 0
        ? 'No letter would run.'
        : null
  const onDone = (answer: unknown): void => {
    const { replay } = answer as OutputOf<'replays.plan'>
    if (replay !== null) route(`/replays/${encodeURIComponent(replay.id)}`)
  }
  const fields: NarrowField[] = LETTER_FIELDS.map((field) =>
    field.name === 'type' ? { ...field, suggestions: types.map(({ name }) => name) } : field,
  )
  return (
    <Page title="Plan a replay">
      <p>
        Three steps: choose letters, see what would happen, say how fast. A plan is kept and runs nothing; it is started
        on a page of its own.
      </p>
      <h2>1. Which letters</h2>
      <NarrowBy label="Which letters" fields={[...fields, AGAIN, ...(isFiltered(letterFilter(query)) ? [] : [ALL])]} />
      <h2>2. What would happen</h2>
      {why !== null ? (
        <div class="notice warn">
          <p>{why}</p>
        </div>
      ) : plan instanceof Refused ? (
        <Problem problem={plan} />
      ) : !isChosen ? (
        <p class="quiet">
          No letters are chosen yet. Fill in at least one field above, or say that every letter is meant.
        </p>
      ) : (
        <PlanPreview {...preview} />
      )}
      <h2>3. How</h2>
      <NarrowBy label="How they are replayed" fields={HOW} />
      <p class="buttons">
        <ActButton
          refusal={refusal}
          act={{
            name: 'replays.plan',
            input: plan instanceof Refused ? {} : plan,
            title: 'Plan this replay',
            verb: 'Plan',
            explain: <p>The selection is frozen: letters that come later are not part of it. Nothing runs yet.</p>,
            onDone,
          }}
        >
          Plan this replay
        </ActButton>
        {refusal !== null && <span class="quiet">{refusal}</span>}
      </p>
    </Page>
  )
}

/** What the address says, as the operation takes it; the server says what is wrong with the rest. */
function planOf(query: Readonly<Record<string, string>>): Plan | Refused {
  const filter = letterFilter(query)
  const { again, all, rate, canary, canaryFailures, patch } = query
  const plan: Plan = {
    ...filter,
    ...(!isFiltered(filter) && all === '1' && { all: true }),
    ...(again === '1' && { again: true }),
    ...(rate && { rate }),
    ...(canary && { canary }),
    ...(canaryFailures && { canaryFailures }),
  }
  if (!patch) return plan
  try {
    return { ...plan, patch: JSON.parse(patch) as unknown }
  } catch (error) {
    return new Refused('OPTION_INVALID', `Change each input: this is not JSON: ${(error as Error).message}.`)
  }
}
