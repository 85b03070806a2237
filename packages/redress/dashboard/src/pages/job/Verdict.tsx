import { useState } from 'preact/hooks'
import type { HoldView } from '../../../../src/core/job/hold.ts'
import type { FailureView } from '../../../../src/core/views/job.ts'
import type { JobActed } from '../../../../src/operations/jobs/interventions.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { isOwner, whyNot } from '../../api/session.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { FaultMark, GroupStateMark, StatusMark } from '../../parts/Marks.tsx'
import { Sentence } from '../../parts/Sentence.tsx'
import { Ago, Clock } from '../../parts/Time.tsx'
import { FAULT_WORDS } from '../../words/faults.ts'
import { groupHref, jobHref, jobsHref } from '../../words/links.ts'
import { ACTS, actOn, actOnJob, deleteWithLetter, editAndRetry, onceMore, retryOf } from './actions.tsx'
import { plainVerdict } from './plain-verdict.ts'

type Explanation = OutputOf<'jobs.explain'>
type Detail = OutputOf<'jobs.show'>

const TONES = { bad: 'bad', good: 'good', waiting: 'warn', plain: '' } as const

/** The ten seconds after an alert: how it stands, whose fault it is, whether anything will still happen, what to do. */
export function Verdict({ explained, job }: { explained: Explanation; job: Detail | null }) {
  const failure = presentFailure(explained)
  const [main, ...rest] = plainVerdict(explained, failure)
  return (
    <section class={`notice verdict ${TONES[explained.tone]}`} aria-label="Verdict">
      <p class="marks">
        <StatusMark status={explained.status} isOrphaned={(job?.orphanedAt ?? null) !== null} />
        {failure !== null && <FaultMark fault={failure.fault} />}
      </p>
      <Holds held={explained.held} />
      {main !== undefined && (
        <p class={explained.held.length === 0 ? 'main' : undefined}>
          <Sentence text={main} />
        </p>
      )}
      <p>
        {failure !== null && `${FAULT_WORDS[failure.fault].meaning} `}
        {rest.map((sentence) => (
          <span key={sentence}>
            <Sentence text={sentence} />{' '}
          </span>
        ))}
        {failure !== null && (
          <>
            Last failed <Clock at={failure.at} /> (<Ago at={failure.at} />
            ).
          </>
        )}
      </p>
      {job !== null && job.orphanedAt !== null && !isOwner() && (
        <p>
          <a href="/orphans">What each choice means</a>
        </p>
      )}
      <Alike explained={explained} failure={failure} />
      <Acts explained={explained} job={job} />
    </section>
  )
}

/** The newest failure, as long as it is the job's trouble: what ended well, or was cancelled, has none. */
function presentFailure({ status, steps }: Explanation): FailureView | null {
  if (status !== 'failed' && status !== 'queued') return null
  return steps.findLast(({ failure }) => failure !== null)?.failure ?? null
}

const HELD_BY: Readonly<Record<HoldView['by'], string>> = {
  breaker: '/breakers',
  queue: '/queues',
  concurrency: '/queues',
  rate: '/queues',
  workers: '/workers',
}

function Holds({ held }: { held: readonly HoldView[] }) {
  if (held.length === 0) return null
  return (
    <ul class="holds main">
      {held.map(({ by, name, why, until }) => (
        <li key={`${by} ${name}`}>
          {isOwner() ? <strong>{holder(by, name)}</strong> : <a href={HELD_BY[by]}>{holder(by, name)}</a>}:{' '}
          <Sentence text={why} />
          {until !== null && (
            <>
              , until <Clock at={until} /> (<Ago at={until} />)
            </>
          )}
          .
        </li>
      ))}
    </ul>
  )
}

const holder = (by: HoldView['by'], name: string): string =>
  by === 'workers' ? `No worker runs ${name}` : `Held by ${by} ${name}`

