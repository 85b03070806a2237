import type { OutputOf } from '../../../src/operations/table.ts'
import { about, useQuery } from '../api/query.ts'
import { ActButton } from '../parts/actions/ActButton.tsx'
import { Badge, StatusMark } from '../parts/Marks.tsx'
import { Page } from '../parts/Page.tsx'
import { Empty, Shown } from '../parts/States.tsx'
import { Table } from '../parts/Table.tsx'
import { Ago } from '../parts/Time.tsx'
import { jobHref, policyHref } from '../words/links.ts'
import { count } from '../words/numbers.ts'

type Schedule = OutputOf<'schedules.list'>['schedules'][number]

const TONES = { active: 'good', paused: 'warn', undeclared: 'bad', ended: 'plain' } as const
const MEANINGS = {
  active: 'A working program declares it and takes its ticks.',
  paused: 'Its ticks are skipped until it is resumed.',
  undeclared: 'No working program declares it, so nothing takes its ticks.',
  ended: 'It has no further tick.',
} as const

export default function Schedules() {
  const schedules = useQuery('schedules.list', {}, { follows: about('schedule'), everyMs: 15_000 })
  return (
    <Page title="Schedules">
      <Shown query={schedules}>
        {(found) =>
          found.schedules.length === 0 ? (
            <Empty title="No program has declared a schedule.">
              <p>
                <code>app.schedule(name, &#123; cron, job &#125;)</code> declares one.
              </p>
            </Empty>
          ) : (
            <Table label="Schedules" rows={found.schedules} keyOf={({ name }) => name} columns={COLUMNS} />
          )
        }
      </Shown>
    </Page>
  )
}

const COLUMNS = [
  { head: 'Schedule', isTitle: true, cell: ({ name }: Schedule) => <span class="name">{name}</span> },
  {
    head: 'State',
    cell: ({ state, paused, problem }: Schedule) => (
      <>
        <Badge tone={TONES[state]} title={MEANINGS[state]}>
          {state}
        </Badge>
        {paused !== null && (
          <p class="quiet said">
            by {paused.actor}: {paused.reason}
          </p>
        )}
        {problem !== null && <p class="said">{problem.message}</p>}
      </>
    ),
  },
  {
    head: 'When',
    cell: ({ cron, timezone }: Schedule) => (
      <>
        <code>{cron}</code> <span class="quiet">{timezone}</span>
      </>
    ),
  },
  {
    head: 'Makes',
    cell: ({ type }: Schedule) => (
      <a class="name" href={policyHref(type)}>
        {type}
      </a>
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

function Acts({ name, state }: Schedule) {
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
      {state === 'undeclared' && (
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
