import assert from 'node:assert/strict'
import type { Change } from '../../../core/job/change.ts'
import type { Status } from '../../../core/job/states.ts'
import type { Held, Intervention, JobRow } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import type { BenchWorker } from '../bench/bench-worker.ts'
import { cancelled, complete, failed, markFailed, REQUEUE_CAUSES, requeued, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const finality = topic('finality', {
  async 'a complete job stays complete, whoever calls whatever'(bench) {
    await staysAsItIs(bench, await bench.finished('complete'))
  },

  async 'a cancelled job stays cancelled, whoever calls whatever'(bench) {
    await staysAsItIs(bench, await bench.finished('cancelled'))
  },

  async 'a failed job stays failed, but for a manual retry'(bench) {
    const id = await bench.finished('failed')
    await staysAsItIs(bench, id, ['retry-in-place'])
    assert.equal(await bench.intervene(id, retryInPlace(await bench.row(id))), 'done')
    assert.equal((await bench.row(id)).status, 'queued')
  },

  async 'a manual retry that is not counted as one is refused'(bench) {
    const id = await bench.finished('failed')
    const { spent } = await bench.row(id)
    await bench.changesNothingOrIsRefused(id, 'an uncounted retry', () =>
      bench.intervene(id, { kind: 'retry-in-place', spent }),
    )
  },

  async 'a job that only goes forward never goes back from processing'(bench) {
    const { id, lease, worker } = await bench.processing({ type: 'forward' })
    for (const cause of REQUEUE_CAUSES) {
      await bench.changesNothingOrIsRefused(id, `being ${cause}`, () => worker.close(lease, requeued(cause, lease)))
      const again = async () => bench.reclaim(lease, requeued(cause, lease), 'unstarted')
      await bench.changesNothingOrIsRefused(id, `being taken back as ${cause}`, again)
    }
    await bench.expireLeases()
    await bench.changesNothingOrIsRefused(id, 'a reclaim', () => bench.reclaim(lease, requeued('reclaimed', lease)))
    await bench.changesNothingOrIsRefused(id, 'a manual retry', async () =>
      bench.intervene(id, retryInPlace(await bench.row(id))),
    )
    assert.equal(await worker.close(lease, complete()), 'closed')
  },

  async 'a job that only goes forward never leaves a terminal state'(bench) {
    for (const status of ['complete', 'failed', 'cancelled'] as const) {
      await staysAsItIs(bench, await bench.finished(status, { type: 'forward' }))
    }
  },

  async 'a queued job can only be claimed, marked as failed or cancelled'(bench) {
    const id = await bench.submit()
    await staysAsItIs(bench, id, ['mark-failed', 'cancel'])
    const worker = await bench.worker()
    assert.equal((await worker.claimOne()).id, id)
  },

  async 'a job that waits for its retry can only be claimed, marked as failed or cancelled'(bench) {
    const { id, lease, worker } = await bench.processing()
    await worker.close(lease, requeued('retry', lease, { delayMs: 1_000 }))
    await staysAsItIs(bench, id, ['mark-failed', 'cancel'])
  },
})

/** Tries every write there is, for every attempt the job ever had and the next one. */
async function staysAsItIs(bench: Bench, id: string, except: readonly Intervention['act']['kind'][] = []) {
  const row = await bench.row(id)
  const worker = await bench.worker()
  for (let attempt = 0; attempt <= row.attempt + 1; attempt++) {
    const held = { key: row.key, attempt }
    const writes = { ...workersWrites(worker, held, row), ...reclaims(bench, held, row) }
    for (const [what, write] of Object.entries(writes)) await bench.changesNothingOrIsRefused(id, what, write)
  }
  await bench.expireLeases()
  const acts = interventions(row).filter(({ kind }) => !except.includes(kind))
  for (const act of acts) await bench.changesNothingOrIsRefused(id, act.kind, () => bench.intervene(id, act))
  const job = bench.newJob({ id, payload: '"another"' })
  await bench.changesNothingOrIsRefused(id, 'a submission of its id', () => bench.store.submit({ jobs: [job] }))
  await bench.changesNothingOrIsRefused(id, 'a declaration of its type', () => bench.declare(row.type, row.policy))
  if (row.status !== ('queued' satisfies Status)) {
    await bench.changesNothingOrIsRefused(id, 'a claim', () => worker.claim({ max: 100 }))
  }
}

function everyChange(row: JobRow): Exclude<Change, { to: 'complete' }>[] {
  return [failed(row), cancelled(), ...REQUEUE_CAUSES.map((cause) => requeued(cause, row))]
}

type Writes = Record<string, () => Promise<unknown>>

function workersWrites(worker: BenchWorker, held: Held, row: JobRow): Writes {
  const closes = [complete('"again"'), ...everyChange(row)].map((change) => [
    `a close of attempt ${held.attempt} to ${change.to}${change.to === 'queued' ? ` (${change.cause})` : ''}`,
    () => worker.close(held, change, 1),
  ])
  return {
    ...Object.fromEntries(closes),
    [`a start of attempt ${held.attempt}`]: () => worker.start(held),
    [`a renewal of attempt ${held.attempt}`]: () => worker.renew(held),
    [`a report of attempt ${held.attempt}`]: () => worker.progress(held, 0.1),
  }
}

function reclaims(bench: Bench, held: Held, row: JobRow): Writes {
  const changes = [...everyChange(row), { to: 'orphaned' } as const]
  const writes = (['expired', 'unstarted'] as const).flatMap((expect) =>
    changes.map((change) => [
      `a reclaim of attempt ${held.attempt} as ${expect} to ${change.to}`,
      () => bench.store.reclaim({ reclaims: [{ ...held, expect, change }] }),
    ]),
  )
  return Object.fromEntries(writes)
}

function interventions(row: JobRow): Intervention['act'][] {
  return [retryInPlace(row), markFailed(row), { kind: 'cancel' }, { kind: 'request-cancel' }]
}
