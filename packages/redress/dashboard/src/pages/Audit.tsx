import { useLocation } from 'preact-iso'
import { CATALOG, type CatalogEntry } from '../../../src/operations/catalog.ts'
import { useQuery } from '../api/query.ts'
import { AuditEntries } from '../parts/AuditEntries.tsx'
import { CopyButton } from '../parts/Copy.tsx'
import { FilterForm, type FilterFormField } from '../parts/FilterForm.tsx'
import { Page } from '../parts/Page.tsx'
import { Pager } from '../parts/Pager.tsx'
import { Empty, Shown } from '../parts/States.tsx'
import { cliOf } from '../words/cli.ts'

const PAGE_SIZE = 50

const TARGETS = [
  ...['job', 'batch', 'queue', 'breaker', 'replay', 'schedule', 'dead-letter', 'failure-group', 'notice', 'account'],
  ...['token', 'session', 'link', 'store'],
]
const ACTS = Object.entries<CatalogEntry>(CATALOG).flatMap(([name, { needsActor }]) => (needsActor ? [name] : []))
const GROUPS = [...new Set(ACTS.map((name) => name.split('.')[0] as string))]

const FIELDS: readonly FilterFormField[] = [
  { name: 'by', label: 'Who', hint: 'a name' },
  { name: 'act', label: 'What', hint: 'jobs.retry', suggestions: [...GROUPS, ...ACTS] },
  {
    name: 'target',
    label: 'To which kind of thing',
    choices: [{ value: '', label: 'any' }, ...TARGETS.map((value) => ({ value, label: value }))],
  },
  { name: 'id', label: 'To which one', hint: 'an id or a name' },
  { name: 'since', label: 'Since', hint: '2h, 2026-01-31', suggestions: ['1h', '24h', '7d', '30d'] },
]

/** Who did what, why, and to which things. */
export default function Audit() {
  const { query } = useLocation()
  const asked = Object.fromEntries(FIELDS.flatMap(({ name }) => (query[name] ? [[name, query[name]]] : [])))
  const paged = { ...asked, limit: PAGE_SIZE, ...(query.cursor !== undefined && { cursor: query.cursor }) }
  // Not every act is an event that is told of.
  const trail = useQuery('audit.list', paged, { everyMs: 10_000 })
  return (
    <Page
      title="Audit"
      aside={
        <CopyButton text={cliOf('audit.list', asked)} what="this filter as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <FilterForm label="Narrow the audit trail" fields={FIELDS} />
      <Shown query={trail}>
        {({ entries, nextCursor }) => (
          <>
            {entries.length === 0 ? (
              <Nothing isFiltered={Object.keys(asked).length > 0} />
            ) : (
              <AuditEntries entries={entries} label="Acts, the newest first" />
            )}
            <Pager param="cursor" next={nextCursor} of="the audit trail" />
          </>
        )}
      </Shown>
    </Page>
  )
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No matching entries.">
      <p>
        Or it was done before the trail begins. <a href="/audit">Show everything</a>
      </p>
    </Empty>
  ) : (
    <Empty title="No person has done anything yet.">
      <p>Every change by a person is recorded with actor, reason and time, whether by page, command line or HTTP.</p>
    </Empty>
  )
}
