import assert from 'node:assert/strict'
import type { RedressError } from '../../../core/errors.ts'
import {
  cancelled,
  complete,
  failed,
  markFailed,
  REQUEUE_CAUSES,
  requeued,
  retryInPlace,
  someFailure,
} from '../bench/changes.ts'
import { topic } from '../promise.ts'

const from = (id: string, retriedAsSeen: string | null = null) => ({
  id,
  actor: 'olga',
  reason: 'a test',
  retriedAsSeen,
})

/** `by`: the job that was made before; null if the job itself is no longer failed. */
async function refusedRetry(retry: Promise<unknown>, by: string | null): Promise<void> {
  await assert.rejects(retry, (error: RedressError) => {
    assert.equal(error.code, by === null ? 'JOB_WRONG_STATE' : 'ALREADY_RETRIED')
    if (by !== null) assert.match(error.message, new RegExp(by))
    return true
  })
}

export const interventions = topic('interventions', {
  async 'an act counts only if the job stands as the person saw it'(bench) {
    const id = await bench.submit()
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    const seen = [
      { status: 'queued', attempt: 0 },
      { status: 'processing', attempt: 0 },
      { status: 'processing', attempt: 2 },
      { status: 'failed', attempt: 1 },
    ] as const
    for (const expect of seen) {
      await bench.changesNothing(id, `an act on a ${expect.status} job`, async () =>
        assert.equal(await bench.intervene(id, markFailed(lease), expect), 'moved-on'),
      )
    }
    const gone = { status: 'queued', attempt: 0 } as const
    assert.equal(await bench.intervene(bench.makeId(), { kind: 'cancel' }, gone), 'moved-on')
  },

  async 'of two people who act on what they both saw, one is too late'(bench) {
    const id = await bench.finished('failed')
    const row = await bench.row(id)
    const seen = { status: row.status, attempt: row.attempt }
    const [one, other] = await bench.openMany(2)
    const answers = await Promise.all(
      [one, other ?? one].map((store) => bench.intervene(id, retryInPlace(row), seen, store)),
    )
    assert.deepEqual(answers.toSorted(), ['done', 'moved-on'])
    assert.equal((await bench.kinds(id)).filter((kind) => kind === 'manual-retry').length, 1)
  },

  async 'an act decided on an old page does not count though the job stands as it stood then'(bench) {
    const id = await bench.submit()
    const queued = await bench.row(id)
    await bench.intervene(id, markFailed(queued))
    const failedOnce = await bench.row(id)
    await bench.intervene(id, retryInPlace(failedOnce))
    await bench.changesNothing(id, 'marking it failed again', async () =>
      assert.equal(await bench.intervene(id, markFailed(queued)), 'moved-on'),
    )
    await bench.intervene(id, markFailed(await bench.row(id)))
    await bench.changesNothing(id, 'retrying it again', async () =>
      assert.equal(await bench.intervene(id, retryInPlace(failedOnce)), 'moved-on'),
    )
  },

  async 'a queued job is cancelled at once, and one that waits for its time too'(bench) {
    for (const delayMs of [0, 60_000]) {
      const id = await bench.submit({ delayMs })
      assert.equal(await bench.intervene(id, { kind: 'cancel' }), 'done')
      const row = await bench.row(id)
      assert.deepEqual([row.status, row.finishedAtMs, row.dueAtMs], ['cancelled', bench.clock.nowMs(), null])
    }
    await bench.clock.advance(60_000)
    const worker = await bench.worker()
    const { leases, nextDueAtMs } = await worker.claim({ max: 10 })
    assert.deepEqual([leases, nextDueAtMs], [[], null])
  },

  async 'the worker that holds a job hears that it is to be cancelled, from whom and why; others do not'(bench) {
    const { id, lease, worker } = await bench.processing()
    const other = await bench.processing()
    assert.deepEqual(await bench.store.cancellations({ worker: worker.key }), [])
    assert.equal(await bench.intervene(id, { kind: 'request-cancel' }), 'done')
    const { key, attempt } = lease
    assert.deepEqual(await bench.store.cancellations({ worker: worker.key }), [
      { key, attempt, actor: 'olga', reason: 'a test' },
    ])
    assert.deepEqual(await bench.store.cancellations({ worker: other.worker.key }), [])
    const row = await bench.row(id)
    assert.deepEqual([row.status, row.cancelRequestedAtMs], ['processing', bench.clock.nowMs()])
    await worker.close(lease, cancelled('stopped in time'), 3)
    assert.deepEqual(await bench.store.cancellations({ worker: worker.key }), [])
    assert.deepEqual((await bench.lastEvent(id)).data, { reason: 'stopped in time' })
  },

  async 'asking twice to cancel is asking once'(bench) {
    const { id } = await bench.processing()
    await bench.intervene(id, { kind: 'request-cancel' })
    await bench.clock.advance(1_000)
    await bench.changesNothing(id, 'asking again', async () =>
      assert.equal(await bench.intervene(id, { kind: 'request-cancel' }), 'done'),
    )
  },

  async 'a job that goes back to the queue does not forget that it is to be cancelled'(bench) {
    for (const cause of REQUEUE_CAUSES) {
      const { id, lease, worker } = await bench.processing()
      await bench.intervene(id, { kind: 'request-cancel' })
      assert.equal(await worker.close(lease, requeued(cause, lease, { delayMs: 10 }), 1), 'closed')
      assert.equal((await bench.row(id)).status, 'cancelled', `after it was ${cause}`)
      const failures = await bench.store.failures({ id })
      assert.deepEqual(
        failures.map(({ to }) => to),
        cause === 'retry' ? ['cancelled'] : [],
      )
    }
    await bench.checkAll()
  },

  async 'nor does one that is taken back from a lost worker'(bench) {
    const { id, lease } = await bench.processing()
    await bench.intervene(id, { kind: 'request-cancel' })
    await bench.expireLeases()
    const [listed] = await bench.store.stalled({ unstartedForMs: 1_000_000, limit: 1 })
    assert.equal(listed?.isCancelRequested, true)
    assert.equal(await bench.reclaim(lease, requeued('reclaimed', lease)), 'closed')
    assert.equal((await bench.row(id)).status, 'cancelled')
  },

  async 'an attempt that ends before it hears of the cancellation counts as it ended'(bench) {
    for (const status of ['complete', 'failed'] as const) {
      const { id, lease, worker } = await bench.processing()
      await bench.intervene(id, { kind: 'request-cancel' })
      await worker.close(lease, status === 'complete' ? complete() : failed(lease))
      assert.equal((await bench.row(id)).status, status)
    }
  },

  async 'a person may mark a queued or a processing job as failed'(bench) {
    const { id: processing } = await bench.processing()
    const queued = await bench.submit()
    for (const [id, from] of [
      [queued, 'queued'],
      [processing, 'processing'],
    ] as const) {
      assert.equal(await bench.intervene(id, markFailed(await bench.row(id))), 'done')
      const row = await bench.row(id)
      assert.deepEqual([row.status, row.failure, row.lease], ['failed', row.latestFailure?.seq, null])
      assert.equal(row.latestFailure?.code, 'MARKED_FAILED')
      assert.deepEqual([row.latestFailure?.from, row.latestFailure?.to], [from, 'failed'])
    }
    await bench.checkAll()
  },

  async 'concurrent retries of one failed job make only one new job'(bench) {
    const stores = await bench.openMany(3)
    for (let round = 0; round < 10; round++) {
      const id = await bench.finished('failed')
      const answers = await Promise.allSettled(stores.map((store) => bench.submit({ retriedFrom: from(id) }, store)))
      const made = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
      assert.equal(made.length, 1)
      for (const answer of answers)
        if (answer.status === 'rejected') assert.equal(answer.reason.code, 'ALREADY_RETRIED')
      assert.deepEqual(
        (await bench.store.jobs({ retriedFrom: id, limit: 10 })).map((row) => row.id),
        made,
      )
      const row = await bench.row(id)
      assert.deepEqual([row.retriedAs, row.retriedAsStatus, row.status], [made[0], 'queued', 'failed'])
      await bench.finish(made[0] ?? '', 'complete')
      assert.equal((await bench.row(id)).retriedAsStatus, 'complete')
    }
  },

  async 'a second retry as a new job needs the id of the job that the first retry made'(bench) {
    const id = await bench.finished('failed')
    const first = await bench.submit({ retriedFrom: from(id) })
    for (const retriedAsSeen of [null, bench.makeId()]) {
      await bench.changesNothingOrIsRefused(id, 'a second retry', async () =>
        bench.submit({ retriedFrom: from(id, retriedAsSeen) }),
      )
    }
    const second = await bench.submit({ retriedFrom: from(id, first) })
    await refusedRetry(bench.submit({ retriedFrom: from(id, first) }), second)
    assert.equal((await bench.row(id)).retriedAs, second)
    assert.equal((await bench.store.jobs({ retriedFrom: id, limit: 10 })).length, 2)
  },

  async 'a retry repeated with the same id makes one job, even after another retry'(bench) {
    const id = await bench.finished('failed')
    const job = bench.newJob({ retriedFrom: from(id) })
    const stores = await bench.openMany(3)
    const answers = await Promise.all(stores.map((store) => store.submit({ jobs: [job] })))
    assert.deepEqual(answers.map(([answer]) => answer?.isNew).toSorted(), [false, false, true])
    const second = await bench.submit({ retriedFrom: from(id, job.id) })
    assert.deepEqual(await bench.store.submit({ jobs: [job] }), [{ id: job.id, isNew: false, status: 'queued' }])
    assert.equal((await bench.row(id)).retriedAs, second)
  },

  async 'a refused retry does not count: the failed job can still be retried'(bench) {
    const id = await bench.finished('failed')
    await bench.submit({ retriedFrom: from(id), rejected: someFailure('INPUT_INVALID') })
    assert.equal((await bench.row(id)).retriedAs, null)
    const made = await bench.submit({ retriedFrom: from(id) })
    assert.equal((await bench.row(id)).retriedAs, made)
  },

  async 'a failed job still names the job made from it after retention removed that job'(bench) {
    const id = await bench.finished('failed')
    const made = await bench.submit({ retriedFrom: from(id) })
    await bench.finish(made, 'complete')
    await bench.clock.advance(10)
    const rules = [{ type: 'plain', completeMs: 1, failedMs: null, cancelledMs: null }]
    await bench.store.prune({ rules, after: 0, limit: 100 })
    assert.equal(await bench.store.job({ id: made }), null)
    const row = await bench.row(id)
    assert.deepEqual([row.retriedAs, row.retriedAsStatus], [made, null])
    await refusedRetry(bench.submit({ retriedFrom: from(id) }), made)
  },

  async 'a retry in place needs the id of the new job that an earlier retry made'(bench) {
    const id = await bench.finished('failed')
    const row = await bench.row(id)
    const made = await bench.submit({ retriedFrom: from(id) })
    const seen = { status: row.status, attempt: row.attempt }
    await bench.changesNothing(id, 'sending it back', async () =>
      assert.equal(await bench.intervene(id, retryInPlace(row), seen), 'moved-on'),
    )
    assert.equal(await bench.intervene(id, retryInPlace(row), { ...seen, retriedAs: made }), 'done')
    // From here on it is a job like any other: it may fail and be retried.
    assert.equal((await bench.row(id)).retriedAs, null)
    await refusedRetry(bench.submit({ retriedFrom: from(id, made) }), null)
  },

  async 'of a concurrent retry in place and retry as a new job, only one succeeds'(bench) {
    const [one, other = one] = await bench.openMany(2)
    for (let round = 0; round < 10; round++) {
      const id = await bench.finished('failed')
      const row = await bench.row(id)
      const seen = { status: row.status, attempt: row.attempt }
      const [back, made] = await Promise.allSettled([
        bench.intervene(id, retryInPlace(row), seen, one),
        bench.submit({ retriedFrom: from(id) }, other),
      ])
      assert(back.status === 'fulfilled')
      const isBack = back.value === 'done'
      assert.equal(made.status, isBack ? 'rejected' : 'fulfilled')
      const { status } = await bench.row(id)
      assert.equal(status, isBack ? 'queued' : 'failed')
      await bench.finish(made.status === 'fulfilled' ? made.value : id, 'complete')
    }
  },

  async 'a manual retry begins with a clean slate, and the attempt number goes on'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.progress(lease, 0.7)
    await worker.close(lease, failed(lease, { deadLetter: 'flag' }), 5)
    await bench.clock.advance(1_000)
    const act = retryInPlace(await bench.row(id))
    assert.equal(await bench.intervene(id, act), 'done')
    const row = await bench.row(id)
    assert.deepEqual(
      [row.status, row.attempt, row.failure, row.isDeadLettered, row.progress, row.finishedAtMs],
      ['queued', 1, null, false, 0, null],
    )
    assert.equal(row.queuedAtMs, bench.clock.nowMs())
    assert.equal(row.spent, act.kind === 'retry-in-place' ? act.spent : undefined)
    assert.equal((await worker.claimOne()).attempt, 2)
  },
})
