import { useRef } from 'preact/hooks'
import { useLocation, useRoute } from 'preact-iso'
import type { ReplayState } from '../../../../src/core/dead-letter/replay.ts'
import type { ReplayView } from '../../../../src/operations/replays/replays.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import type { PendingAct } from '../../api/act.ts'
import { about, useQuery } from '../../api/query.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { CopyButton } from '../../parts/Copy.tsx'
import { SegmentBar } from '../../parts/charts/SegmentBar.tsx'
import { LongValue } from '../../parts/LongText.tsx'
import { Page } from '../../parts/Page.tsx'
import { Shown } from '../../parts/States.tsx'
import { Ago } from '../../parts/Time.tsx'
import { cliOf } from '../../words/cli.ts'
import { selectionWords } from '../../words/letters.ts'
import { addressOf } from '../../words/links.ts'
import { some } from '../../words/numbers.ts'
import { REPLAY_WORDS, rateWords, SKIP_WORDS } from '../../words/replays.ts'
import { ReplayItems } from './ReplayItems.tsx'
import { LettersBar, ReplayStateMark } from './ReplayParts.tsx'

type ReplayDetail = OutputOf<'replays.show'>
type ItemState = ReplayDetail['items'][number]['state']

export default function Replay() {
  const { id = '' } = useRoute().params
  const { query } = useLocation()
  // Its jobs are many, and not named before they are there: while any has not ended, each job may be one of them.
  const isMoving = useRef(true)
  const ofReplay = about(`replay:${id}`)
  const ofJobs = about('job')
  const replay = useQuery(
    'replays.show',
    {
      id,
      ...(query.state !== undefined && { state: query.state as ItemState }),
      ...(query.after !== undefined && { after: query.after }),
    },
    { follows: (changes) => ofReplay(changes) || (isMoving.current && ofJobs(changes)) },
  )
  const { data } = replay
  isMoving.current = data === null || data.waiting > 0 || data.jobs.queued + data.jobs.processing > 0
  return (
    <Page
      title="Replay"
      aside={
        data !== null && (
          <>
            <ReplayButtons replay={data} />
            <CopyButton text={cliOf('replays.show', { id })} what="this replay as a command">
              Copy as CLI
            </CopyButton>
          </>
        )
      }
    >
      <Shown query={replay}>
        {(shown) => (
          <>
            <Standing replay={shown} />
            <Absent replay={shown} />
            <Progress replay={shown} />
            <h2>About it</h2>
            <Facts replay={shown} />
            <h2>Letter by letter</h2>
            <ReplayItems replay={shown} />
          </>
        )}
      </Shown>
    </Page>
  )
}

const NOTICE = { good: 'good', bad: 'bad', warn: 'warn', plain: '' }

function Standing({ replay: { state, why, waiting, selection } }: { replay: ReplayDetail }) {
  const { meaning, tone } = REPLAY_WORDS[state]
  const { replayed, ...rest } = selection
  const again = addressOf('/replays/new', {
    ...rest,
    ...(replayed !== undefined && { replayed: replayed ? 'yes' : 'no' }),
    ...(Object.keys(selection).length === 0 && { all: '1' }),
  })
  return (
    <div class={`notice ${NOTICE[tone]}`} role="status">
      <p>
        <ReplayStateMark state={state} /> <span class="said">{why}</span>
      </p>
      <p>{meaning}</p>
      {state === 'aborted' && waiting > 0 && (
        <p>
          <a href={again}>Plan a new one for what is left</a>
        </p>
      )}
    </div>
  )
}

/** Nothing goes on, and nothing says so, where nobody runs a type: the last reason that people think of. */
function Absent({ replay: { state, waitingTypes } }: { replay: ReplayDetail }) {
  const isUnderWay = (state === 'running' || state === 'canary') && waitingTypes.length > 0
  const { data } = useQuery('workers.list', isUnderWay ? {} : null, { everyMs: 10_000, follows: () => false })
  if (!isUnderWay || data === null) return null
  const served = new Set(data.workers.flatMap(({ state: standing, types }) => (standing === 'working' ? types : [])))
  return waitingTypes
    .filter(({ type }) => !served.has(type))
    .map(({ type, letters }) => (
      <div key={type} class="notice bad">
        <p>
          <strong>
            No worker runs <span class="said">{type}</span>:
          </strong>{' '}
          {some(letters, 'letter waits', 'letters wait')} until a <a href="/workers">worker</a> that knows it is there.
        </p>
      </div>
    ))
}

function Progress({ replay }: { replay: ReplayDetail }) {
  const { queued, processing, complete, failed, cancelled, gone } = replay.jobs
  const made = queued + processing + complete + failed + cancelled + gone
  return (
    <>
      <h2>Progress</h2>
      <LettersBar {...replay} />
      {made > 0 && (
        <>
          <h3>The jobs that were made</h3>
          <SegmentBar
            label="Jobs of this replay"
            unit="job"
            segments={[
              { name: 'complete', count: complete, tone: 'good', icon: 'complete' },
              { name: 'failed', count: failed, tone: 'bad', icon: 'failed' },
              { name: 'cancelled', count: cancelled, tone: 'plain', icon: 'cancelled' },
              { name: 'processing', count: processing, tone: 'warn', icon: 'processing' },
              { name: 'queued', count: queued, tone: 'faint', icon: 'queued' },
              { name: 'removed after their retention', count: gone, tone: 'plain', icon: 'snoozed' },
            ]}
          />
        </>
      )}
    </>
  )
}

