import type { ExplainedStep } from '../../../../src/core/explain/explain.ts'
import type { FailureView } from '../../../../src/core/views/job.ts'
import { LongText, LongValue } from '../../parts/LongText.tsx'
import { FaultMark } from '../../parts/Marks.tsx'
import { Sentence } from '../../parts/Sentence.tsx'
import { Ago, Clock } from '../../parts/Time.tsx'
import { FAULT_WORDS } from '../../words/faults.ts'
import { duration } from '../../words/time.ts'

const SHOWN_MAX = 100

/** What happened to a job, the newest first: its attempts, and what came between them. */
export function Steps({ steps }: { steps: readonly ExplainedStep[] }) {
  const newest = steps.findLast(({ attempt, failure }) => attempt !== null || failure !== null)
  const shown = steps.slice(-SHOWN_MAX).toReversed()
  return (
    <>
      <ol class="steps" reversed>
        {shown.map((step) => (
          <li key={`${step.at} ${step.attempt} ${step.text}`}>
            <Step step={step} isOpen={step === newest} />
          </li>
        ))}
      </ol>
      {steps.length > SHOWN_MAX && <p class="quiet">{steps.length - SHOWN_MAX} older steps are not shown.</p>}
    </>
  )
}

const TONES = { bad: 'tone-bad', good: 'tone-good', waiting: 'tone-warn', plain: '' } as const

function Step({ step, isOpen }: { step: ExplainedStep; isOpen: boolean }) {
  const { at, attempt, worker, ranMs, text, tone, notes, stages, failure, ended } = step
  return (
    <>
      <p class="step-head">
        {attempt === null ? (
          <Sentence text={capitalised(text)} />
        ) : (
          <>
            <strong>Attempt {attempt}</strong>
            {worker !== null && (
              <>
                {' '}
                on <span class="code said">{worker}</span>
              </>
            )}
            {ranMs !== null && `, ran ${duration(ranMs)}`}
          </>
        )}{' '}
        <span class="quiet">
          <Clock at={at} /> (<Ago at={at} />)
        </span>
      </p>
      {notes.map((note) => (
        <p key={note.text} class={TONES[note.tone]}>
          <Sentence text={capitalised(note.text)} />, {duration(note.sinceSubmittedMs)} after it was submitted.
        </p>
      ))}
      {failure !== null && <Failure failure={failure} isOpen={isOpen} />}
      {stages.map(({ name, tries, max, failed, codes }) => (
        <p key={name}>
          Stage <span class="said">{name}</span>: {tries} of at most {max} tries, {failed} failed
          {Object.entries(codes).map(([code, n]) => `, ${code} × ${n}`)}.
        </p>
      ))}
      {ended !== null && (
        <p class={TONES[attempt === null ? tone : ended.tone]}>
          Then: <Sentence text={ended.text} />.
        </p>
      )}
      {attempt !== null && ended === null && (
        <p>{notes.at(-1)?.tone === 'bad' ? 'Its progress is unknown.' : 'It is running.'}</p>
      )}
    </>
  )
}

function Failure({ failure, isOpen }: { failure: FailureView; isOpen: boolean }) {
  const { code, fault, to, message, waiting, detail } = failure
  return (
    <>
      <p>
        <FaultMark fault={fault} /> <code>{code}</code> <span class="said">{to === 'queued' ? waiting : message}</span>
      </p>
      {detail !== '' && <p class={`said detail ${isOpen ? '' : 'short'}`}>{detail}</p>}
      <details open={isOpen}>
        <summary>The whole record of this failure</summary>
        {detail !== '' && !isOpen && <p class="said detail">{detail}</p>}
        <Record failure={failure} />
      </details>
    </>
  )
}

function Record({ failure }: { failure: FailureView }) {
  const { phase, layer, rule, causes, context, decision, fault } = failure
  const { stderrTail, ...facts } = context
  const { rule: decidedBy, budget, delay } = decision
  return (
    <>
      <dl class="facts">
        <dt>Fault</dt>
        <dd>{FAULT_WORDS[fault].meaning}</dd>
        <dt>Failed in</dt>
        <dd>
          {PHASE_WORDS[phase]}; {LAYER_WORDS[layer]} must account for it
        </dd>
        <dt>Code chosen by</dt>
        <dd class="said">{rule}</dd>
        <dt>Decided by</dt>
        <dd>
          <code>{decidedBy}</code>
          {decidedBy === budget.name ? ', which' : <>; {<code>{budget.name}</code>}</>} went from {budget.before} to{' '}
          {budget.after} of {budget.max}
        </dd>
        {delay !== undefined && (
          <>
            <dt>Delay</dt>
            <dd>{delayWords(delay)}</dd>
          </>
        )}
        {causes.length > 0 && (
          <>
            <dt>Caused by</dt>
            <dd>
              <ol class="causes">
                {causes.map(({ name, message, code }) => (
                  <li key={`${name} ${message}`} class="said">
                    {name}: {message} {code !== undefined && <code>{code}</code>}
                  </li>
                ))}
              </ol>
            </dd>
          </>
        )}
      </dl>
      {Object.keys(facts).length > 0 && <LongValue value={facts} what="the context of the failure" />}
      {typeof stderrTail === 'string' && (
        <>
          <h3>The end of stderr</h3>
          <LongText text={stderrTail} what="the end of stderr" />
        </>
      )}
    </>
  )
}

const PHASE_WORDS: Readonly<Record<FailureView['phase'], string>> = {
  pre_dispatch: 'submission, before a worker had it',
  dispatch: 'dispatch, on its way to a worker',
  execution: 'execution',
  verification: 'verification of the result',
}

const LAYER_WORDS: Readonly<Record<FailureView['layer'], string>> = {
  submission: 'the submitter',
  coordination: 'the job server',
  worker: 'the worker',
}

function delayWords(delay: NonNullable<FailureView['decision']['delay']>): string {
  switch (delay.source) {
    case 'none':
      return 'none'
    case 'error.retryAfter':
      return `${duration(Math.min(delay.askedMs, delay.maxMs))}: the error itself asked for ${duration(delay.askedMs)}`
    case 'retry.backoff': {
      const drawn = delay.jitterMs === 0 ? '' : ` and ${duration(delay.jitterMs)} by chance`
      return `${duration(delay.baseMs)} by the ${delay.kind} backoff, step ${delay.failuresBefore + 1}${drawn}`
    }
  }
}

const capitalised = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
