import '../../styles/jobs.css'
import { useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import type { Status } from '../../../../src/core/job/states.ts'
import type { JobView } from '../../../../src/core/views/job.ts'
import { ask } from '../../api/act.ts'
import { about, useQuery } from '../../api/query.ts'
import { isOwner, whyNot } from '../../api/session.ts'
import { announce } from '../../parts/announce.ts'
import { CopyButton } from '../../parts/Copy.tsx'
import { Icon } from '../../parts/Icon.tsx'
import { useKeys } from '../../parts/keys.ts'
import { Page } from '../../parts/Page.tsx'
import { Empty, Loading, Problem } from '../../parts/States.tsx'
import { cliOf } from '../../words/cli.ts'
import { doubts, type KnownValues } from '../../words/completion.ts'
import { jobHref, listHref } from '../../words/links.ts'
import { bounded, some } from '../../words/numbers.ts'
import { type Filter, format, parse, STATUSES, withStatus } from '../../words/qualifiers.ts'
import { retryOf } from '../job/actions.tsx'
import { FilterField } from './FilterField.tsx'
import { JobTable } from './JobTable.tsx'
import { KeysDialog } from './KeysDialog.tsx'
import { type JobList, PAGE_SIZE, useJobList } from './use-job-list.ts'
import { Views } from './Views.tsx'

export default function Jobs() {
  const { query, route } = useLocation()
  const line = (query.q ?? '').trim()
  const { filter, problems } = parse(line)
  const isWrong = problems.length > 0
  const list = useJobList(isWrong ? null : { ...filter, ...(query.cursor !== undefined && { cursor: query.cursor }) })
  const known = useKnownValues(list.rows ?? [])
  const [current, setCurrent] = useState<string | null>(null)
  const [isHelpOpen, setHelpOpen] = useState(false)
  const field = useRef<HTMLInputElement>(null)

  const rows = list.rows ?? []
  const move = (by: number): void => {
    const at = rows.findIndex(({ id }) => id === current)
    const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)]
    if (next === undefined) return
    setCurrent(next.id)
    // The focus goes along: so it is read out, and Enter opens it.
    document.querySelector<HTMLElement>(`a[data-job="${CSS.escape(next.id)}"]`)?.focus()
  }
  useKeys({
    '/': () => field.current?.focus(),
    j: () => move(1),
    k: () => move(-1),
    o: () => current !== null && route(jobHref(current)),
    r: () => retry(rows.find(({ id }) => id === current)),
    '?': () => setHelpOpen(true),
  })

  return (
    <Page
      title="Jobs"
      aside={
        <>
          {!isWrong && (
            <CopyButton text={cliOf('jobs.list', { ...filter })} what="this filter as a command">
              Copy as CLI
            </CopyButton>
          )}
          <button type="button" class="plain small" onClick={() => setHelpOpen(true)}>
            Keys
          </button>
        </>
      }
    >
      <FilterField
        line={line}
        known={known}
        field={field}
        isWrong={isWrong}
        onApply={(written) => written !== line && route(listHref(written))}
      />
      <div id="filter-problems" class="filter-problems">
        {problems.map(({ text, better }) => (
          <p key={text} class="tone-bad" role="alert">
            {text} {better !== null && <a href={listHref(better)}>Use {better}</a>}
          </p>
        ))}
        {!isWrong &&
          doubts(filter, known).map(({ text, better }) => (
            <p key={text}>
              {text} Did you mean <a href={listHref(format(better))}>{format(better)}</a>?
            </p>
          ))}
      </div>
      <Views line={line} canSave={!isWrong} />
      {isWrong ? (
        <Empty title="Nothing is listed until the filter can be read." />
      ) : (
        <>
          <StatusCounts filter={filter} />
          <News list={list} />
          {list.problem !== null && <Problem problem={list.problem} />}
          {list.rows === null ? (
            list.problem === null && <Loading />
          ) : list.rows.length === 0 ? (
            <Nothing isFiltered={line !== ''} nextCursor={list.nextCursor} />
          ) : (
            <JobTable rows={list.rows} current={current} />
          )}
          <Paging line={line} isFirst={query.cursor === undefined} nextCursor={list.nextCursor} />
        </>
      )}
      {isHelpOpen && <KeysDialog onClose={() => setHelpOpen(false)} />}
    </Page>
  )
}

