import { useRoute } from 'preact-iso'
import type { BatchEventView } from '../../../../src/operations/batches/batches.ts'
import type { OutputOf } from '../../../../src/operations/table.ts'
import { about, useQuery } from '../../api/query.ts'
import { ActButton } from '../../parts/actions/ActButton.tsx'
import { CopyButton } from '../../parts/Copy.tsx'
import { LongValue } from '../../parts/LongText.tsx'
import { Page } from '../../parts/Page.tsx'
import { Shown } from '../../parts/States.tsx'
import { type Column, Table } from '../../parts/Table.tsx'
import { Ago, Clock } from '../../parts/Time.tsx'
import { BATCH_WORDS, ROLLUP_WORDS } from '../../words/batches.ts'
import { cliOf } from '../../words/cli.ts'
import { jobsHref } from '../../words/links.ts'
import { some } from '../../words/numbers.ts'
import { BatchFailures } from './BatchFailures.tsx'
import { BatchBar, BatchStateMark } from './BatchParts.tsx'

type Batch = OutputOf<'batches.show'>

/** An owner does not hear of others' jobs in their batch. */
const LOOK_AGAIN_MS = 30_000

export default function BatchPage() {
  const { id = '' } = useRoute().params
  const query = useQuery('batches.show', { id }, { follows: about(`batch:${id}`), everyMs: LOOK_AGAIN_MS })
  const { data } = query
  return (
    <Page
      title={data?.name ?? 'Batch'}
      aside={
        data !== null && (
          <>
            <RetryButton batch={data} />
            <CancelButton batch={data} />
            <CopyButton text={cliOf('batches.show', { id })} what="this batch as a command">
              Copy as CLI
            </CopyButton>
          </>
        )
      }
    >
      <Shown query={query}>
        {(batch) => (
          <>
            <Standing batch={batch} />
            <BatchBar batch={batch} isFull />
            {batch.failures.codes.length > 0 && <BatchFailures batch={batch} />}
            <h2>About it</h2>
            <Facts batch={batch} />
            <History events={batch.history} />
            {JSON.stringify(batch.data) !== '{}' && (
              <>
                <h2>Its data</h2>
                <LongValue value={batch.data} what="the data" />
              </>
            )}
          </>
        )}
      </Shown>
    </Page>
  )
}

function RetryButton({ batch: { id, state, counts, failures } }: { batch: Batch }) {
  const retryable = failures.codes.reduce((sum, code) => sum + code.retryable, 0)
  return (
    <ActButton
      refusal={
        counts.failed === 0
          ? 'No job of this batch is failed.'
          : failures.codes.length === 0
            ? 'None of the failed jobs of this batch is yours.'
            : retryable === 0 && !failures.isMore
              ? 'None of the failed jobs may be retried: see their policies.'
              : null
      }
      act={{
        name: 'batches.retry-failed',
        input: { id },
        title: 'Retry the failed jobs of this batch',
        verb: 'Retry',
        explain: (
          <p>
            Each goes back as its policy says, all of them together.{' '}
            {state === 'expired'
              ? 'The batch stays expired; its jobs are still counted.'
              : 'The batch is open until they have ended, and is then settled again.'}{' '}
            Jobs that cannot be retried stay unchanged.
          </p>
        ),
      }}
    >
      Retry the retryable
    </ActButton>
  )
}

function CancelButton({ batch: { id, counts, sealed } }: { batch: Batch }) {
  return (
    <ActButton
      refusal={counts.unfinished === 0 && sealed ? 'No job of this batch waits or runs.' : null}
      act={{
        name: 'batches.cancel',
        input: { id },
        title: 'Cancel what is left of this batch',
        verb: 'Cancel the jobs',
        isDangerous: true,
        explain: <p>The batch takes no more jobs. Queued jobs are cancelled; running jobs are asked to stop.</p>,
      }}
    >
      Cancel
    </ActButton>
  )
}

