import { useLocation } from 'preact-iso'
import type { Fault } from '../../../../src/core/failure/failure.ts'
import type { LetterView } from '../../../../src/operations/dead-letters/dead-letters.ts'
import { useQuery } from '../../api/query.ts'
import { CopyButton, Id } from '../../parts/Copy.tsx'
import { FilterForm } from '../../parts/FilterForm.tsx'
import { FaultMark } from '../../parts/Marks.tsx'
import { Page } from '../../parts/Page.tsx'
import { Pager } from '../../parts/Pager.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { Ago } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { isFiltered, LETTER_FIELDS, type LetterFilter, letterFilter, mayTouchLetters } from '../../words/letters.ts'
import { addressOf, groupHref, jobHref } from '../../words/links.ts'
import { PurgeButton, PurgeMatchingButton, ReplayButton } from './LetterActions.tsx'

/** That a letter was purged is told by no event. */
const LOOK_AGAIN_MS = 60_000

const COLUMNS: readonly Column<LetterView>[] = [
  { head: 'Offset', isTitle: true, cell: ({ offset }) => <a href={`/dead-letters/${offset}`}>{offset}</a> },
  { head: 'Type', cell: ({ type }) => <span class="said">{type}</span> },
  { head: 'Failure', cell: ({ failure }) => <FailureCell {...failure} /> },
  { head: 'Owner', cell: ({ owner }) => <span class="said">{owner ?? '–'}</span> },
  { head: 'Attempts', isNumber: true, cell: ({ attempts }) => attempts },
  { head: 'Set aside', cell: ({ at }) => <Ago at={at} /> },
  { head: 'Replayed', cell: (letter) => <Replayed letter={letter} /> },
  {
    head: 'Actions',
    cell: (letter) => (
      <span class="buttons calm">
        <ReplayButton letter={letter} isSmall />
        <PurgeButton offset={letter.offset} isSmall />
      </span>
    ),
  },
]

export default function DeadLetters() {
  const { query } = useLocation()
  const filter = letterFilter(query)
  const input = { ...filter, order: 'newest' as const, ...(query.after !== undefined && { after: query.after }) }
  const letters = useQuery('dead-letters.list', input, { follows: mayTouchLetters, everyMs: LOOK_AGAIN_MS })
  const { types = [] } = useQuery('types.list', {}, { follows: () => false }).data ?? {}
  const seen = (of: (letter: LetterView) => string | null): string[] => [
    ...new Set((letters.data?.deadLetters ?? []).flatMap((letter) => of(letter) ?? [])),
  ]
  const suggestions: Readonly<Record<string, readonly string[]>> = {
    type: types.map(({ name }) => name),
    code: seen(({ failure }) => failure.code),
    owner: seen(({ owner }) => owner),
  }
  return (
    <Page
      title="Dead letters"
      aside={
        <>
          <a class="button" href={replayAddress(filter)}>
            {isFiltered(filter) ? 'Replay all that match' : 'Replay all'}
          </a>
          <span class="calm">
            <PurgeMatchingButton filter={filter} />
          </span>
          <a class="button" href={addressOf('/api/dead-letters/export', filter)} download="dead-letters.jsonl">
            Export
          </a>
          <CopyButton text={cliOf('dead-letters.list', input)} what="this list as a command">
            Copy as CLI
          </CopyButton>
        </>
      }
    >
      <FilterForm
        label="Which dead letters"
        fields={LETTER_FIELDS.map((field) => {
          const suggested = suggestions[field.name]
          return suggested === undefined ? field : { ...field, suggestions: suggested }
        })}
      />
      <Shown query={letters}>
        {({ deadLetters, nextAfter }) => (
          <>
            {deadLetters.length === 0 ? (
              <NoLetters isFiltered={isFiltered(filter)} isLater={query.after !== undefined} />
            ) : (
              <Table
                label="Dead letters by offset, the newest first"
                columns={COLUMNS}
                rows={deadLetters}
                keyOf={({ offset }) => String(offset)}
              />
            )}
            <Pager param="after" next={nextAfter} of="dead letters" />
          </>
        )}
      </Shown>
    </Page>
  )
}

/** The same letters, where a replay of them is planned. Those that were replayed already are meant, too, if asked for. */
const replayAddress = (filter: LetterFilter): string =>
  addressOf('/replays/new', {
    ...filter,
    ...(filter.replayed === 'yes' && { again: '1' }),
    ...(!isFiltered(filter) && { all: '1' }),
  })

function Replayed({ letter: { replays, replayedAs, replayedAt } }: { letter: LetterView }) {
  if (replays === 0) return <span class="quiet">no</span>
  return (
    <span>
      {replayedAs !== null && <Id id={replayedAs} href={jobHref(replayedAs)} />}{' '}
      <span class="quiet">
        {replayedAt !== null && <Ago at={replayedAt} />}
        {replays > 1 && `, ${replays} times in all`}
      </span>
    </span>
  )
}

function NoLetters(props: { isFiltered: boolean; isLater: boolean }) {
  if (props.isLater) return <Empty title="There are no more letters." />
  if (props.isFiltered) {
    return (
      <Empty title="No dead letter matches.">
        <p>
          Take something out of the filter, or <a href="/dead-letters">see all of them</a>.
        </p>
      </Empty>
    )
  }
  return (
    <Empty title="There are no dead letters.">
      <p>
        A failed job becomes a dead letter here if its policy has <code>deadLetter: 'queue'</code>. What failed without
        that is among the <a href="/failures">failures</a>.
      </p>
    </Empty>
  )
}

interface Props {
  fault: Fault
  code: string
  message: string
  fingerprint: string
}

/** Whose fault, which code, and the words for it; the code leads to all that failed alike. */
function FailureCell({ fault, code, message, fingerprint }: Props) {
  return (
    <span>
      <FaultMark fault={fault} />{' '}
      <a href={groupHref(fingerprint)} title="All that failed in the same way">
        <code>{code}</code>
      </a>
      <br />
      <span class="said">{message}</span>
    </span>
  )
}
