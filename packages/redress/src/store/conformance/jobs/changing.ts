import assert from 'node:assert/strict'
import type { RedressError } from '../../../core/errors.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { Intervention } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const MINUTE_MS = 60_000

const postpone = (delayMs: number): Intervention['act'] => ({ kind: 'reschedule', to: { delayMs } })
const replaceInput = (payload: string, limitKey?: string | null): Intervention['act'] => ({
  kind: 'replace-input',
  payload,
  ...(limitKey !== undefined && { limitKey }),
})

/** Every change of a waiting job. */
const CHANGES: readonly Intervention['act'][] = [
  postpone(MINUTE_MS),
  { kind: 'promote' },
  { kind: 'reprioritise', priority: 7 },
  replaceInput('{"n":2}'),
]

export const changing = topic('changing waiting jobs', {
  async 'a job runs at the time that a person gave it, and not before'(bench) {
    const worker = await bench.worker()
    for (const delayMs of [0, 5 * MINUTE_MS]) {
      const id = await bench.submit({ delayMs })
      assert.equal(await bench.intervene(id, postpone(MINUTE_MS)), 'done')
      const dueAtMs = bench.clock.nowMs() + MINUTE_MS
      assert.equal((await bench.row(id)).dueAtMs, dueAtMs)
      const { kind, data } = await bench.lastEvent(id)
      assert.deepEqual([kind, data], ['rescheduled', { actor: 'olga', reason: 'a test', dueAtMs }])
      await bench.clock.advance(MINUTE_MS - 1)
      const early = await worker.claim()
      assert.deepEqual([early.leases, early.nextDueAtMs], [[], dueAtMs])
      await bench.clock.advance(1)
      assert.equal((await worker.claimOne()).id, id)
    }
    await bench.checkAll()
  },

  async 'a job can be given an instant; one that is over makes it due at once'(bench) {
    const worker = await bench.worker()
    const id = await bench.submit({ delayMs: MINUTE_MS })
    const atMs = bench.clock.nowMs() + 90_000
    assert.equal(await bench.intervene(id, { kind: 'reschedule', to: { atMs } }), 'done')
    assert.equal((await bench.row(id)).dueAtMs, atMs)
    assert.equal(await bench.intervene(id, { kind: 'reschedule', to: { atMs: bench.clock.nowMs() - 1 } }), 'done')
    assert.equal((await bench.row(id)).dueAtMs, null)
    assert.deepEqual((await bench.lastEvent(id)).data, { actor: 'olga', reason: 'a test' })
    assert.equal((await worker.claimOne()).id, id)
    await bench.checkAll()
  },

  async 'a job whose delay is over, and that no worker took, can be postponed again'(bench) {
    const worker = await bench.worker()
    const id = await bench.submit({ delayMs: MINUTE_MS })
    await bench.clock.advance(MINUTE_MS)
    // The claim moves it to the line of ready jobs, and takes none.
    await worker.claim({ max: 0 })
    assert.equal(await bench.intervene(id, postpone(MINUTE_MS)), 'done')
    assert.deepEqual((await worker.claim()).leases, [])
    await bench.clock.advance(MINUTE_MS)
    assert.equal((await worker.claimOne()).id, id)
  },

  async 'a promoted job is due at once, in its place by priority and age'(bench) {
    const delayed = await bench.submit({ delayMs: MINUTE_MS })
    await bench.clock.advance(1_000)
    const younger = await bench.submit()
    const urgent = await bench.submit({ priority: 5 })
    assert.equal(await bench.intervene(delayed, { kind: 'promote' }), 'done')
    assert.equal((await bench.row(delayed)).dueAtMs, null)
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 3 })
    assert.deepEqual(
      leases.map(({ id }) => id),
      [urgent, delayed, younger],
    )
    assert.equal(leases[1]?.dueSinceMs, bench.clock.nowMs(), 'it has waited for a worker since its promotion')
    await bench.checkAll()
  },

  async 'promoting a job that is due adds no event'(bench) {
    const id = await bench.submit()
    await bench.changesNothing(id, 'promoting it', async () =>
      assert.equal(await bench.intervene(id, { kind: 'promote' }), 'done'),
    )
  },

  async 'a job that waits for its retry can be promoted and postponed, and keeps its attempts and budgets'(bench) {
    const worker = await bench.worker()
    for (const act of [{ kind: 'promote' } as const, postpone(10 * MINUTE_MS)]) {
      const { id, lease, worker: first } = await bench.processing()
      await first.close(lease, requeued('retry', lease, { delayMs: MINUTE_MS }), 5)
      const before = await bench.row(id)
      assert.equal(await bench.intervene(id, act), 'done')
      const after = await bench.row(id)
      assert.deepEqual([after.attempt, after.spent, after.status], [1, before.spent, 'queued'])
      if (act.kind === 'reschedule') await bench.clock.advance(10 * MINUTE_MS)
      const again = await worker.claimOne()
      assert.deepEqual([again.id, again.attempt, again.spent], [id, 2, before.spent])
    }
    await bench.checkAll()
  },

  async 'the total time of a job does not count the time by which a person postponed it'(bench) {
    const worker = await bench.worker()
    const fresh = await bench.submit()
    const { id: retried, lease, worker: first } = await bench.processing({ type: 'other' })
    await first.close(lease, requeued('retry', lease, { delayMs: MINUTE_MS }), 5)
    const createdAtMs = bench.clock.nowMs()
    for (const id of [fresh, retried]) await bench.intervene(id, postpone(10 * MINUTE_MS))
    await bench.clock.advance(10 * MINUTE_MS)
    const { leases } = await worker.claim({ max: 2 })
    const countsFrom = (id: string) => leases.find((one) => one.id === id)?.queuedAtMs
    assert.equal(countsFrom(fresh), createdAtMs + 10 * MINUTE_MS, 'before its first attempt it begins when it is due')
    assert.equal(countsFrom(retried), createdAtMs + 9 * MINUTE_MS, 'a minute of backoff was decided by its policy')
  },

  async 'a changed priority changes the place in the line, up and down'(bench) {
    const ids = [await bench.submit(), await bench.submit(), await bench.submit()] as const
    assert.equal(await bench.intervene(ids[2], { kind: 'reprioritise', priority: 9 }), 'done')
    assert.equal(await bench.intervene(ids[0], { kind: 'reprioritise', priority: -9 }), 'done')
    assert.deepEqual((await bench.lastEvent(ids[0])).data, { actor: 'olga', reason: 'a test', priority: -9 })
    const worker = await bench.worker()
    const { leases } = await worker.claim({ max: 3 })
    assert.deepEqual(
      leases.map(({ id, priority }) => [id, priority]),
      [
        [ids[2], 9],
        [ids[1], 0],
        [ids[0], -9],
      ],
    )
    await bench.checkAll()
  },

  async 'the worker gets the input that replaced the submitted one'(bench) {
    const id = await bench.submit({ payload: '{"n":1}', dedupe: { key: 'k', scope: 'live' } })
    assert.equal(await bench.intervene(id, replaceInput('{"n":2}')), 'done')
    assert.deepEqual(
      [(await bench.row(id)).payload, (await bench.row(id)).dedupeKey],
      ['{"n":2}', 'k'],
      'the dedupe key stays with the job',
    )
    assert.equal((await bench.lastEvent(id)).kind, 'input-replaced')
    assert.equal(await bench.submit({ dedupe: { key: 'k', scope: 'live' } }), id)
    assert.equal((await (await bench.worker()).claimOne()).payload, '{"n":2}')
    await bench.checkAll()
  },

  async 'the input of a job that has run stays the one it ran with'(bench) {
    const { id, lease, worker } = await bench.processing({ payload: '{"n":1}' })
    await worker.close(lease, requeued('retry', lease, { delayMs: MINUTE_MS }), 5)
    await bench.changesNothing(id, 'replacing its input', () =>
      assert.rejects(bench.intervene(id, replaceInput('{"n":2}')), { code: 'JOB_WRONG_STATE' }),
    )
  },

  async 'a job with a new input counts under its new limit key, or keeps the one it has'(bench) {
    await bench.declare('limited', policy({ concurrency: { max: 9, perKey: 1 } }))
    const lanes = [{ type: 'limited', ttlMs: TTL_MS }]
    const worker = await bench.worker()
    const [one, other, third] = [
      await bench.submit({ type: 'limited', limitKey: 'a' }),
      await bench.submit({ type: 'limited', limitKey: 'a' }),
      await bench.submit({ type: 'limited', limitKey: 'a' }),
    ]
    await bench.intervene(other, replaceInput('{"n":2}', 'b'))
    await bench.intervene(third, replaceInput('{"n":3}'))
    assert.deepEqual([(await bench.row(other)).limitKey, (await bench.row(third)).limitKey], ['b', 'a'])
    const { leases } = await worker.claim({ max: 9, lanes })
    assert.deepEqual(
      leases.map(({ id }) => id),
      [one, other],
    )
    // Without a key of its own it still counts for its type.
    await bench.intervene(third, replaceInput('{"n":4}', null))
    assert.equal((await worker.claim({ max: 9, lanes })).leases.length, 1)
  },

  async 'a job that is under way or has ended cannot be changed'(bench) {
    const ids = [(await bench.processing()).id, await bench.finished('complete'), await bench.finished('failed')]
    for (const id of [...ids, await bench.finished('cancelled')]) {
      for (const act of CHANGES) {
        await bench.changesNothing(id, act.kind, async () => {
          await assert.rejects(bench.intervene(id, act), (error: RedressError) => error.code === 'JOB_WRONG_STATE')
          assert.equal(await bench.intervene(id, act, { status: 'queued', attempt: 0 }), 'moved-on')
        })
      }
    }
  },

  async 'a job that only goes forward can be changed until its attempt begins'(bench) {
    for (const act of CHANGES) {
      const id = await bench.submit({ type: 'forward', delayMs: MINUTE_MS })
      assert.equal(await bench.intervene(id, act), 'done', act.kind)
    }
    await bench.checkAll()
  },

  async 'the audit trail names what was changed, from what and to what'(bench) {
    const id = await bench.submit({ payload: '{"secret":1}', priority: 3 })
    for (const act of CHANGES) await bench.intervene(id, act)
    const trail = await bench.store.auditTrail({ filter: { id }, beforeSeq: null, limit: 9 })
    const dueAt = new Date(bench.clock.nowMs() + MINUTE_MS).toISOString()
    assert.deepEqual(
      trail.slice(1).map(({ act, actor, reason, data }) => [act, actor, reason, data]),
      [
        ['jobs.reprioritise', 'olga', 'a test', { from: 3, to: 7 }],
        ['jobs.promote', 'olga', 'a test', { from: dueAt }],
        ['jobs.reschedule', 'olga', 'a test', { from: null, to: dueAt }],
      ],
    )
    const replaced = JSON.stringify(trail[0])
    assert.match(replaced, /"from":\{"sha256":"[0-9a-f]{64}","bytes":12\},"to":\{"sha256":"[0-9a-f]{64}","bytes":7\}/)
    assert.doesNotMatch(replaced, /secret/)
  },

  async 'a change happens before the claim or not at all, however they race'(bench) {
    await raceWithClaims(bench)
    await bench.checkAll()
  },
})

