import { useLocation, useRoute } from 'preact-iso'
import type { FailureView } from '../../../../src/core/views/job.ts'
import type { LetterView } from '../../../../src/operations/dead-letters/dead-letters.ts'
import { useQuery } from '../../api/query.ts'
import { CopyButton } from '../../parts/Copy.tsx'
import { LongText, LongValue } from '../../parts/LongText.tsx'
import { FaultMark, StatusMark } from '../../parts/Marks.tsx'
import { Page } from '../../parts/Page.tsx'
import { Shown } from '../../parts/States.tsx'
import { Ago } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { FAULT_WORDS } from '../../words/faults.ts'
import { mayTouchLetters } from '../../words/letters.ts'
import { groupHref, jobHref } from '../../words/links.ts'
import { PurgeButton, ReplayButton, ReplayEditedButton } from './LetterActions.tsx'

export default function DeadLetter() {
  const { offset = '' } = useRoute().params
  const { route } = useLocation()
  const query = useQuery('dead-letters.show', { offset }, { follows: mayTouchLetters })
  const letter = query.data
  return (
    <Page
      title={`Dead letter ${offset}`}
      aside={
        letter !== null && (
          <>
            <ReplayButton letter={letter} />
            <ReplayEditedButton letter={letter} />
            <PurgeButton offset={letter.offset} onDone={() => route('/dead-letters')} />
            <CopyButton text={cliOf('dead-letters.show', { offset })} what="this letter as a command">
              Copy as CLI
            </CopyButton>
          </>
        )
      }
    >
      <Shown query={query}>{(shown) => <Letter letter={shown} />}</Shown>
    </Page>
  )
}

function Letter({ letter }: { letter: LetterView }) {
  const { jobId, jobStatus, type, owner, attempts, at, failure, input } = letter
  return (
    <>
      <WhatNow letter={letter} />
      <dl class="facts">
        <dt>Job</dt>
        <dd>
          <a href={jobHref(jobId)}>
            <code>{jobId}</code>
          </a>{' '}
          <StatusMark status={jobStatus} />
        </dd>
        <dt>Type</dt>
        <dd class="said">{type}</dd>
        <dt>Owner</dt>
        <dd class="said">{owner ?? '–'}</dd>
        <dt>Attempts</dt>
        <dd>{attempts}</dd>
        <dt>Set aside</dt>
        <dd>
          <Ago at={at} />
        </dd>
      </dl>
      <h2>Why it failed</h2>
      <Failure failure={failure} />
      <h2>Its input</h2>
      <LongValue value={input} what="the input" />
    </>
  )
}

/** What a replay would do; or why there is none, and then where its work went on. */
function WhatNow({ letter: { replay, replays, replayedAs, replayedAt } }: { letter: LetterView }) {
  if (replay.allowed) {
    return (
      <div class="notice">
        <p>
          <strong>It can be replayed:</strong> {replay.why}.
        </p>
      </div>
    )
  }
  if (replays > 0 && replayedAs !== null && replayedAt !== null) {
    return (
      <div class="notice good">
        <p>
          <strong>It was replayed</strong> <Ago at={replayedAt} /> as job{' '}
          <a href={jobHref(replayedAs)}>
            <code>{replayedAs}</code>
          </a>
          {replays > 1 && `, and ${replays} times in all`}. See there what became of it.
        </p>
      </div>
    )
  }
  return (
    <div class="notice warn">
      <p>
        <strong>It cannot be replayed:</strong> {replay.why}.
      </p>
    </div>
  )
}

function Failure({ failure }: { failure: FailureView }) {
  const { fault, code, message, detail, phase, worker, rule, decision, causes, context, fingerprint } = failure
  return (
    <>
      <p>
        <FaultMark fault={fault} /> <code>{code}</code> <span class="said">{message}</span>
      </p>
      <p class="quiet">{FAULT_WORDS[fault].meaning}</p>
      {detail !== '' && <LongText text={detail} what="what was thrown" />}
      <dl class="facts">
        <dt>Decided</dt>
        <dd>{decision.because}</dd>
        <dt>Phase</dt>
        <dd>{phase}</dd>
        <dt>Worker</dt>
        <dd class="said">{worker ?? '–'}</dd>
        <dt>Code chosen by</dt>
        <dd class="said">{rule}</dd>
        {causes.length > 0 && (
          <>
            <dt>Caused by</dt>
            <dd>
              {causes.map((cause) => (
                <div key={`${cause.name} ${cause.message}`} class="said">
                  {cause.name}: {cause.message}
                </div>
              ))}
            </dd>
          </>
        )}
        <dt>Failed alike</dt>
        <dd>
          <a href={groupHref(fingerprint)}>See all that failed in the same way</a>
        </dd>
      </dl>
      {Object.keys(context).length > 0 && (
        <>
          <h3>What was known of it</h3>
          <LongValue value={context} what="the context" />
        </>
      )}
    </>
  )
}
