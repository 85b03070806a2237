import assert from 'node:assert/strict'
import { cancelled, complete, failed, markFailed, REQUEUE_CAUSES, requeued, retryInPlace } from './changes.ts'
import { topic } from './promise.ts'

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

  async 'a manual retry begins with a clean slate, and the attempt number goes on'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.renew(lease, { progress: 0.7 })
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
