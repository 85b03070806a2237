import { useLocation } from 'preact-iso'
import type { InputOf, OutputOf } from '../../../../src/operations/table.ts'
import { Refused } from '../../api/perform.ts'
import { usePreview } from '../../api/preview.ts'
import { useQuery } from '../../api/query.ts'
import { whyNot } from '../../api/session.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { SegmentBar } from '../../parts/charts/SegmentBar.tsx'
import { FilterForm, type FilterFormField } from '../../parts/FilterForm.tsx'
import { Page } from '../../parts/Page.tsx'
import { Empty, Loading, Problem } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { isFiltered, LETTER_FIELDS, letterFilter } from '../../words/letters.ts'
import { some } from '../../words/numbers.ts'
import { SKIP_WORDS } from '../../words/replays.ts'

const AGAIN: FilterFormField = { name: 'again', label: 'Also letters that were replayed already', kind: 'flag' }
const ALL: FilterFormField = { name: 'all', label: 'Every dead letter there is', kind: 'flag' }

const HOW: readonly FilterFormField[] = [
  { name: 'rate', label: 'Rate, at most', hint: '5/s, 90/m, 200/h', help: 'Empty: as fast as workers make them.' },
  {
    name: 'canary',
    label: 'Canary',
    hint: '10',
    help: 'So many go first; the rest waits until their jobs have ended.',
  },
  { name: 'canaryFailures', label: 'Of these may fail', hint: '0', help: 'With one more failure the replay stops.' },
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
  const fields: FilterFormField[] = LETTER_FIELDS.map((field) =>
    field.name === 'type' ? { ...field, suggestions: types.map(({ name }) => name) } : field,
  )
  return (
    <Page title="Plan a replay">
      <p>
        Three steps: choose letters, see what would happen, say how fast. A plan is kept and runs nothing; it is started
        on a page of its own.
      </p>
      <h2>1. Which letters</h2>
      <FilterForm
        label="Which letters"
        fields={[...fields, AGAIN, ...(isFiltered(letterFilter(query)) ? [] : [ALL])]}
      />
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
      <FilterForm label="How they are replayed" fields={HOW} />
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
function PlanPreview({ data, problem }: { data: Planned | null; problem: Refused | null }) {
  if (problem !== null) return <Problem problem={problem} />
  if (data === null) return <Loading />
  const { willRun, skipped, unchecked } = data
  const skips = skipped.reduce((sum, { letters }) => sum + letters, 0)
  if (willRun + skips === 0) {
    return (
      <Empty title="No dead letter matches.">
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