function retry(job: JobView | undefined): void {
  if (job === undefined) return
  const action = job.actions.find(({ name }) => name === 'retry')
  const isAllowed = action?.allowed || job.retriedAs !== null
  const why = whyNot('jobs.retry') ?? (isAllowed ? null : `It cannot be retried: ${action?.why}.`)
  if (why === null) ask(retryOf(job))
  else announce(why, 'bad')
}

/** What has come since: it is brought in when somebody wants it, so that nothing moves by itself. */
function News({ list: { newCount, takeNew } }: { list: JobList }) {
  return (
    <div class="news" role="status">
      {newCount > 0 && (
        <button
          type="button"
          onClick={() => {
            takeNew()
            scrollTo(0, 0)
          }}
        >
          {newCount < PAGE_SIZE ? newCount : `${PAGE_SIZE}+`} new
        </button>
      )}
    </div>
  )
}

function Nothing({ isFiltered, nextCursor }: { isFiltered: boolean; nextCursor: string | null }) {
  if (nextCursor !== null) {
    return (
      <Empty title="None of the jobs that were looked through fits.">
        <p>There are older ones: look further back.</p>
      </Empty>
    )
  }
  if (isFiltered) {
    return (
      <Empty title="No job fits this filter.">
        <p>
          A free word is compared with ids, dedupe keys, codes, owners and types, each as a whole.{' '}
          <a href="/jobs">Show all jobs</a>
        </p>
      </Empty>
    )
  }
  return (
    <Empty title="There is no job yet.">
      {isOwner() ? (
        <p>Yours are shown here when you have some.</p>
      ) : (
        <p>A job is here as soon as a program hands it in.</p>
      )}
    </Empty>
  )
}

interface PagingProps {
  line: string
  isFirst: boolean
  nextCursor: string | null
}

function Paging({ line, isFirst, nextCursor }: PagingProps) {
  if (isFirst && nextCursor === null) return null
  return (
    <nav class="bar pager" aria-label="Pages of jobs">
      {!isFirst && (
        <a class="button plain small" href={listHref(line)}>
          Newest
        </a>
      )}
      {nextCursor === null ? (
        <span class="quiet">These are the oldest.</span>
      ) : (
        <a class="button plain small" href={listHref(line, nextCursor)} title={`The next ${some(PAGE_SIZE, 'job')}`}>
          Older
        </a>
      )}
    </nav>
  )
}

/** To count costs the server more than to list, there are five of them, and nobody reads them to the second. */
const FOLLOWING = { follows: about('job'), restMs: 5_000 }

/** How many there are of each status, whatever status is asked for; each leads to them. */
function StatusCounts({ filter }: { filter: Filter }) {
  return (
    <nav aria-label="By status" class="bar">
      <ul class="chips">
        {STATUSES.map((status) => (
          <li key={status}>
            <StatusCount filter={filter} status={status} />
          </li>
        ))}
      </ul>
    </nav>
  )
}

function StatusCount({ filter, status }: { filter: Filter; status: Status }) {
  const { data } = useQuery('jobs.count', { ...filter, status }, FOLLOWING)
  const isAsked = filter.status === status
  const look = data?.count === 0 ? 'none' : `status-${status}`
  return (
    <a
      class={`chip ${look}`}
      href={listHref(withStatus(filter, isAsked ? null : status))}
      aria-current={isAsked ? 'true' : undefined}
      title={isAsked ? 'Show every status' : `Show only ${status} ones`}
    >
      <Icon name={status} /> {status} <strong>{data === null ? '…' : bounded(data)}</strong>
    </a>
  )
}

const GROUPS_MAX = 200
const NEVER = { follows: () => false }

const different = (values: readonly (string | null)[]): string[] =>
  [...new Set(values.filter((value) => value !== null))].toSorted()

/** What a filter can be completed with: what is declared, and what was seen. */
function useKnownValues(rows: readonly JobView[]): KnownValues {
  const types = useQuery('types.list', whyNot('types.list') === null ? {} : null, NEVER)
  const groups = useQuery('failures.list', whyNot('failures.list') === null ? { limit: GROUPS_MAX } : null, NEVER)
  const declared = types.data?.types ?? []
  return {
    type: different([...declared.map(({ name }) => name), ...rows.map(({ type }) => type)]),
    queue: different([...declared.map(({ queue }) => queue), ...rows.map(({ queue }) => queue)]),
    code: different([
      ...(groups.data?.groups ?? []).map(({ code }) => code),
      ...rows.map(({ errorCode }) => errorCode),
    ]),
    owner: different(rows.map(({ owner }) => owner)),
    batch: different(rows.map(({ batchId }) => batchId)),
  }
}