function Facts({ replay }: { replay: ReplayDetail }) {
  const { id, selection, perSecond, plannedBy, startedBy, createdAt, startedAt, endedAt, skippedBy, waitingTypes } =
    replay
  return (
    <>
      <dl class="facts">
        <dt>Id</dt>
        <dd>
          <code>{id}</code>
        </dd>
        <dt>Letters</dt>
        <dd class="said">{selectionWords(selection)}</dd>
        <dt>Pace</dt>
        <dd>{rateWords(perSecond)}</dd>
        <dt>Canary</dt>
        <dd>{canaryWords(replay)}</dd>
        {skippedBy.length > 0 && (
          <>
            <dt>Skipped because</dt>
            <dd>{skippedBy.map(({ code, letters }) => `${letters}: ${SKIP_WORDS[code]}`).join('; ')}</dd>
          </>
        )}
        {waitingTypes.length > 0 && (
          <>
            <dt>Waiting</dt>
            <dd class="said">{waitingTypes.map(({ type, letters }) => `${letters} of ${type}`).join(', ')}</dd>
          </>
        )}
        <dt>Planned</dt>
        <dd>
          <span class="said">
            {plannedBy.actor}: {plannedBy.reason}
          </span>{' '}
          <span class="quiet">
            <Ago at={createdAt} />
          </span>
        </dd>
        {startedBy !== null && startedAt !== null && (
          <>
            <dt>Started or resumed</dt>
            <dd>
              <span class="said">
                {startedBy.actor}: {startedBy.reason}
              </span>{' '}
              <span class="quiet">
                first <Ago at={startedAt} />
              </span>
            </dd>
          </>
        )}
        {endedAt !== null && (
          <>
            <dt>Ended</dt>
            <dd>
              <Ago at={endedAt} />
            </dd>
          </>
        )}
      </dl>
      {replay.patch !== null && (
        <>
          <h3>Change of each input</h3>
          <LongValue value={replay.patch} what="the merge patch" />
        </>
      )}
    </>
  )
}

/** How far the first letters are, and what they said. */
function canaryWords({ canary, canaryFailuresMax, submitted, state, jobs }: ReplayDetail): string {
  if (canary === 0) return 'none: no letter waits for the first ones'
  const may =
    canaryFailuresMax === 0 ? 'none of their jobs may fail' : `at most ${canaryFailuresMax} of their jobs may fail`
  const plan = `the first ${some(canary, 'letter')}; ${may}`
  if (state === 'planned' || state === 'planning') return plan
  if (state === 'stopped') return `${plan}. It stopped the replay.`
  const ended = jobs.complete + jobs.failed + jobs.cancelled + jobs.gone
  if (state === 'canary') return `${plan}. ${submitted} of ${canary} were submitted; ${ended} ended.`
  return submitted > canary ? `${plan}. That is behind it: the rest goes, or went.` : `${plan}.`
}

interface Act extends Pick<PendingAct, 'verb' | 'isDangerous'> {
  name: 'replays.start' | 'replays.pause' | 'replays.resume' | 'replays.abort'
  from: readonly ReplayState[]
  explain: string
}

const ACTS: readonly Act[] = [
  {
    ...{ name: 'replays.start', verb: 'Start', from: ['planned'] },
    explain: 'Workers make a job of each letter that nothing stands in the way of when its turn comes.',
  },
  {
    ...{ name: 'replays.pause', verb: 'Pause', from: ['canary', 'running'] },
    explain: 'It holds where it is. Jobs that were made already go on.',
  },
  {
    ...{ name: 'replays.resume', verb: 'Resume', from: ['paused', 'stopped'] },
    explain: 'It continues where it was paused. The rate does not make up for the pause.',
  },
  {
    ...{ name: 'replays.abort', verb: 'Abort', isDangerous: true },
    from: ['planning', 'planned', 'canary', 'running', 'paused', 'stopped'],
    explain: 'It cannot be resumed. Jobs that it made continue; waiting letters stay unchanged.',
  },
]

const OVERRULES = 'Its canary stopped it. Resuming overrules the canary: all other letters run without waiting.'

/** What can be done with a replay that stands so. */
function ReplayButtons({ replay: { id, state } }: { replay: Pick<ReplayView, 'id' | 'state'> }) {
  return ACTS.filter(({ from }) => from.includes(state)).map(({ name, verb, isDangerous = false, explain }) => (
    <ActButton
      key={name}
      act={{
        ...{ name, input: { id }, verb, isDangerous },
        title: `${verb} this replay`,
        explain: <p>{name === 'replays.resume' && state === 'stopped' ? OVERRULES : explain}</p>,
      }}
    >
      {verb}
    </ActButton>
  ))
}
