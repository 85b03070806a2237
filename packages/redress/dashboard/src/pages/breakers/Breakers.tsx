import type { OutputOf } from '../../../../src/operations/table.ts'
import { about, useQuery } from '../../api/query.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { CopyButton } from '../../parts/Copy.tsx'
import { Page } from '../../parts/Page.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { Table } from '../../parts/Table.tsx'
import { Ago, Clock } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { jobsHref } from '../../words/links.ts'
import { count, percent, some } from '../../words/numbers.ts'
import { duration } from '../../words/time.ts'
import { BreakerMark } from './BreakerMark.tsx'
import '../../styles/breakers.css'

type Breaker = OutputOf<'breakers.list'>['breakers'][number]
type Detail = OutputOf<'breakers.show'>

export default function Breakers() {
  const breakers = useQuery('breakers.list', {}, { follows: about('breaker'), everyMs: 5_000 })
  return (
    <Page
      title="Breakers"
      aside={
        <CopyButton text={cliOf('breakers.list', {})} what="this list as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <Shown query={breakers}>
        {(found) =>
          found.breakers.length === 0 ? (
            <Empty title="No job type guards a dependency with a breaker.">
              <p>
                A policy with <code>breaker: &#123; guards: 'name' &#125;</code> makes one.
              </p>
            </Empty>
          ) : (
            found.breakers
              .toSorted((a, b) => URGENCY[a.status] - URGENCY[b.status] || (a.name < b.name ? -1 : 1))
              .map((breaker) => <BreakerCard key={breaker.name} breaker={breaker} />)
          )
        }
      </Shown>
    </Page>
  )
}

const URGENCY = { open: 0, 'half-open': 1, closed: 2 } as const

function BreakerCard({ breaker }: { breaker: Breaker }) {
  const { name, status, why, nextChangeAt, window, forced, mode, heldJobs, types, probe, underWay, allowed } = breaker
  const detail = useQuery('breakers.show', { name }, { follows: about(`breaker:${name}`), everyMs: 5_000 })
  return (
    <section class={`card breaker-${status}`} aria-labelledby={`breaker-${name}`}>
      <div class="page-head">
        <h2 id={`breaker-${name}`} class="flush">
          {name}
        </h2>
        <BreakerMark status={status} isForced={forced !== null} />
        <div class="page-aside">
          <Acts breaker={breaker} />
        </div>
      </div>
      <p class="said">{why}</p>
      {detail.data !== null && <Outcomes calls={detail.data.calls} />}
      <dl class="facts">
        <dt>Calls of late</dt>
        <dd>
          {window.calls === 0
            ? 'none'
            : `${some(window.failed, 'failed', 'failed')} of ${count(window.calls)} (${percent(window.failed, window.calls)})`}
          {detail.data !== null && <span class="quiet"> {threshold(detail.data)}</span>}
        </dd>
        <dt>While it is open</dt>
        <dd>{MODES[mode]}</dd>
        <dt>Held jobs</dt>
        <dd>
          {heldJobs === 0 ? (
            'none'
          ) : (
            <Held jobs={heldJobs} types={types.flatMap((type) => (type.mode === 'hold' ? [type.name] : []))} />
          )}
        </dd>
        <dt>Under way</dt>
        <dd>
          {count(underWay)}
          {allowed !== null && ` of at most ${count(allowed)}`}
        </dd>
        <dt>Next change</dt>
        <dd>{nextChangeAt === null ? 'when a call or a person changes it' : <Ago at={nextChangeAt} />}</dd>
        <dt>Health probe</dt>
        <dd>
          {probe.isDeclared ? 'by a program that is at work' : 'none: jobs are tried instead'}
          {probe.last !== null && (
            <>
              ; the last {probe.last.passed ? 'passed' : 'failed'} <Ago at={probe.last.at} />
              {probe.last.said !== '' && <span class="said">: {probe.last.said}</span>}
            </>
          )}
        </dd>
        {forced !== null && (
          <>
            <dt>Forced</dt>
            <dd class="said">
              {forced.status} by {forced.actor} <Ago at={forced.at} />: {forced.reason}{' '}
              {forced.until === null ? (
                '(until it is released)'
              ) : (
                <>
                  (ends <Ago at={forced.until} />)
                </>
              )}
            </dd>
          </>
        )}
      </dl>
      {detail.data !== null && <History detail={detail.data} />}
    </section>
  )
}

/** They are counted together: of several types, nobody knows here how many each has. */
function Held({ jobs, types }: { jobs: number; types: readonly string[] }) {
  const linked = (type: string, words: string) => (
    <a key={type} class="spaced" href={jobsHref({ type, status: 'queued' })}>
      {words}
    </a>
  )
  if (types.length === 1) return types.map((type) => linked(type, `${some(jobs, 'job')} of ${type}`))
  return (
    <>
      {some(jobs, 'job')} of these types: {types.map((type) => linked(type, type))}
    </>
  )
}

const MODES = {
  hold: 'jobs wait for it',
  'fail-fast': 'jobs fail at once, without a call',
  mixed: 'jobs of some types wait, of others fail at once',
} as const

const threshold = ({ policy }: Detail): string =>
  `opens at ${percent(policy.ratio, 1)} of at least ${count(policy.minCalls)} calls in ${duration(policy.windowMs)}, tries again after ${duration(policy.cooldownMs)}`

const FOR = {
  name: 'for',
  label: 'For how long',
  kind: 'text',
  initial: '30m',
  help: `'10m', '2h'; empty: until it is released`,
} as const

function Acts({ breaker: { name, status, forced } }: { breaker: Breaker }) {
  const input = { name }
  return (
    <span class="buttons">
      {status !== 'closed' && (
        <ActButton act={{ name: 'breakers.probe', input, title: `Try ${name} now`, verb: 'Try now' }}>
          Try now
        </ActButton>
      )}
      {forced !== null && (
        <ActButton
          act={{ name: 'breakers.release', input, title: `Let the counts decide about ${name}`, verb: 'Release' }}
        >
          Release
        </ActButton>
      )}
      <ActButton
        act={{
          name: 'breakers.open',
          input,
          title: `Force ${name} open`,
          verb: 'Force open',
          isDangerous: true,
          fields: [FOR],
          explain: <p>It is not called by anybody until then, whatever the counts say.</p>,
        }}
      >
        Force open
      </ActButton>
      <ActButton
        act={{
          name: 'breakers.close',
          input,
          title: `Force ${name} closed`,
          verb: 'Force closed',
          isDangerous: true,
          fields: [FOR],
          explain: <p>It is called whatever the counts say: jobs may fail that would have waited.</p>,
        }}
      >
        Force closed
      </ActButton>
    </span>
  )
}

function History({ detail: { history, name } }: { detail: Detail }) {
  if (history.length === 0) return null
  return (
    <details>
      <summary>What happened to it ({count(history.length)})</summary>
      <Table
        label={`History of breaker ${name}`}
        rows={history}
        keyOf={({ at, kind }) => `${at} ${kind}`}
        columns={[
          { head: 'What', isTitle: true, cell: ({ kind }) => kind },
          { head: 'When', cell: ({ at }) => <Clock at={at} /> },
          { head: 'Who', cell: ({ actor }) => actor ?? 'by itself' },
          { head: 'Why', cell: ({ reason }) => <span class="said">{reason ?? '–'}</span> },
        ]}
      />
    </details>
  )
}

const SHOWN_MAX = 20

type Calls = OutputOf<'breakers.show'>['calls'][number]

/** The last calls, a mark each, the newest on the right. Within one second their order is not known: failed ones last. */
function Outcomes({ calls }: { calls: readonly Calls[] }) {
  const outcomes = calls
    .toSorted((a, b) => (a.at < b.at ? -1 : 1))
    .flatMap(({ at, succeeded, failed }) => [
      ...Array.from({ length: Math.min(succeeded, SHOWN_MAX) }, (_, n) => ({ key: `${at} s${n}`, passed: true })),
      ...Array.from({ length: Math.min(failed, SHOWN_MAX) }, (_, n) => ({ key: `${at} f${n}`, passed: false })),
    ])
    .slice(-SHOWN_MAX)
  if (outcomes.length === 0) return null
  const failed = outcomes.filter(({ passed }) => !passed).length
  return (
    <p class="outcomes" role="img" aria-label={`Of the last ${some(outcomes.length, 'call')}, ${failed} failed`}>
      {outcomes.map(({ key, passed }) => (
        <span key={key} class={passed ? 'passed' : 'failed'}>
          {passed ? '✓' : '✕'}
        </span>
      ))}
    </p>
  )
}
