import assert from 'node:assert/strict'
import type { PruneRule } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { failed } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const KEEP_MS = 1_000
const rule: PruneRule = { type: 'plain', completeMs: KEEP_MS, failedMs: KEEP_MS, cancelledMs: KEEP_MS }

export const pruning = topic('pruning', {
  async 'a finished job is removed with its history when its time is over, and not before'(bench) {
    for (const status of ['complete', 'failed', 'cancelled'] as const) {
      const id = await bench.finished(status)
      await bench.clock.advance(KEEP_MS - 1)
      assert.equal(await walk(bench), 0, `${status}, one millisecond before its time`)
      await bench.clock.advance(1)
      assert.equal(await walk(bench), 1, status)
      assert.equal(await bench.store.job({ id }), null)
      assert.deepEqual(await bench.store.events({ id }), [])
      assert.deepEqual(await bench.store.failures({ id }), [])
    }
    assert.deepEqual(await bench.store.jobs({ limit: 10 }), [])
  },

  async 'an unfinished job is never removed, however old'(bench) {
    await bench.submit()
    await bench.submit({ delayMs: 10 })
    const { lease } = await bench.processing({ type: 'other' })
    await bench.clock.advance(1_000 * KEEP_MS)
    await bench.reclaim(lease, { to: 'orphaned' })
    assert.equal(await walk(bench, [rule, { ...rule, type: 'other' }]), 0)
  },

  async 'what is kept for ever is kept, and so is a type without a rule'(bench) {
    await bench.finished('complete')
    await bench.finished('failed')
    await bench.finished('cancelled')
    await bench.finished('complete', { type: 'other' })
    await bench.clock.advance(1_000 * KEEP_MS)
    assert.equal(await walk(bench, [{ type: 'plain', completeMs: null, failedMs: null, cancelledMs: null }]), 0)
    assert.equal(await walk(bench, [{ ...rule, completeMs: null, failedMs: null }]), 1)
    assert.equal(await walk(bench, [{ ...rule, type: 'nobody.declared.this' }]), 0)
  },

  async 'a dead letter without a retention is never removed, nor the job it is about'(bench) {
    const id = await deadLettered(bench)
    await bench.clock.advance(1_000 * KEEP_MS)
    const before = await bench.store.deadLetters(LETTERS)
    assert.equal(before.length, 1)
    assert.equal(await walk(bench), 0)
    assert.equal(await walk(bench, [{ ...rule, deadLettersMs: null }]), 0)
    assert.deepEqual(await bench.store.deadLetters(LETTERS), before)
    assert.equal((await bench.row(id)).status, 'failed')
  },

  async 'a dead letter goes when its own time is over, and only then may its job go'(bench) {
    const id = await deadLettered(bench)
    const rules = [{ ...rule, failedMs: KEEP_MS, deadLettersMs: 2 * KEEP_MS }]
    await bench.clock.advance(2 * KEEP_MS - 1)
    assert.deepEqual(await bench.store.prune({ rules, after: 0, limit: 10 }), { removed: 0, letters: 0, cursor: null })
    await bench.clock.advance(1)
    assert.deepEqual(await bench.store.prune({ rules, after: 0, limit: 10 }), { removed: 1, letters: 1, cursor: null })
    assert.deepEqual(await bench.store.deadLetters(LETTERS), [])
    assert.equal(await bench.store.job({ id }), null)
  },

  async 'a dead letter whose time is over leaves its job as it is, where that is kept longer'(bench) {
    const id = await deadLettered(bench)
    const { row, ...history } = await bench.picture(id)
    const rules = [{ ...rule, failedMs: null, deadLettersMs: KEEP_MS }]
    await bench.clock.advance(KEEP_MS)
    assert.deepEqual(await bench.store.prune({ rules, after: 0, limit: 10 }), { removed: 0, letters: 1, cursor: null })
    assert.deepEqual(await bench.picture(id), { row: { ...row, isDeadLettered: false }, ...history })
    assert.deepEqual(await bench.store.prune({ rules, after: 0, limit: 10 }), { removed: 0, letters: 0, cursor: null })
  },

  async 'a step looks at a bounded number of jobs, and the cursor leads through all of them'(bench) {
    for (let i = 0; i < 25; i++) await (i % 3 === 0 ? bench.submit() : bench.finished('cancelled'))
    await bench.clock.advance(KEEP_MS)
    let removed = 0
    let steps = 0
    for (let after: number | null = 0; after !== null; steps++) {
      const step = await bench.store.prune({ rules: [rule], after, limit: 4 })
      assert(step.removed <= 4)
      assert(step.cursor === null || step.cursor > after, 'the cursor does not move on')
      removed += step.removed
      after = step.cursor
      // Meanwhile life goes on.
      if (steps < 3) await bench.finished('cancelled')
    }
    assert.equal(removed, 16)
    assert(steps >= 6)
    assert.equal((await bench.store.jobs({ status: 'queued', limit: 100 })).length, 9)
    assert.equal((await bench.store.jobs({ status: 'cancelled', limit: 100 })).length, 3)
  },

  async 'nothing to remove is nothing to do'(bench) {
    assert.deepEqual(await bench.store.prune({ rules: [rule], after: 0, limit: 10 }), {
      removed: 0,
      letters: 0,
      cursor: null,
    })
    assert.deepEqual(await bench.store.prune({ rules: [], after: 0, limit: 10 }), {
      removed: 0,
      letters: 0,
      cursor: null,
    })
  },
})

const LETTERS = { afterOffset: 0, limit: 10 }

async function deadLettered(bench: Bench): Promise<string> {
  const { id, lease, worker } = await bench.processing()
  await worker.close(lease, failed(lease, { deadLetter: 'queue' }))
  await bench.store.foldFailures({ limit: 100 })
  return id
}

/** Through the whole store once; answers how many were removed. */
async function walk(bench: Bench, rules: readonly PruneRule[] = [rule]): Promise<number> {
  let removed = 0
  for (let after: number | null = 0; after !== null; ) {
    const step: { removed: number; cursor: number | null } = await bench.store.prune({ rules, after, limit: 3 })
    removed += step.removed
    after = step.cursor
  }
  return removed
}
