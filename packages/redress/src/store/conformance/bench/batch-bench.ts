import assert from 'node:assert/strict'
import type { BatchEventKind, BatchOutcome } from '../../../core/batch.ts'
import { RedressError } from '../../../core/errors.ts'
import type { BatchRow, NewBatch } from '../../contract/batches.ts'
import type { Bench } from './bench.ts'
import type { BenchWorker } from './bench-worker.ts'
import { cancelled, complete, failed } from './changes.ts'

/** What the promises about batches are tried with. */

export const DAY_MS = 86_400_000
export const ON_SETTLED = { type: 'third', input: '{"say":"done"}' }
export const PLAIN = [{ type: 'plain', ttlMs: 30_000 }] as const

export type End = 'complete' | 'failed' | 'failed for good' | 'cancelled'

export function newBatch(bench: Bench, parts: Partial<NewBatch> = {}): NewBatch {
  return {
    id: bench.makeId(),
    name: 'spring',
    owner: null,
    rollup: null,
    isSealed: true,
    expiresInMs: null,
    data: '{}',
    onSettled: null,
    notify: null,
    ...parts,
  }
}

/** A batch of so many plain jobs. */
export async function opened(bench: Bench, jobs: number, parts: Partial<NewBatch> = {}): Promise<string> {
  const batch = newBatch(bench, parts)
  await bench.store.openBatch({ batch, jobs: Array.from({ length: jobs }, () => bench.newJob()) })
  return batch.id
}

/** Brings the next plain jobs to these ends; answers with their ids. */
export async function endAll(bench: Bench, ends: readonly End[]): Promise<string[]> {
  const worker = await bench.worker()
  const ids: string[] = []
  for (const end of ends) {
    const lease = await worker.claimOne(PLAIN)
    ids.push(lease.id)
    await worker.close(lease, END[end](lease))
  }
  return ids
}

const END: Record<End, (lease: { spent: string | null }) => Parameters<BenchWorker['close']>[1]> = {
  complete: () => complete(),
  failed: (lease) => failed(lease),
  'failed for good': (lease) => failed(lease, { isPermanent: true }),
  cancelled: () => cancelled(),
}

export async function row(bench: Bench, id: string): Promise<BatchRow> {
  const found = await bench.store.batch({ id })
  assert(found !== null, `batch ${id} is gone`)
  return found
}

/** Those that are not zero. */
export async function counts(bench: Bench, id: string): Promise<Partial<Record<string, number>>> {
  const { total, unfinished, complete, failed, permanent, cancelled } = await row(bench, id)
  const all = { total, unfinished, complete, failed, permanent, cancelled }
  return Object.fromEntries(Object.entries(all).filter(([, count]) => count > 0))
}

export async function kinds(bench: Bench, id: string): Promise<BatchEventKind[]> {
  return (await bench.store.batchEvents({ id })).map(({ kind }) => kind)
}

/** What the jobs of onSettled were told of this batch, in order. */
export async function outcomes(bench: Bench, id: string): Promise<BatchOutcome[]> {
  const jobs = await bench.store.jobs({ type: 'third', limit: 1_000 })
  const told = jobs.map(({ payload }) => (JSON.parse(payload) as { batch: BatchOutcome }).batch)
  return told.filter((outcome) => outcome.id === id).reverse()
}

/** Every batch in the store counts what its jobs are. Only where none of them was removed. */
export async function checkBatches(bench: Bench): Promise<void> {
  for (const batch of await bench.store.batches({ limit: 1_000 })) {
    const jobs = await bench.store.jobs({ batch: batch.id, limit: 10_000 })
    const of = (...statuses: string[]) => jobs.filter(({ status }) => statuses.includes(status)).length
    assert.deepEqual(
      [batch.total, batch.unfinished, batch.processing, batch.complete, batch.failed, batch.cancelled],
      [jobs.length, of('queued', 'processing'), of('processing'), of('complete'), of('failed'), of('cancelled')],
    )
  }
  await bench.checkAll()
}

export async function refused(code: RedressError['code'], promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error) => error instanceof RedressError && error.code === code)
}
