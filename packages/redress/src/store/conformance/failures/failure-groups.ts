import assert from 'node:assert/strict'
import type { FailureGroup, GroupAct } from '../../../core/failure/group.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { FailureGroupFilter, FailureGroupSort } from '../../contract/failure-groups.ts'
import { FOLD_PER_STEP, foldAll } from '../../contract/failure-groups.ts'
import type { NewJob, Store } from '../../contract/store.ts'
import { newBatch } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { failed, requeued, someFailure } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const ONE = '1:aaaaaaaaaaaaaaaa'
const OTHER = '1:bbbbbbbbbbbbbbbb'
const BY = { actor: 'olga', reason: 'a test' }

interface Fail {
  fingerprint?: string
  context?: Record<string, unknown>
  job?: Partial<NewJob>
  /** Goes back to the queue and is cancelled there, so that it is not claimed again. */
  isFinal?: boolean
  message?: string
}

/** A job that fails once. */
async function fail(bench: Bench, { fingerprint = ONE, context = {}, job = {}, isFinal = true, message }: Fail = {}) {
  const { id, lease, worker } = await bench.processing(job)
  const failure = { ...someFailure(), fingerprint, context, ...(message !== undefined && { message }) }
  const change = isFinal ? failed(lease) : requeued('retry', lease, { delayMs: 1_000_000_000 })
  assert.equal(await worker.close(lease, { ...change, failure }), 'closed')
  return id
}

async function failTimes(bench: Bench, times: number, parts: Fail = {}): Promise<void> {
  for (let i = 0; i < times; i++) await fail(bench, parts)
}

async function groups(
  bench: Bench,
  { filter = {}, sort = 'last-seen' }: { filter?: FailureGroupFilter; sort?: FailureGroupSort } = {},
): Promise<FailureGroup[]> {
  await foldAll(bench.store)
  return bench.store.failureGroups({ filter, sort, after: null, limit: 100 })
}

const stated = async (bench: Bench, store = bench.store): Promise<string[]> =>
  (await store.failureGroups({ filter: {}, sort: 'last-seen', after: null, limit: 100 })).map(({ state }) => state)

const act = (store: Store, wanted: GroupAct, expect: FailureGroup['state'] = 'open', fingerprint = ONE) =>
  store.actOnFailureGroup({ fingerprint, act: wanted, expect, ...BY })

