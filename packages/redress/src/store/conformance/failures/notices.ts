import assert from 'node:assert/strict'
import { type NewNotice, noticesOfFailure, typeOfChannel } from '../../../core/notice/notice.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { Reclaim } from '../../contract/store.ts'
import { newBatch } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed, markFailed, requeued, retryInPlace, someFailure } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const WINDOW_MS = 60_000

export const notices = topic('notices', {
  async 'a notice is there if and only if the close that it came with counted'(bench) {
    const { id, lease, worker } = await bench.processing()
    const close = { key: lease.key, attempt: lease.attempt, change: failed(lease), ranMs: null }
    const stale = { ...close, attempt: lease.attempt + 1, notices: [aNotice({ subject: 'job:stale', windowMs: 0 })] }
    const params = {
      worker: worker.key,
      closes: [stale, { ...close, notices: [aNotice({ subject: `job:${id}`, windowMs: 0 })] }],
    }
    assert.deepEqual(await bench.store.close(params), ['lost', 'closed'])
    assert.deepEqual(await bench.store.close(params), ['lost', 'lost'], 'sent again, because the answer was lost')
    assert.deepEqual(await subjects(bench), [`job:${id}`])
  },

  async 'a reported orphan, one that fails, an act and a refused submission bring theirs, too'(bench) {
    const reclaims: Reclaim[] = []
    for (const to of ['orphaned', 'failed'] as const) {
      const { lease } = await bench.processing()
      const change = to === 'orphaned' ? ({ to } as const) : failed(lease)
      const { key, attempt } = lease
      reclaims.push({ key, attempt, expect: 'expired', change, notices: [aNotice({ subject: to, windowMs: 0 })] })
    }
    assert.deepEqual(await bench.store.reclaim({ reclaims }), ['lost', 'lost'])
    assert.deepEqual(await subjects(bench), [], 'their leases had not run out')
    await bench.expireLeases()
    assert.deepEqual(await bench.store.reclaim({ reclaims }), ['closed', 'closed'])
    assert.deepEqual(await bench.store.reclaim({ reclaims }), ['lost', 'lost'])

    const id = await bench.submit()
    const act = { ...markFailed(await bench.row(id)), notices: [aNotice({ subject: 'marked', windowMs: 0 })] }
    assert.equal(await bench.intervene(id, act), 'done')
    assert.equal(await bench.intervene(id, act, { status: 'queued', attempt: 0 }), 'moved-on')

    const rejected = {
      ...bench.newJob({ rejected: someFailure() }),
      notices: [aNotice({ subject: 'refused', windowMs: 0 })],
    }
    await bench.store.submit({ jobs: [rejected] })
    await bench.store.submit({ jobs: [rejected] })
    assert.deepEqual(await subjects(bench), ['orphaned', 'failed', 'marked', 'refused'])
  },

  async 'what has the same cause is counted within the window, and told with the next one after it'(bench) {
    const startMs = bench.clock.nowMs()
    assert.deepEqual(await add(bench, aNotice()), { seq: 1, isNew: true })
    await bench.clock.advance(WINDOW_MS - 1)
    assert.deepEqual(await add(bench, aNotice()), { seq: 1, isNew: false })
    await bench.clock.advance(1)
    assert.deepEqual(await add(bench, aNotice()), { seq: 2, isNew: true })
    const [second, first] = await bench.store.notices({ limit: 10 })
    const times = { atMs: startMs, lastAtMs: startMs + WINDOW_MS - 1, untilMs: startMs + WINDOW_MS }
    assert.deepEqual(pick(first, 'seq', 'repeats', 'earlier', 'earlierAtMs', 'atMs', 'lastAtMs', 'untilMs'), {
      ...{ seq: 1, repeats: 1, earlier: 0, earlierAtMs: null },
      ...times,
    })
    assert.deepEqual(pick(second, 'seq', 'repeats', 'earlier', 'earlierAtMs'), {
      ...{ seq: 2, repeats: 0, earlier: 1, earlierAtMs: startMs },
    })
  },

  async 'notices of one cause that come in one call are counted, too'(bench) {
    const added = await bench.store.addNotices({ notices: [aNotice(), aNotice({ cause: 'another' }), aNotice()] })
    assert.deepEqual(
      added.map(({ isNew }) => isNew),
      [true, true, false],
    )
    assert.equal(added[2]?.seq, added[0]?.seq)
    const kept = await bench.store.notices({ limit: 10 })
    assert.deepEqual(
      kept.map(({ repeats }) => repeats),
      [0, 1],
    )
  },

  async 'another cause, kind or set of channels is another notice; the order of channels says nothing'(bench) {
    await add(bench, aNotice())
    assert((await add(bench, aNotice({ cause: 'another' }))).isNew)
    assert((await add(bench, aNotice({ channels: ['ops'] }))).isNew)
    assert((await add(bench, aNotice({ content: { kind: 'app', name: 'k', subject: 's', data: null } }))).isNew)
    assert.equal((await add(bench, aNotice({ channels: ['owner', 'ops', 'owner'] }))).isNew, false)
    assert((await add(bench, aNotice({ windowMs: 0 }))).isNew, 'without a window each is told')
  },

  async 'the notice of a job in a batch names the batch'(bench) {
    const batch = { ...newBatch(bench), name: 'Spring' }
    await bench.store.openBatch({ batch, jobs: [bench.newJob()] })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    const ended = { ...lease, createdAtMs: 0, isForwardOnly: false }
    const told = policy({ notify: { failed: ['ops'] } })
    const change = failed(lease)
    const notices = noticesOfFailure(ended, change.failure, told)
    const { key, attempt } = lease
    await bench.store.close({ worker: worker.key, closes: [{ key, attempt, change, ranMs: null, notices }] })
    const found = await bench.store.notices({ limit: 10 })
    const contents = found.flatMap(({ content }) => (content.kind === 'failed' ? [content] : []))
    assert.deepEqual(
      contents.map(({ job }) => [job.id, job.batch]),
      [[lease.id, { id: batch.id, name: 'Spring' }]],
    )
  },

  async 'each settlement of a batch is told, in the transaction of the job that ended it'(bench) {
    const batch = { ...newBatch(bench), name: 'Spring', owner: 'ann', isSealed: true, notify: ['owner'] }
    await bench.store.openBatch({ batch, jobs: [bench.newJob()] })
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await worker.close(lease, failed(lease))
    await bench.intervene(lease.id, retryInPlace(await bench.row(lease.id)))
    await worker.close(await worker.claimOne(), complete())
    const told = (await bench.store.notices({ limit: 10 })).reverse()
    assert.deepEqual(
      told.map(({ content, channels, subject, repeats }) => [content, channels, subject, repeats]),
      [
        { state: 'failed', complete: 0, failed: 1 },
        { state: 'complete', complete: 1, failed: 0 },
      ].map((outcome) => {
        const counted = { total: 1, permanent: 0, cancelled: 0, ...outcome }
        const content = { kind: 'settled', batch: { id: batch.id, name: 'Spring', owner: 'ann', ...counted } }
        return [content, ['owner'], `batch:${batch.id}`, 0]
      }),
    )
  },

  async 'a storm of one cause is one notice, however many processes report it at once'(bench) {
    const handles = await bench.openMany(4)
    await Promise.all(
      Array.from({ length: 40 }, (_, i) => handles[i % handles.length]?.addNotices({ notices: [aNotice()] })),
    )
    const found = await bench.store.notices({ limit: 10 })
    assert.deepEqual(
      found.map(({ repeats }) => repeats),
      [39],
    )
  },

  async 'each channel of a notice becomes one job, and only in a process that has the channel'(bench) {
    await declareChannels(bench)
    await add(bench, aNotice())
    assert.equal(await bench.store.relayNotices({ channels: ['elsewhere'], limit: 10 }), 0)
    assert.equal(await bench.store.relayNotices({ channels: ['ops'], limit: 10 }), 1)
    const [half] = await bench.store.notices({ limit: 1, isWaiting: true })
    assert.deepEqual(pick(half, 'channels', 'waiting', 'relayedAtMs'), {
      ...{ channels: ['ops', 'owner'], waiting: ['owner'], relayedAtMs: null },
    })
    await bench.clock.advance(5)
    assert.equal(await bench.store.relayNotices({ channels: ['ops', 'owner'], limit: 10 }), 1)
    const [whole] = await bench.store.notices({ limit: 1 })
    assert.deepEqual(pick(whole, 'waiting', 'relayedAtMs'), { waiting: [], relayedAtMs: bench.clock.nowMs() })
    assert.deepEqual(await bench.store.notices({ limit: 1, isWaiting: true }), [])
    const jobs = await bench.store.jobs({ limit: 10 })
    assert.deepEqual(jobs.map(({ type, status }) => [type, status]).sort(), [
      [typeOfChannel('ops'), 'queued'],
      [typeOfChannel('owner'), 'queued'],
    ])
    assert.notEqual(jobs[0]?.id, jobs[1]?.id)
  },

  async 'the job holds the notice as it is told, and the outbox goes on counting'(bench) {
    await declareChannels(bench)
    await add(bench, aNotice())
    await bench.store.relayNotices({ channels: ['ops'], limit: 10 })
    const [job] = await bench.store.jobs({ limit: 1 })
    const { seq, notice } = JSON.parse(job?.payload ?? '{}') as { seq: number; notice: Record<string, unknown> }
    const at = new Date(bench.clock.nowMs()).toISOString()
    assert.deepEqual([seq, notice], [1, { ...aNotice().content, at, repeats: 0, since: null }])
    assert.equal((await add(bench, aNotice())).isNew, false)
  },

  async 'however many processes relay at once, each notice is one job per channel'(bench) {
    await declareChannels(bench)
    const handles = await bench.openMany(4)
    await bench.store.addNotices({ notices: Array.from({ length: 25 }, () => aNotice({ windowMs: 0 })) })
    const relayed = await Promise.all(
      handles.map((store) => store.relayNotices({ channels: ['ops', 'owner'], limit: 1_000 })),
    )
    assert.equal(
      relayed.reduce((sum, count) => sum + count, 0),
      50,
    )
    assert.equal((await bench.store.jobs({ limit: 100 })).length, 50)
  },

  async 'relaying is bounded, and begins with the oldest'(bench) {
    await declareChannels(bench)
    for (const subject of ['a', 'b', 'c']) await add(bench, aNotice({ subject, channels: ['ops'], windowMs: 0 }))
    assert.equal(await bench.store.relayNotices({ channels: ['ops'], limit: 2 }), 2)
    const waiting = await bench.store.notices({ limit: 10, isWaiting: true })
    assert.deepEqual(
      waiting.map(({ subject }) => subject),
      ['c'],
    )
  },

  async 'a job that was relayed can be claimed, and fails and retries like any other'(bench) {
    await declareChannels(bench)
    await add(bench, aNotice({ channels: ['ops'] }))
    await bench.store.relayNotices({ channels: ['ops'], limit: 10 })
    const worker = await bench.worker()
    const lease = await worker.claimOne([{ type: typeOfChannel('ops'), ttlMs: 1_000 }])
    assert.equal(await worker.close(lease, requeued('retry', lease)), 'closed')
    assert.equal((await worker.claimOne([{ type: typeOfChannel('ops'), ttlMs: 1_000 }])).id, lease.id)
    await bench.checkAll()
  },

  async 'notices are listed the newest first, page by page'(bench) {
    for (let i = 0; i < 5; i++) await add(bench, aNotice({ subject: String(i), windowMs: 0 }))
    const first = await bench.store.notices({ limit: 3 })
    const second = await bench.store.notices({ limit: 3, beforeSeq: first.at(-1)?.seq ?? 0 })
    assert.deepEqual(
      [...first, ...second].map(({ subject }) => subject),
      ['4', '3', '2', '1', '0'],
    )
  },

  async 'only what was relayed long ago is forgotten, and not while repeats are counted on it'(bench) {
    await declareChannels(bench)
    await add(bench, aNotice({ subject: 'short', cause: '1', windowMs: 10 }))
    await add(bench, aNotice({ subject: 'long', cause: '2', windowMs: 10_000 }))
    await bench.store.relayNotices({ channels: ['ops', 'owner'], limit: 10 })
    await add(bench, aNotice({ subject: 'unrelayed', cause: '3', windowMs: 0 }))
    await bench.clock.advance(1_000)
    assert.equal(await bench.store.forgetNotices({ keptMs: 1_000, limit: 10 }), 0)
    await bench.clock.advance(1)
    assert.equal(await bench.store.forgetNotices({ keptMs: 1_000, limit: 10 }), 1)
    assert.deepEqual(await subjects(bench), ['long', 'unrelayed'])
  },

  async 'a person’s notice is in the audit trail'(bench) {
    const by = { actor: 'olga', reason: 'a test', act: 'notices.test' }
    const [added] = await bench.store.addNotices({ notices: [aNotice()], by })
    const [entry] = await bench.store.auditTrail({ filter: {}, beforeSeq: null, limit: 1 })
    assert.deepEqual(
      [entry?.actor, entry?.reason, entry?.act, entry?.target, entry?.ids],
      ['olga', 'a test', 'notices.test', 'notice', [String(added?.seq)]],
    )
  },
})

function aNotice(parts: Partial<NewNotice> = {}): NewNotice {
  const content = { kind: 'test', actor: 'olga', reason: 'to see “it”' } as const
  return { channels: ['ops', 'owner'], subject: 's', cause: 'c', windowMs: WINDOW_MS, content, ...parts }
}

async function add(bench: Bench, notice: NewNotice) {
  const [added] = await bench.store.addNotices({ notices: [notice] })
  assert(added !== undefined)
  return added
}

const subjects = async (bench: Bench): Promise<string[]> =>
  (await bench.store.notices({ limit: 100 })).map(({ subject }) => subject).reverse()

async function declareChannels(bench: Bench): Promise<void> {
  for (const channel of ['ops', 'owner']) await bench.declare(typeOfChannel(channel), policy({ retry: { max: 3 } }))
}

function pick<T extends object, Key extends keyof T>(from: T | undefined, ...keys: Key[]): Pick<T, Key> {
  assert(from !== undefined)
  return Object.fromEntries(keys.map((key) => [key, from[key]])) as Pick<T, Key>
}