/** Every job is changed while workers of several processes claim. What a worker got is what the store says it got. */
async function raceWithClaims(bench: Bench): Promise<void> {
  const [store, ...others] = await bench.openMany(3)
  const workers = await Promise.all([store, ...others].map((one) => bench.worker(one)))
  for (let round = 0; round < 8; round++) {
    const jobs = Array.from({ length: 12 }, () => bench.newJob({ payload: '{"n":1}' }))
    await store.submit({ jobs })
    const acts = jobs.map(({ id }, i) =>
      bench.intervene(
        id,
        i % 3 === 0
          ? postpone(60 * MINUTE_MS)
          : i % 3 === 1
            ? replaceInput('{"n":2}')
            : { kind: 'reprioritise', priority: 5 },
        { status: 'queued', attempt: 0 },
        others[i % others.length],
      ),
    )
    const claims = workers.map((worker) => worker.claim({ max: 4 }))
    const [answers, claimed] = await Promise.all([Promise.all(acts), Promise.all(claims)])
    const leases = new Map(claimed.flatMap((one) => one.leases).map((lease) => [lease.id, lease]))
    for (const [i, { id }] of jobs.entries()) {
      const lease = leases.get(id)
      if (lease === undefined) continue
      const isChanged = answers[i] === 'done'
      if (i % 3 === 0) assert.equal(isChanged, false, 'a job was postponed and claimed')
      if (i % 3 === 1) assert.equal(lease.payload, isChanged ? '{"n":2}' : '{"n":1}', 'the input of the attempt')
      if (i % 3 === 2) assert.equal(lease.priority, isChanged ? 5 : 0, 'the priority of the attempt')
    }
    for (const { id } of jobs) {
      const row = await bench.row(id)
      if (row.status === 'queued') await bench.intervene(id, { kind: 'cancel' })
    }
  }
}
