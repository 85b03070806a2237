import assert from 'node:assert/strict'
import type { Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { TTL_MS } from '../bench/bench-worker.ts'
import { failed, requeued } from '../bench/changes.ts'
import { topic } from '../promise.ts'

export const durability = topic('durability', {
  async 'what was acknowledged is there after every process has ended'(bench) {
    await oneOfEach(bench)
    const before = await everything(bench.store)
    assert(before.jobs.length >= 7)
    assert.deepEqual(await everything(await bench.reopen()), before)
  },

  async 'what one process wrote, another reads at once'(bench) {
    const other = await bench.open()
    await oneOfEach(bench)
    assert.deepEqual(await everything(other), await everything(bench.store))
  },

  async 'a lease outlives the process that gave it'(bench) {
    const { id, lease } = await bench.processing()
    await bench.reopen()
    const late = await bench.worker()
    assert.deepEqual((await late.claim()).leases, [])
    assert.equal(await late.close(lease, { to: 'complete', result: null }), 'closed')
    assert.equal((await bench.row(id)).status, 'complete')
  },

  async 'one call that is refused does not harm those made at the same moment'(bench) {
    const good = Array.from({ length: 20 }, () => bench.newJob())
    const calls = good.map((job) => bench.store.submit({ jobs: [job] }))
    const bad = bench.store.submit({ jobs: [bench.newJob({ type: 'nobody.declared.this' })] })
    const worker = bench.worker()
    await assert.rejects(bad, { code: 'TYPE_UNKNOWN' })
    assert.deepEqual(
      (await Promise.all(calls)).map(([one]) => one?.isNew),
      good.map(() => true),
    )
    assert.equal((await (await worker).claim({ max: 100 })).leases.length, good.length)
  },

  async 'stopping finishes what was begun'(bench) {
    const id = bench.makeId()
    const submitted = bench.store.submit({ jobs: [bench.newJob({ id })] })
    await bench.store.stop()
    assert.equal((await submitted)[0]?.id, id)
  },

  async 'a stopped handle refuses every call, and may be stopped again'(bench) {
    const { store } = bench
    const { id, lease, worker } = await bench.processing()
    await store.stop()
    await store.stop()
    const held = { key: lease.key, attempt: lease.attempt }
    const calls: Record<string, () => Promise<unknown>> = {
      submit: () => bench.submit(),
      claim: () => worker.claim(),
      start: () => worker.start(held),
      renew: () => worker.renew(held),
      report: () => worker.progress(held, 0.2),
      close: () => worker.close(held, failed(lease)),
      reclaim: () => bench.reclaim(lease, { to: 'orphaned' }),
      intervene: () => bench.intervene(id, { kind: 'cancel' }, { status: 'queued', attempt: 0 }),
      enlist: () => store.enlist({ id: 'late', host: 'bench', pid: 1, types: [] }),
      dismiss: () => store.dismiss({ worker: worker.key }),
      register: () => store.register({ types: [] }),
      prune: () => store.prune({ rules: [], after: 0, limit: 1 }),
      job: () => store.job({ id }),
      jobs: () => store.jobs({ limit: 1 }),
      jobPage: () => store.jobPage({ limit: 1 }),
      countJobs: () => store.countJobs({ max: 1 }),
      events: () => store.events({ id }),
      counts: () => store.counts(),
      auditTrail: () => store.auditTrail({ filter: {}, beforeSeq: null, limit: 1 }),
      foldFailures: () => store.foldFailures({ limit: 1 }),
      failureGroup: () => store.failureGroup({ fingerprint: '1:x' }),
      actOnFailureGroup: () =>
        store.actOnFailureGroup({
          fingerprint: '1:x',
          act: { to: 'open' },
          expect: 'open',
          actor: 'olga',
          reason: 'late',
        }),
    }
    for (const [name, call] of Object.entries(calls)) {
      await assert.rejects(call, { name: 'RedressError' }, `${name} was answered by a stopped store`)
    }
  },
})

/** Jobs in every state there is, with a worker that stopped and one that did not. */
async function oneOfEach(bench: Bench): Promise<void> {
  await bench.submit({ payload: '{"text":"käse 🧀 \\u0000"}', owner: 'otto', priority: 7 })
  await bench.submit({ delayMs: 60_000, dedupe: { key: 'k', scope: 'always' } })
  await bench.finished('complete', { type: 'third' })
  await bench.finished('cancelled', { type: 'third' })
  const dead = await bench.processing({ type: 'third' })
  await dead.worker.close(dead.lease, failed(dead.lease, { deadLetter: 'queue' }), 12)
  const retried = await bench.processing({ type: 'third' })
  await retried.worker.start(retried.lease)
  await retried.worker.close(retried.lease, requeued('retry', retried.lease, { delayMs: 1_000 }), 5)
  const running = await bench.processing({ type: 'other' })
  await running.worker.renew(running.lease, { ttlMs: TTL_MS })
  await running.worker.progress(running.lease, 0.5)
  await bench.intervene(running.id, { kind: 'request-cancel' })
  await bench.store.dismiss({ worker: dead.worker.key })
}

async function everything(store: Store) {
  const jobs = await store.jobs({ limit: 1_000 })
  return {
    types: await store.types(),
    workers: await store.workers(),
    jobs,
    events: await Promise.all(jobs.map(({ id }) => store.events({ id }))),
    failures: await Promise.all(jobs.map(({ id }) => store.failures({ id }))),
    deadLetters: await store.deadLetters({ afterOffset: 0, limit: 1_000 }),
    counts: await store.counts(),
  }
}
