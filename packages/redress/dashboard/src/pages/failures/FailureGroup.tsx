import { useRoute } from 'preact-iso'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { about, useQuery } from '../../api/query.ts'
import { CopyButton, Id } from '../../parts/Copy.tsx'
import { Sparkline } from '../../parts/charts/Sparkline.tsx'
import { FaultMark, GroupStateMark, StatusMark } from '../../parts/Marks.tsx'
import { Page } from '../../parts/Page.tsx'
import { Empty, Shown } from '../../parts/States.tsx'
import { Table } from '../../parts/Table.tsx'
import { Ago, Clock } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { FAULT_WORDS } from '../../words/faults.ts'
import { jobHref, jobsHref, policyHref } from '../../words/links.ts'
import { count, percent, some } from '../../words/numbers.ts'
import { GroupActs } from './actions.tsx'
import '../../styles/failures.css'
import type { Fault } from '../../../../src/core/failure/failure.ts'

type Detail = OutputOf<'failures.show'>

export default function FailureGroup() {
  const { params } = useRoute()
  const fingerprint = params.fingerprint ?? ''
  const group = useQuery('failures.show', { fingerprint }, { follows: about('job', 'failures'), everyMs: 30_000 })
  return (
    <Page
      title={group.data?.code ?? 'Failures of one cause'}
      aside={
        <CopyButton text={cliOf('failures.show', { fingerprint })} what="this as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <Shown query={group}>
        {(detail) => (
          <>
            <Summary detail={detail} />
            <Common detail={detail} />
            <Jobs detail={detail} />
            <Batches detail={detail} />
            <Sample detail={detail} />
            <History detail={detail} />
          </>
        )}
      </Shown>
    </Page>
  )
}

function Summary({ detail }: { detail: Detail }) {
  const { code, message, fault, type, queue, state, stateBy, stateReason, snoozedUntil, snoozedForMore } = detail
  return (
    <section class="card" aria-label="Summary">
      <p class="buttons">
        <FaultMark fault={fault} />
        <GroupStateMark state={state} />
        <a href={policyHref(type)}>{type}</a> <span class="quiet">queue {queue}</span>
      </p>
      <p>
        <strong class="said">{message}</strong> {FAULT_WORDS[fault].meaning}
      </p>
      <p>
        {some(detail.count, 'failure')} since <Clock at={detail.firstSeenAt} />, the last <Ago at={detail.lastSeenAt} />
        . {detail.finalCount === 0 ? 'None ended its job.' : `${some(detail.finalCount, 'job')} ended by it.`}
      </p>
      {stateBy !== null && (
        <p class="quiet said">
          {state} by {stateBy}: {stateReason}
          {snoozedUntil !== null && (
            <>
              {' '}
              (comes back <Ago at={snoozedUntil} />
              {snoozedForMore !== null && `, or after ${some(snoozedForMore, 'more failure')}`})
            </>
          )}
        </p>
      )}
      <p>
        <strong>What to do:</strong> {nextStep(detail)}
      </p>
      <p class="buttons">
        <GroupActs group={detail} />
        <a class="button plain" href={`/replays/new?fingerprint=${encodeURIComponent(detail.fingerprint)}`}>
          Replay its dead letters
        </a>
        <a class="button plain" href={jobsHref({ type, code, status: 'failed' })}>
          Failed jobs with this code
        </a>
      </p>
      <Sparkline counts={detail.hours.map((hour) => hour.count)} of="Failures" isWide />
      <p class="quiet">Failures per hour of the last day, this hour on the right.</p>
    </section>
  )
}

/** A value that most of them share says more than any message. */
function Common({ detail: { fields, count: all } }: { detail: Detail }) {
  if (fields.length === 0) return null
  return (
    <section aria-labelledby="common">
      <h2 id="common">What they have in common</h2>
      <ul class="shares">
        {fields.flatMap(({ field, values }) =>
          values.slice(0, 3).map(({ value, count: n, over }) => (
            <li
              key={`${field}=${value}`}
              title={over === 0 ? `${count(n)} failures` : `${count(n - over)} to ${count(n)} failures`}
            >
              <strong class="number">{percent(Math.min(n, all), all)}</strong>
              <code class="said">
                {field}={value}
              </code>
            </li>
          )),
        )}
      </ul>
    </section>
  )
}

function Jobs({ detail: { jobs } }: { detail: Detail }) {
  return (
    <section aria-labelledby="jobs">
      <h2 id="jobs">Its newest jobs</h2>
      {jobs.length === 0 ? (
        <Empty title="None of its jobs is kept any more." />
      ) : (
        <Table
          label="Newest jobs of this group"
          rows={jobs}
          keyOf={({ id, attempt }) => `${id} ${attempt}`}
          columns={[
            { head: 'Job', isTitle: true, cell: ({ id }) => <Id id={id} href={jobHref(id)} /> },
            { head: 'Status', cell: ({ status }) => <StatusMark status={status} /> },
            { head: 'Attempt', isNumber: true, cell: ({ attempt }) => attempt },
            { head: 'Failed', cell: ({ at }) => <Ago at={at} /> },
          ]}
        />
      )}
    </section>
  )
}

function Batches({ detail: { batches } }: { detail: Detail }) {
  if (batches.length === 0) return null
  return (
    <section aria-labelledby="batches">
      <h2 id="batches">Batches they belong to</h2>
      <Table
        label="Batches of its newest jobs"
        rows={batches}
        keyOf={({ id }) => id}
        columns={[
          {
            head: 'Batch',
            isTitle: true,
            cell: ({ id, name }) => <a href={`/batches/${encodeURIComponent(id)}`}>{name}</a>,
          },
          { head: 'State', cell: ({ state }) => state },
          { head: 'Of the newest jobs', isNumber: true, cell: ({ count: n }) => count(n) },
        ]}
      />
    </section>
  )
}

function Sample({ detail: { sample } }: { detail: Detail }) {
  if (sample === null) return null
  const { detail, causes, context, rule, phase } = sample
  return (
    <section aria-labelledby="sample">
      <h2 id="sample">One of them in full</h2>
      <dl class="facts">
        <dt>What was thrown</dt>
        <dd class="said">{detail}</dd>
        {causes.map(({ name, message }) => (
          <>
            <dt>caused by {name}</dt>
            <dd class="said">{message}</dd>
          </>
        ))}
        <dt>Phase</dt>
        <dd>{phase}</dd>
        <dt>Recognized by</dt>
        <dd class="said">{rule}</dd>
        <dt>Decided</dt>
        <dd class="said">{sample.decision.because}</dd>
      </dl>
      {Object.keys(context).length > 0 && <pre>{JSON.stringify(context, null, 2)}</pre>}
    </section>
  )
}

function History({ detail: { history } }: { detail: Detail }) {
  if (history.length === 0) return null
  return (
    <section aria-labelledby="history">
      <h2 id="history">What became of the group</h2>
      <Table
        label="History of this group"
        rows={history}
        keyOf={({ at, kind }) => `${at} ${kind}`}
        columns={[
          { head: 'What', isTitle: true, cell: ({ kind }) => kind },
          { head: 'When', cell: ({ at }) => <Ago at={at} /> },
          { head: 'Who', cell: ({ actor }) => actor ?? 'by itself' },
          { head: 'Why', cell: ({ reason }) => <span class="said">{reason ?? '–'}</span> },
        ]}
      />
    </section>
  )
}

const STEPS: Readonly<Record<Fault, string>> = {
  caller: 'Tell the submitter what is wrong with the input. A retry with the same input fails again.',
  dependency: 'See whether the other service is back, then retry or replay. A breaker keeps more of them from failing.',
  system: 'Mend the machine first: disk, memory or network. Then retry or replay.',
  code: 'Mend the program and deploy it, then resolve the group and retry or replay.',
  operator: 'Ask the person who decided it; the audit trail has the name and the reason.',
  unknown: 'Read the thrown error and give it a failure code, so that a rule handles the next one.',
}

/** What helps, going by whose fault it is. */
const nextStep = ({ fault }: { fault: Fault }): string => STEPS[fault]