export const failureGroups = topic('failure groups', {
  async 'failures with one fingerprint are one group, with its counts, its times and its values'(bench) {
    const startMs = bench.clock.nowMs()
    await fail(bench, { context: { httpStatus: 502, host: 'a' } })
    await bench.clock.advance(1_000)
    await fail(bench, { context: { httpStatus: 502, host: 'b' }, isFinal: false, message: 'The newest words.' })
    await fail(bench, { fingerprint: OTHER })
    const found = await groups(bench)
    assert.deepEqual(
      found.map(({ fingerprint, count, final }) => [fingerprint, count, final]),
      [
        [OTHER, 1, 1],
        [ONE, 2, 1],
      ],
    )
    const [, one] = found
    assert.deepEqual([one?.firstAtMs, one?.lastAtMs], [startMs, startMs + 1_000])
    assert.deepEqual([one?.type, one?.code, one?.fault], ['plain', someFailure().code, someFailure().fault])
    assert.equal(one?.message, 'The newest words.')
    assert.deepEqual(one?.fields, {
      httpStatus: [{ value: '502', count: 2, over: 0 }],
      host: [
        { value: 'a', count: 1, over: 0 },
        { value: 'b', count: 1, over: 0 },
      ],
    })
    assert.deepEqual([one?.state, one?.stateBy], ['open', null])
  },

  async 'a failure is counted once, however many count at a time'(bench) {
    const stores = await bench.openMany(3)
    await failTimes(bench, 60)
    await Promise.all(
      stores
        .flatMap((store) => [store, store])
        .map(async (store) => {
          while (!(await store.foldFailures({ limit: 7 })).isCaughtUp);
        }),
    )
    await failTimes(bench, 5)
    await Promise.all(stores.map((store) => foldAll(store)))
    for (const store of stores) {
      const [one] = await store.failureGroups({ filter: {}, sort: 'count', after: null, limit: 10 })
      assert.deepEqual([one?.count, one?.fields], [65, {}])
    }
  },

  async 'a step counts no more than it is told to, and says when it has caught up'(bench) {
    await failTimes(bench, 5)
    const step = () => bench.store.foldFailures({ limit: 3 })
    assert.deepEqual(await step(), { folded: 3, isCaughtUp: false })
    assert.deepEqual(await step(), { folded: 2, isCaughtUp: true })
    assert.deepEqual(await step(), { folded: 0, isCaughtUp: true })
  },

  async 'what is removed stays counted, and what comes after is counted too'(bench) {
    const rule = { type: 'plain', completeMs: 0, failedMs: 0, cancelledMs: 0, deadLettersMs: null }
    const pruneAll = () => bench.store.prune({ rules: [rule], after: 0, limit: 1_000 })
    await failTimes(bench, 3)
    await bench.clock.advance(1)
    assert.equal((await pruneAll()).removed, 3, 'also those that nobody had counted yet')
    assert.equal((await groups(bench))[0]?.count, 3)
    for (let round = 1; round <= 3; round++) {
      await fail(bench)
      assert.equal((await groups(bench))[0]?.count, 3 + round, 'a number was given to two failures')
      await bench.clock.advance(1)
      await pruneAll()
    }
    const found = await bench.store.failureGroup({ fingerprint: ONE })
    assert.deepEqual([found?.group.count, found?.jobs], [6, []])
  },

  async 'a job is not removed before its failures are counted, however many there are'(bench) {
    const { lease, worker } = await bench.processing()
    const rejected = { ...someFailure('INPUT_INVALID'), fingerprint: ONE }
    // More than one step counts.
    const many = Array.from({ length: FOLD_PER_STEP + 200 }, () => bench.newJob({ rejected }))
    await bench.store.submit({ jobs: many })
    // The oldest job fails last: its failure is the last one to be counted.
    await worker.close(lease, { ...failed(lease), failure: { ...someFailure(), fingerprint: ONE } })
    await bench.clock.advance(1)
    const rule = { type: 'plain', completeMs: 0, failedMs: 0, cancelledMs: 0, deadLettersMs: null }
    let removed = 0
    for (let walks = 0; removed <= many.length && walks < 10; walks++) {
      for (let after: number | null = 0; after !== null; ) {
        const step: { removed: number; cursor: number | null } = await bench.store.prune({
          rules: [rule],
          after,
          limit: 1_000,
        })
        removed += step.removed
        after = step.cursor
      }
    }
    assert.equal(removed, many.length + 1)
    assert.equal((await groups(bench))[0]?.count, many.length + 1)
  },

  async 'types that want no aggregates have no groups, from when their policy says so'(bench) {
    await bench.declare('lone', policy({ aggregates: false }))
    await fail(bench, { job: { type: 'lone' } })
    await fail(bench, { fingerprint: OTHER })
    assert.deepEqual(
      (await groups(bench)).map(({ fingerprint }) => fingerprint),
      [OTHER],
    )
    await bench.declare('plain', policy({ aggregates: false }), await bench.open())
    // Counted by a process that has not heard of it.
    await fail(bench, { fingerprint: OTHER })
    await foldAll(bench.store)
    assert.deepEqual(await groups(bench), [])
    assert.equal(await bench.store.failureGroup({ fingerprint: OTHER }), null)
    await bench.declare('plain', policy({ aggregates: true }))
    assert.deepEqual(
      (await groups(bench)).map(({ count }) => count),
      [1],
      'what happened meanwhile is not counted afterwards',
    )
  },

  async 'groups are found by type, code, fault, state, time and text'(bench) {
    await fail(bench, { message: 'The Gateway is down.' })
    await bench.clock.advance(1_000)
    await fail(bench, { fingerprint: OTHER, job: { type: 'other' } })
    const found = async (filter: FailureGroupFilter) =>
      (await groups(bench, { filter })).map(({ fingerprint }) => fingerprint)
    assert.deepEqual(await found({ type: 'plain' }), [ONE])
    assert.deepEqual(await found({ type: 'nobody' }), [])
    assert.deepEqual(await found({ code: someFailure().code }), [OTHER, ONE])
    assert.deepEqual(await found({ code: 'ELSE' }), [])
    assert.deepEqual(await found({ fault: 'dependency' }), [OTHER, ONE])
    assert.deepEqual(await found({ fault: 'caller' }), [])
    assert.deepEqual(await found({ sinceMs: bench.clock.nowMs() }), [OTHER])
    assert.deepEqual(await found({ text: 'gateway' }), [ONE])
    assert.deepEqual(await found({ text: '%' }), [], 'text is no pattern')
    await act(bench.store, { to: 'resolved' })
    assert.deepEqual(await found({ state: 'resolved' }), [ONE])
    assert.deepEqual(await found({ state: 'open' }), [OTHER])
  },

  async 'groups are listed by when they were last seen or by their count, page by page'(bench) {
    const many = Array.from({ length: 7 }, (_, i) => `1:${i}`)
    for (const [i, fingerprint] of many.entries()) {
      await failTimes(bench, i % 2 === 0 ? 1 : 2, { fingerprint })
      // Some at the same moment: what is equal must not be lost between two pages.
      if (i % 3 === 0) await bench.clock.advance(1_000)
    }
    await foldAll(bench.store)
    for (const sort of ['last-seen', 'count'] as const) {
      const whole = await groups(bench, { sort })
      const values = whole.map((group) => (sort === 'count' ? group.count : group.lastAtMs))
      assert.deepEqual(
        values,
        values.toSorted((a, b) => b - a),
      )
      const seen: FailureGroup[] = []
      for (;;) {
        const last = seen.at(-1)
        const value = sort === 'count' ? last?.count : last?.lastAtMs
        const after = last === undefined ? null : { value: Number(value), fingerprint: last.fingerprint }
        const page = await bench.store.failureGroups({ filter: {}, sort, after, limit: 2 })
        if (page.length === 0) break
        seen.push(...page)
      }
      assert.deepEqual(seen, whole, sort)
      assert.equal(whole.length, many.length)
    }
  },

  async 'a group knows its newest jobs, and how they stand'(bench) {
    const first = await fail(bench)
    await bench.clock.advance(1_000)
    const second = await fail(bench, { isFinal: false })
    await foldAll(bench.store)
    const found = await bench.store.failureGroup({ fingerprint: ONE })
    assert.deepEqual(
      found?.jobs.map(({ id, status, attempt }) => [id, status, attempt]),
      [
        [second, 'queued', 1],
        [first, 'failed', 1],
      ],
    )
    assert.equal(found?.jobs[0]?.failure, (await bench.row(second)).latestFailure?.seq)
    assert.equal(await bench.store.failureGroup({ fingerprint: '1:nobody' }), null)
  },

  async 'a group knows the batches of its newest jobs, and how these stand'(bench) {
    const open = newBatch(bench, { name: 'open', isSealed: false })
    const past = newBatch(bench, { name: 'past', isSealed: false, expiresInMs: 1_000 })
    for (const batch of [open, past]) await bench.store.openBatch({ batch, jobs: [] })
    for (const batch of [open.id, past.id, past.id]) await fail(bench, { job: { batch } })
    const failedAlone = await fail(bench)
    await bench.clock.advance(1_000)
    await foldAll(bench.store)
    const batches = async () => (await bench.store.failureGroup({ fingerprint: ONE }))?.batches
    const expected = [
      { id: past.id, name: 'past', state: 'expired', count: 2 },
      { id: open.id, name: 'open', state: 'open', count: 1 },
    ]
    assert.deepEqual(await batches(), expected)
    const [inOpen] = await bench.store.jobs({ batch: open.id, limit: 1 })
    assert(inOpen !== undefined)
    // Its place there is another job's now.
    await bench.submit({ retriedFrom: { id: inOpen.id, ...BY } })
    assert.deepEqual(await batches(), expected.slice(0, 1))
    assert.equal((await bench.row(failedAlone)).batchId, null)
  },

  async 'a resolved group that sees a new failure is regressed, with an event'(bench) {
    await fail(bench)
    await foldAll(bench.store)
    assert.equal(await act(bench.store, { to: 'resolved' }), 'done')
    assert.deepEqual(await stated(bench), ['resolved'])
    await bench.clock.advance(1_000)
    await fail(bench)
    await foldAll(bench.store)
    assert.deepEqual(await stated(bench), ['regressed'])
    const found = await bench.store.failureGroup({ fingerprint: ONE })
    assert.deepEqual(
      found?.events.map(({ kind, atMs, data }) => [kind, atMs, data.actor]),
      [
        ['regressed', bench.clock.nowMs(), undefined],
        ['resolved', bench.clock.nowMs() - 1_000, 'olga'],
      ],
    )
    assert.equal(found?.events[0]?.data.failure, found?.group.newest[0]?.seq)
  },

  async 'a failure from before a group was resolved is no regression, though it is counted afterwards'(bench) {
    await fail(bench)
    await foldAll(bench.store)
    await fail(bench)
    assert.equal(await act(bench.store, { to: 'resolved' }), 'done')
    await foldAll(bench.store)
    assert.deepEqual([await stated(bench), (await groups(bench))[0]?.count], [['resolved'], 2])
  },

  async 'a snooze ends at its time, for every process, though nobody does anything'(bench) {
    const other = await bench.open()
    await fail(bench)
    await foldAll(bench.store)
    await act(bench.store, { to: 'snoozed', forMs: 1_000, more: null })
    assert.deepEqual(await stated(bench, other), ['snoozed'])
    await bench.clock.advance(999)
    assert.deepEqual(await stated(bench), ['snoozed'])
    await bench.clock.advance(1)
    for (const store of [bench.store, other]) {
      assert.deepEqual(await stated(bench, store), ['open'])
      assert.equal((await store.failureGroup({ fingerprint: ONE }))?.group.state, 'open')
    }
    assert.equal((await groups(bench, { filter: { state: 'open' } })).length, 1)
    assert.equal((await groups(bench, { filter: { state: 'snoozed' } })).length, 0)
  },

  async 'a snooze ends when so many more have failed'(bench) {
    await failTimes(bench, 2)
    await foldAll(bench.store)
    await act(bench.store, { to: 'snoozed', forMs: null, more: 2 })
    await fail(bench)
    assert.equal((await groups(bench))[0]?.state, 'snoozed')
    await fail(bench)
    assert.equal((await groups(bench))[0]?.state, 'open')
  },

  async 'an act on a group counts only if it stands as the person saw it, and is in the trail if it does'(bench) {
    await fail(bench)
    await foldAll(bench.store)
    const trail = () => bench.store.auditTrail({ filter: { target: 'failure-group' }, beforeSeq: null, limit: 10 })
    const before = await groups(bench)
    for (const expect of ['snoozed', 'resolved', 'regressed'] as const) {
      assert.equal(await act(bench.store, { to: 'resolved' }, expect), 'moved-on')
    }
    assert.equal(await act(bench.store, { to: 'resolved' }, 'open', '1:nobody'), 'moved-on')
    assert.deepEqual([await groups(bench), await trail()], [before, []])
    await act(bench.store, { to: 'snoozed', forMs: TTL_MS, more: 9 })
    await act(bench.store, { to: 'resolved' }, 'snoozed')
    await act(bench.store, { to: 'open' }, 'resolved')
    const entries = await trail()
    assert.deepEqual(
      entries.map(({ act: name, actor, reason, ids }) => [name, actor, reason, ids]),
      ['failures.reopen', 'failures.resolve', 'failures.snooze'].map((name) => [name, BY.actor, BY.reason, [ONE]]),
    )
    assert.deepEqual(await stated(bench), ['open'])
  },

  async 'of two people who act on what they both saw, one hears that the group has moved on'(bench) {
    await fail(bench)
    await foldAll(bench.store)
    const [one, other] = await bench.openMany(2)
    const answers = await Promise.all([one, other ?? one].map((store) => act(store, { to: 'resolved' })))
    assert.deepEqual(answers.toSorted(), ['done', 'moved-on'])
  },
})
