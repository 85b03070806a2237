import type { ComponentChildren } from 'preact'
import type { JobView } from '../../../../src/core/views/job.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { isOwner } from '../../api/session.ts'
import { Id } from '../../parts/Copy.tsx'
import { StatusMark } from '../../parts/Marks.tsx'
import { Ago, Clock } from '../../parts/Time.tsx'
import { jobHref, jobsHref, policyHref } from '../../words/links.ts'
import { some } from '../../words/numbers.ts'

/** What else is known of a job: where it belongs, where it comes from, its times. */
export function Facts({ job, made }: { job: OutputOf<'jobs.show'>; made: readonly JobView[] }) {
  const facts: readonly [string, ComponentChildren][] = [
    ['Type', isOwner() ? job.type : <a href={policyHref(job.type)}>{job.type}</a>],
    ['Queue', job.queue],
    [
      'Owner',
      job.owner === null ? (
        'nobody'
      ) : (
        <a class="said" href={jobsHref({ owner: job.owner })}>
          {job.owner}
        </a>
      ),
    ],
    ['Batch', job.batchId !== null && <Id id={job.batchId} href={`/batches/${encodeURIComponent(job.batchId)}`} />],
    ['Retry of', job.retriedFrom !== null && <Id id={job.retriedFrom} href={jobHref(job.retriedFrom)} />],
    ['Retried as', made.length > 0 ? <Made jobs={made} /> : job.retriedAs !== null && <Gone id={job.retriedAs} />],
    ['Attempts', `${job.attemptCount} of ${job.maxAttempts}`],
    ['Retried by hand', job.manualRetryCount > 0 && some(job.manualRetryCount, 'time')],
    ['Submitted', <When at={job.createdAt} />],
    ['Last attempt', job.lastAttemptAt !== null && <When at={job.lastAttemptAt} />],
    ['Next attempt', job.retryAfter !== null && <When at={job.retryAfter} />],
    ['Finished', job.finishedAt !== null && <When at={job.finishedAt} />],
    ['Worker', job.worker !== null && <span class="code said">{job.worker}</span>],
    ['Lease until', job.leaseUntil !== null && <When at={job.leaseUntil} />],
    ['Orphaned', job.orphanedAt !== null && <When at={job.orphanedAt} />],
    ['Asked to cancel', job.cancelRequestedAt !== null && <When at={job.cancelRequestedAt} />],
    ['Progress', job.status === 'processing' && job.progress > 0 && `${Math.round(job.progress * 100)} %`],
    ['Priority', job.priority !== 0 && String(job.priority)],
    [
      'Dead letter',
      job.deadLettered &&
        (isOwner() ? 'kept' : <a href={`/dead-letters?type=${encodeURIComponent(job.type)}`}>kept</a>),
    ],
  ]
  return (
    <section class="card" aria-labelledby="facts">
      <h2 id="facts" class="flush">
        Facts
      </h2>
      <dl class="facts">
        {facts.map(
          ([name, value]) =>
            value !== false && (
              <>
                <dt key={`${name} name`}>{name}</dt>
                <dd key={name}>{value}</dd>
              </>
            ),
        )}
      </dl>
    </section>
  )
}

/** The jobs that were made from it, each with how it stands. */
const Made = ({ jobs }: { jobs: readonly JobView[] }) => (
  <ul class="made">
    {jobs.map(({ id, status, orphanedAt }) => (
      <li key={id}>
        <Id id={id} href={jobHref(id)} /> <StatusMark status={status} isOrphaned={orphanedAt !== null} />
      </li>
    ))}
  </ul>
)

/** Retention or a person has removed it. */
const Gone = ({ id }: { id: string }) => (
  <>
    <code>{id}</code> <span class="quiet">(removed)</span>
  </>
)

const When = ({ at }: { at: string }) => (
  <>
    <Clock at={at} />{' '}
    <span class="quiet">
      (<Ago at={at} />)
    </span>
  </>
)
