import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type BatchOutcome, rollUp } from '../../src/core/batch.ts'
import {
  cancelled,
  complete,
  failed,
  markFailed,
  requeued,
  retryInPlace,
} from '../../src/store/conformance/bench/changes.ts'
import { Bench } from '../../src/store/conformance/index.ts'
import type { JobRow } from '../../src/store/contract/store.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const PLAIN = [{ type: 'plain', ttlMs: 30_000 }] as const
const EXPIRES_MS = 5_000

const STEPS = [
  'complete',
  'fail',
  'fail for good',
  'cancel the attempt',
  'requeue',
  'cancel',
  'mark failed',
  'retry in place',
  'retry as a new job',
  'add',
  'seal',
  'expire',
  'wait',
] as const
type StepName = (typeof STEPS)[number]

/** One batch, and what may happen to it and its jobs. Each step says whether it could be done. */
async function take(bench: Bench, batch: string, step: StepName, pick: number): Promise<void> {
  const jobs = await bench.store.jobs({ type: 'plain', limit: 100 })
  const one = (is: (job: JobRow) => boolean): JobRow | undefined => {
    const found = jobs.filter(is)
    return found[pick % Math.max(1, found.length)]
  }
  const close = async (change: (lease: { spent: string | null }) => Parameters<typeof worker.close>[1]) => {
    const { leases } = await worker.claim({ lanes: PLAIN })
    for (const lease of leases) await worker.close(lease, change(lease))
  }
  const worker = await bench.worker()
  const failedOne = one(({ status }) => status === 'failed')
  const queuedOne = one(({ status }) => status === 'queued')
  switch (step) {
    case 'complete':
      return close(() => complete())
    case 'fail':
      return close((lease) => failed(lease))
    case 'fail for good':
      return close((lease) => failed(lease, { isPermanent: true }))
    case 'cancel the attempt':
      return close(() => cancelled())
    case 'requeue':
      return close((lease) => requeued('retry', lease))
    case 'cancel':
      if (queuedOne) await bench.intervene(queuedOne.id, { kind: 'cancel' })
      return
    case 'mark failed':
      if (queuedOne) await bench.intervene(queuedOne.id, markFailed(queuedOne))
      return
    case 'retry in place':
      if (failedOne) await bench.intervene(failedOne.id, retryInPlace(failedOne))
      return
    case 'retry as a new job':
      if (failedOne) {
        const { id, retriedAs } = failedOne
        await bench.submit({ retriedFrom: { id, actor: 'olga', reason: 'a test', retriedAsSeen: retriedAs } })
      }
      return
    case 'add':
      await bench.submit({ batch }).catch(() => undefined)
      return
    case 'seal':
      await bench.store.sealBatch({ id: batch })
      return
    case 'expire':
      await bench.store.expireBatches({ limit: 10 })
      return
    case 'wait':
      await bench.clock.advance(1_000)
  }
}

test('whatever happens, the counts match the jobs, and each settlement is announced once with its job', async () => {
  const steps = fc.array(fc.tuple(fc.constantFrom(...STEPS), fc.nat({ max: 5 })), { minLength: 5, maxLength: 30 })
  const rollups = fc.constantFrom('partial', 'all-or-nothing', 'any-permanent')
  await fc.assert(
    fc.asyncProperty(
      steps,
      rollups,
      fc.integer({ min: 0, max: 4 }),
      fc.boolean(),
      async (all, rollup, size, isSealed) => {
        const bench = await Bench.set(({ nowMs }) => openSqlite({ path: ':memory:', nowMs }), 'here')
        try {
          const id = bench.makeId()
          const jobs = Array.from({ length: size }, () => bench.newJob())
          const onSettled = { type: 'third', input: '{}' }
          const more = { data: '{}', notify: null, owner: null, onSettled, expiresInMs: EXPIRES_MS }
          await bench.store.openBatch({ batch: { id, name: 'any', rollup, isSealed, ...more }, jobs })
          let wasExpired = false
          for (const [step, pick] of all) {
            await take(bench, id, step, pick)
            wasExpired = await check(bench, id, wasExpired)
          }
          await bench.checkAll()
        } finally {
          await bench.stop()
        }
      },
    ),
    { numRuns: 50 },
  )
})

async function check(bench: Bench, id: string, wasExpired: boolean): Promise<boolean> {
  const batch = await bench.store.batch({ id })
  if (batch === null) throw new Error('the batch is gone')
  const jobs = await bench.store.jobs({ batch: id, limit: 100 })
  const of = (...statuses: string[]) => jobs.filter(({ status }) => statuses.includes(status)).length
  expect(batch).toMatchObject({
    total: jobs.length,
    unfinished: of('queued', 'processing'),
    processing: of('processing'),
    complete: of('complete'),
    failed: of('failed'),
    cancelled: of('cancelled'),
  })

  const { state, settlements, unfinished, isSealed } = batch
  const isOver = bench.clock.nowMs() >= Number(batch.expiresAtMs)
  if (wasExpired) expect(state).toBe('expired')
  if (state === 'open') expect(unfinished > 0 || !isSealed).toBe(true)
  else if (state !== 'expired')
    expect([unfinished, isSealed, isOver, state]).toEqual([0, true, false, rollUp(batch, batch.rollup)])

  const kinds = (await bench.store.batchEvents({ id })).map(({ kind }) => kind)
  const count = (kind: string) => kinds.filter((one) => one === kind).length
  expect(count('settled')).toBe(settlements)
  expect(count('expired')).toBeLessThanOrEqual(1)
  // Between two settlements lies a reopening.
  expect(kinds.filter((kind) => kind !== 'expired').every((kind, i) => (kind === 'settled') === (i % 2 === 0))).toBe(
    true,
  )
  const told = (await bench.store.jobs({ type: 'third', limit: 100 })).map(
    ({ payload }) => JSON.parse(payload).batch as BatchOutcome,
  )
  expect(told.map(({ settlement }) => settlement).sort()).toEqual(Array.from({ length: settlements }, (_, i) => i + 1))
  return state === 'expired'
}