const NOTICE = { good: 'good', bad: 'bad', warn: 'warn', plain: '' }

function Standing({ batch: { state, counts } }: { batch: Batch }) {
  return (
    <div class={`notice ${NOTICE[BATCH_WORDS[state].tone]}`} role="status">
      <p>
        <BatchStateMark state={state} /> {standingWords(state, counts)}
      </p>
    </div>
  )
}

function standingWords(
  state: Batch['state'],
  { total, failed, cancelled, unfinished, permanent }: Batch['counts'],
): string {
  const forGood = permanent === 0 ? '' : `, ${permanent} of them for good`
  if (state === 'partial') {
    const parts = [failed > 0 && `${some(failed, 'job')} failed${forGood}`, cancelled > 0 && `${cancelled} cancelled`]
    return `Of ${some(total, 'job')}, ${parts.filter(Boolean).join(' and ')}; the others are complete.`
  }
  if (state === 'failed') return `Of ${some(total, 'job')}, ${failed} failed${forGood}.`
  if (state === 'open' && unfinished > 0)
    return `${some(unfinished, 'job')} of ${total} ${unfinished === 1 ? 'waits or runs' : 'wait or run'}.`
  if (state === 'open') return 'Nothing waits or runs, and more jobs may be added.'
  return BATCH_WORDS[state].meaning
}

function Facts({ batch }: { batch: Batch }) {
  const { id, owner, rollup, sealed, createdAt, settledAt, settlements, expiresAt, onSettled, notify } = batch
  return (
    <dl class="facts">
      <dt>Id</dt>
      <dd>
        <code>{id}</code> <a href={jobsHref({ batch: id })}>All its jobs</a>
      </dd>
      <dt>Owner</dt>
      <dd class="said">{owner ?? '–'}</dd>
      <dt>Roll-up</dt>
      <dd>
        <code>{rollup}</code> {ROLLUP_WORDS[rollup]}
      </dd>
      <dt>Made</dt>
      <dd>
        <Ago at={createdAt} />
        {!sealed && ', and still open to more jobs'}
      </dd>
      <dt>Settled</dt>
      <dd>
        {settledAt === null ? 'not yet' : <Ago at={settledAt} />}
        {settlements > 1 && `, ${settlements} times in all`}
      </dd>
      {expiresAt !== null && (
        <>
          <dt>Expires</dt>
          <dd>
            <Ago at={expiresAt} />
          </dd>
        </>
      )}
      {onSettled !== null && (
        <>
          <dt>When settled</dt>
          <dd>
            submits a job of <span class="said">{onSettled}</span>
          </dd>
        </>
      )}
      {notify.length > 0 && (
        <>
          <dt>Tells</dt>
          <dd class="said">{notify.join(', ')}</dd>
        </>
      )}
    </dl>
  )
}

const HISTORY: readonly Column<BatchEventView>[] = [
  { head: 'When', isTitle: true, cell: ({ at }) => <Clock at={at} /> },
  { head: 'What', cell: ({ kind, data }) => (kind === 'settled' ? `settled, settlement ${data.settlement}` : kind) },
  { head: 'State', cell: ({ data }) => <BatchStateMark state={data.state} /> },
  { head: 'Complete', isNumber: true, cell: ({ data }) => data.complete },
  { head: 'Failed', isNumber: true, cell: ({ data }) => data.failed },
  { head: 'Cancelled', isNumber: true, cell: ({ data }) => data.cancelled },
  { head: 'Unfinished', isNumber: true, cell: ({ data }) => data.unfinished },
]

function History({ events }: { events: Batch['history'] }) {
  return (
    <>
      <h2>History</h2>
      {events.length === 0 ? (
        <p class="quiet">It has not been settled yet.</p>
      ) : (
        <Table label="Settlements of this batch" columns={HISTORY} rows={events} keyOf={({ seq }) => String(seq)} />
      )}
    </>
  )
}
