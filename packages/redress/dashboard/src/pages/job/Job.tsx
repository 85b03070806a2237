import '../../styles/job.css'
import { useRoute } from 'preact-iso'
import type { Status } from '../../../../src/core/job/states.ts'
import type { JobView } from '../../../../src/core/views/job.ts'
import type { Refused } from '../../api/perform.ts'
import { about, useQuery } from '../../api/query.ts'
import { isOwner, whyNot } from '../../api/session.ts'
import { AuditEntries } from '../../parts/AuditEntries.tsx'
import { CopyButton } from '../../parts/Copy.tsx'
import { LongValue } from '../../parts/LongText.tsx'
import { Page } from '../../parts/Page.tsx'
import { Loading, Problem } from '../../parts/States.tsx'
import { Ago } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { addressOf } from '../../words/links.ts'
import { type PastHold, pausesOf } from '../../words/past-holds.ts'
import { statusPeriods } from '../breakers/status-periods.ts'
import { Facts } from './Facts.tsx'
import { Log, Progress } from './Reports.tsx'
import { Steps } from './Steps.tsx'
import { Timeline } from './Timeline.tsx'
import { Verdict } from './Verdict.tsx'

const AUDIT_SHOWN = 20
const MADE_SHOWN = 20

export default function Job() {
  const id = useRoute().params.id ?? ''
  return <JobOf key={id} id={id} />
}

function JobOf({ id }: { id: string }) {
  // What holds a job back, how long it has run, what was made from it: that changes without an event of its own.
  const follows = { follows: about(`job:${id}`, 'breaker', 'queue'), everyMs: 10_000 }
  const explained = useQuery('jobs.explain', { id }, follows)
  const shown = useQuery('jobs.show', { id }, follows)
  const history = useQuery('jobs.events', { id }, { follows: about(`job:${id}`) })
  const made = useQuery('jobs.list', { retriedFrom: id, limit: MADE_SHOWN }, follows)
  const mayAudit = whyNot('audit.list') === null
  const audit = useQuery('audit.list', mayAudit ? { id, limit: AUDIT_SHOWN } : null, follows)
  const { data: explanation, problem } = explained
  const holds = usePastHolds(shown.data, Date.parse(explanation?.at ?? '') || 0)

  if (problem?.code === 'JOB_NOT_FOUND') return <NotThere id={id} problem={problem} />
  if (explanation === null)
    return <Page title="Job">{problem === null ? <Loading /> : <Problem problem={problem} />}</Page>
  const job = shown.data
  return (
    <Page
      title={explanation.type}
      aside={
        <CopyButton text={cliOf('jobs.explain', { id })} what="this as a command">
          Copy as CLI
        </CopyButton>
      }
    >
      <p class="job-id">
        <code>{id}</code> <CopyButton text={id} what="the id" />{' '}
        <span class="quiet">
          submitted <Ago at={explanation.submittedAt} />
        </span>
      </p>
      {problem !== null && <Problem problem={problem} />}
      <Verdict explained={explanation} job={job} />
      {job !== null && <Progress job={job} />}
      <div class="beside">
        <div>
          <h2>What happened</h2>
          {history.data !== null && (
            <Timeline
              events={history.data.events}
              at={explanation.at}
              isHeld={explanation.held.length > 0}
              holds={holds}
            />
          )}
          <Steps steps={explanation.steps} />
          <Log id={id} />
          {shown.problem !== null && <Problem problem={shown.problem} />}
          {job !== null && (
            <>
              <h2>Input</h2>
              <LongValue value={job.input} what="the input" />
              <h2>Result</h2>
              {job.result === null ? (
                <p class="quiet">{NO_RESULT[job.status]}</p>
              ) : (
                <LongValue value={job.result} what="the result" />
              )}
            </>
          )}
        </div>
        <div>{job !== null && <Facts job={job} made={made.data?.jobs ?? []} />}</div>
      </div>
      {audit.data !== null && !isOwner() && (
        <>
          <h2>Who did what to it</h2>
          {audit.data.entries.length === 0 ? (
            <p class="quiet">No person has done anything to this job.</p>
          ) : (
            <AuditEntries entries={audit.data.entries} label="Acts on this job, the newest first" />
          )}
          {audit.data.nextCursor !== null && <a href={addressOf('/audit', { id })}>All of them</a>}
        </>
      )}
    </Page>
  )
}

const NO_RESULT: Readonly<Record<Status, string>> = {
  queued: 'There is none yet.',
  processing: 'There is none yet.',
  complete: 'It gave back nothing.',
  failed: 'There is none: the job failed.',
  cancelled: 'There is none: the job was cancelled.',
}

function NotThere({ id, problem }: { id: string; problem: Refused }) {
  return (
    <Page title="This job is not here">
      <Problem problem={problem} />
      <p>
        It may have been removed: a job that has ended is kept as long as the <code>retention</code> of its type says,
        and then goes with its history. A person can also delete it before. Or the address was cut off
        {isOwner() && ', or the job belongs to another owner'}.
      </p>
      <ul>
        <li>
          <a href="/jobs">Look for it among the jobs</a>
        </li>
        {!isOwner() && (
          <>
            <li>
              <a href={addressOf('/audit', { id })}>See who did something to it</a>: the audit trail is kept longer
            </li>
            <li>
              <a href="/dead-letters">Look for it among the dead letters</a>
            </li>
          </>
        )}
      </ul>
    </Page>
  )
}

const ACTS_MAX = 50
const NEVER = { follows: () => false }

/**
 * What kept a job back in its time, as far as it is known: a job that was never begun has no event of that, but the
 * breaker and the queue have. Whoever may not see those sees that it waited.
 */
function usePastHolds(job: JobView | null, nowMs: number): PastHold[] {
  const may = job !== null && whyNot('breakers.show') === null
  const types = useQuery('types.list', may ? {} : null, NEVER)
  const breaker = types.data?.types.find(({ name }) => name === job?.type)?.policy.breaker ?? null
  const name = breaker?.mode === 'hold' ? breaker.guards : null
  const shown = useQuery('breakers.show', name === null ? null : { name }, { follows: about(`breaker:${name}`) })
  const queue = job?.queue ?? ''
  const asked = may && whyNot('audit.list') === null ? { target: 'queue', id: queue, limit: ACTS_MAX } : null
  const acts = useQuery('audit.list', asked, { follows: about(`queue:${queue}`) })
  if (job === null) return []
  const periods =
    shown.data === null ? [] : statusPeriods(shown.data.history, shown.data.status, Date.parse(job.createdAt), nowMs)
  return [
    ...periods.flatMap(({ status, fromMs, toMs }) =>
      status === 'closed' ? [] : [{ fromMs, toMs, by: `breaker ${name}` }],
    ),
    ...pausesOf(queue, acts.data?.entries ?? [], nowMs),
  ]
}
