import { useLocation } from 'preact-iso'
import type { OutputOf } from '../../../src/operations/table.ts'
import { about, useQuery } from '../api/query.ts'
import { ActButton } from '../parts/actions/ActButton.tsx'
import { FilterForm, type FilterFormField } from '../parts/FilterForm.tsx'
import { Badge, StatusMark } from '../parts/Marks.tsx'
import { Page } from '../parts/Page.tsx'
import { Pager } from '../parts/Pager.tsx'
import { Empty, Shown } from '../parts/States.tsx'
import { Table } from '../parts/Table.tsx'
import { Ago } from '../parts/Time.tsx'
import { jobHref, policyHref } from '../words/links.ts'
import { count } from '../words/numbers.ts'

type Schedule = OutputOf<'schedules.list'>['schedules'][number]

const PAGE_SIZE = 100

const FIELDS: readonly FilterFormField[] = [
  { name: 'q', label: 'Search', hint: 'name or job type' },
  { name: 'owner', label: 'Owner', hint: 'a name' },
]

const TONES = { active: 'good', paused: 'warn', undeclared: 'bad', ended: 'plain' } as const

function meaningOf({ state, origin }: Pick<Schedule, 'state' | 'origin'>): string {
  switch (state) {
    case 'active':
      return origin === 'code'
        ? 'A working program declares it and takes its ticks.'
        : 'It is stored, and any worker takes its ticks.'
    case 'paused':
      return 'Its ticks are skipped until it is resumed.'
    case 'undeclared':
      return 'No working program declares it, so nothing takes its ticks.'
    case 'ended':
      return 'It has no further tick.'
  }
}

export default function Schedules() {
  const { query } = useLocation()
  const asked = Object.fromEntries(FIELDS.flatMap(({ name }) => (query[name] ? [[name, query[name]]] : [])))
  const paged = { ...asked, limit: PAGE_SIZE, ...(query.cursor !== undefined && { cursor: query.cursor }) }
  const schedules = useQuery('schedules.list', paged, { follows: about('schedule'), everyMs: 15_000 })
  const isFiltered = Object.keys(asked).length > 0
  return (
    <Page title="Schedules">
      <FilterForm label="Narrow the schedules" fields={FIELDS} />
      <Shown query={schedules}>
        {(found) => (
          <>
            {found.schedules.length === 0 ? (
              <Nothing isFiltered={isFiltered} />
            ) : (
              <Table label="Schedules" rows={found.schedules} keyOf={({ name }) => name} columns={COLUMNS} />
            )}
            <Pager param="cursor" next={found.nextCursor} of="the schedules" />
          </>
        )}
      </Shown>
    </Page>
  )
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  return isFiltered ? (
    <Empty title="No matching schedules.">
      <p>
        <a href="/schedules">Show all</a>
      </p>
    </Empty>
  ) : (
    <Empty title="There are no schedules.">
      <p>
        <code>app.schedule(name, &#123; cron, job &#125;)</code> declares one in code, and{' '}
        <code>redress schedules upsert</code> stores one at runtime.
      </p>
    </Empty>
  )
}

const COLUMNS = [
  { head: 'Schedule', isTitle: true, cell: ({ name }: Schedule) => <span class="name">{name}</span> },
  {
    head: 'State',
    cell: ({ state, origin, paused, problem }: Schedule) => (
      <>
        {problem === null ? (
          <Badge tone={TONES[state]} title={meaningOf({ state, origin })}>
            {state}
          </Badge>
        ) : (
          <Badge tone="bad" title="Its due tick cannot be taken; it is tried again.">
            stuck
          </Badge>
        )}
        {paused !== null && (
          <p class="quiet said">
            by {paused.actor}: {paused.reason}
          </p>
        )}
        {problem !== null && (
          <p class="said">
            {problem.message}
            {problem.retryAt !== null && (
              <span class="quiet">
                {' '}
                Tried again <Ago at={problem.retryAt} />.
              </span>
            )}
          </p>
        )}
      </>
    ),
  },
  {
    head: 'When',
    cell: (schedule: Schedule) => <When {...schedule} />,
  },
  {
    head: 'Makes',
    cell: ({ type, owner }: Schedule) => (
      <>
        <a class="name" href={policyHref(type)}>
          {type}
        </a>
        {owner !== null && <p class="quiet said">for {owner}</p>}
      </>
    ),
  },
  { head: 'Next', cell: ({ nextAt }: Schedule) => (nextAt === null ? '–' : <Ago at={nextAt} />) },
  {
    head: 'Last',
    cell: ({ lastAt, lastJob }: Schedule) => (
      <>
        {lastAt === null ? '–' : <Ago at={lastAt} />}{' '}
        {lastJob !== null && lastJob.status !== null && (
          <a href={jobHref(lastJob.id)}>
            <StatusMark status={lastJob.status} />
          </a>
        )}
      </>
    ),
  },
  { head: 'Runs', isNumber: true, cell: ({ runs }: Schedule) => count(runs) },
  { head: 'Skipped', isNumber: true, cell: ({ skipped }: Schedule) => count(skipped) },
  { head: 'Actions', cell: (schedule: Schedule) => <Acts {...schedule} /> },
]

function When({ cron, every, timezone, jitter, count: countMax, counted, from, until, nextAt }: Schedule) {
  const isBeforeFirst = from !== null && nextAt !== null && nextAt === from
  return (
    <>
      {cron === null ? (
        <span>every {every}</span>
      ) : (
        <>
          <code>{cron}</code> <span class="quiet">{timezone}</span>
        </>
      )}
      {jitter !== null && <p class="quiet said">jitter up to {jitter}</p>}
      {countMax !== null && (
        <p class="quiet said">
          {count(counted)} of {count(countMax)} runs
        </p>
      )}
      {isBeforeFirst && (
        <p class="quiet said">
          begins <Ago at={from} />
        </p>
      )}
      {until !== null && (
        <p class="quiet said">
          ends <Ago at={until} />
        </p>
      )}
    </>
  )
}

function Acts({ name, state, origin }: Schedule) {
  return (
    <span class="buttons">
      {state === 'paused' ? (
        <ActButton
          isSmall
          act={{ name: 'schedules.resume', input: { name }, title: `Resume schedule ${name}`, verb: 'Resume' }}
        >
          Resume
        </ActButton>
      ) : (
        <ActButton
          isSmall
          act={{ name: 'schedules.pause', input: { name }, title: `Pause schedule ${name}`, verb: 'Pause' }}
        >
          Pause
        </ActButton>
      )}
      <ActButton
        isSmall
        act={{ name: 'schedules.trigger', input: { name }, title: `Run schedule ${name} now`, verb: 'Run now' }}
      >
        Run now
      </ActButton>
      {(state === 'undeclared' || origin === 'runtime') && (
        <ActButton
          isSmall
          act={{
            name: 'schedules.remove',
            input: { name },
            title: `Remove schedule ${name}`,
            verb: 'Remove',
            isDangerous: true,
          }}
        >
          Remove
        </ActButton>
      )}
    </span>
  )
}