/** How many others have the same trouble: one decision may help them all. */
function Alike({ explained: { alike, type }, failure }: { explained: Explanation; failure: FailureView | null }) {
  if (isOwner() || failure === null) return null
  return (
    <p>
      {alike === null ? (
        <a href={jobsHref({ status: 'failed', code: failure.code, type })}>Others of this type with {failure.code}</a>
      ) : (
        <>
          <a href={groupHref(alike.fingerprint)}>
            {alike.others === 1 ? 'One other' : `${alike.others} others`} failed the same way
          </a>{' '}
          since <Clock at={alike.since} />. <GroupStateMark state={alike.state} />
        </>
      )}
    </p>
  )
}

/** The decisions about a job. The other acts change a job that waits, or delete one that has ended. */
const DECISIONS: ReadonlySet<string> = new Set(['retry', 'mark-failed', 'cancel'])

/** What may be done as buttons; what may not, with the reason. */
function Acts({ explained: { id, actions, retriedAs, status }, job }: { explained: Explanation; job: Detail | null }) {
  const [made, setMade] = useState<string | null>(null)
  const onDone = (answer: unknown): void => {
    const { job: now } = answer as Partial<JobActed>
    if (now !== undefined && now.id !== id) setMade(now.id)
  }
  const names = isOwner() ? actions.filter(({ name }) => whyNot(`jobs.${name}`) === null) : actions
  const allowed = names.filter((action) => action.allowed)
  const decisions = allowed.filter(({ name }) => DECISIONS.has(name))
  const changes = job === null ? [] : allowed.filter(({ name }) => !DECISIONS.has(name))
  const isAgain = retriedAs !== null && job !== null && job.manualRetry !== 'off' && whyNot('jobs.retry') === null
  const hasEnded = status !== 'queued' && status !== 'processing'
  const isWorthSaying = (name: string): boolean =>
    DECISIONS.has(name) || (name === 'delete' ? hasEnded : status === 'queued')
  // The verdict already says that it was retried.
  const refused = names.filter(({ allowed, name }) => !allowed && !(isAgain && name === 'retry') && isWorthSaying(name))
  const hasLetter = refused.some(({ name }) => name === 'delete') && whyNot('jobs.delete') === null
  const notYours = allowed.map(({ name }) => whyNot(`jobs.${name}`)).find((why) => why !== null)
  return (
    <>
      {decisions.length > 0 && (
        <p class="buttons">
          {decisions.map(({ name }) => (
            <ActButton key={name} act={actOn(id, name, onDone)}>
              {ACTS[name].word}
            </ActButton>
          ))}
          {job !== null && job.manualRetry === 'new-job' && allowed.some(({ name }) => name === 'retry') && (
            <ActButton act={editAndRetry(id, job.input, onDone)}>Edit and retry</ActButton>
          )}
        </p>
      )}
      {isAgain && (
        <p class="buttons">
          <ActButton act={retryOf({ id, retriedAs }, onDone)}>Retry again</ActButton>
          {job.manualRetry === 'new-job' && !isOwner() && (
            <ActButton act={onceMore(editAndRetry(id, job.input, onDone), retriedAs)}>Edit and retry again</ActButton>
          )}
        </p>
      )}
      {job !== null && (changes.length > 0 || hasLetter) && (
        <p class="buttons">
          {changes.map(({ name }) => (
            <ActButton key={name} act={actOnJob(job, name, onDone)}>
              {ACTS[name].word}
            </ActButton>
          ))}
          {hasLetter && <ActButton act={deleteWithLetter(id)}>Delete with its letter</ActButton>}
        </p>
      )}
      {notYours !== undefined && <p>{notYours}</p>}
      {made !== null && (
        <p role="status">
          A new job was made from this one: <a href={jobHref(made)}>{made}</a>
        </p>
      )}
      {refused.length > 0 && (
        <ul class="refused quiet">
          {refused.map(({ name, why }) => (
            <li key={name}>
              {ACTS[name].word}: no, {why}.
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
