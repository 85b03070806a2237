import assert from 'node:assert/strict'
import type { AuditFilter, StoredAct } from '../../contract/audit.ts'
import type { ActorAndReason } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { markFailed, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const BY: ActorAndReason = { actor: 'olga', reason: 'a test' }

interface Act {
  /** Makes the scene, and answers with what is then done in it and the ids it is done to. */
  prepare(bench: Bench): Promise<{ run: () => Promise<unknown>; ids: string[] }>
  act: string
  target: string
}

const onQueued = (kind: 'cancel' | 'mark-failed'): Act => ({
  act: `jobs.${kind}`,
  target: 'job',
  async prepare(bench) {
    const id = await bench.submit()
    const act = kind === 'cancel' ? ({ kind } as const) : markFailed(await bench.row(id))
    return { run: () => bench.intervene(id, act), ids: [id] }
  },
})

/** What a person can do to a store by one call. Parts with acts of their own promise the same where they stand. */
const ACTS: readonly Act[] = [
  onQueued('cancel'),
  onQueued('mark-failed'),
  {
    act: 'jobs.cancel',
    target: 'job',
    async prepare(bench) {
      const { id } = await bench.processing()
      return { run: () => bench.intervene(id, { kind: 'request-cancel' }), ids: [id] }
    },
  },
  {
    act: 'jobs.retry',
    target: 'job',
    async prepare(bench) {
      const id = await bench.finished('failed')
      const act = retryInPlace(await bench.row(id))
      return { run: () => bench.intervene(id, act), ids: [id] }
    },
  },
  {
    act: 'jobs.retry',
    target: 'job',
    async prepare(bench) {
      const [from, made] = [await bench.finished('failed'), bench.makeId()]
      return { run: () => bench.submit({ id: made, retriedFrom: { id: from, ...BY } }), ids: [from, made] }
    },
  },
  {
    act: 'jobs.submit',
    target: 'job',
    async prepare(bench) {
      const id = bench.makeId()
      return { run: () => bench.submit({ id, by: BY }), ids: [id] }
    },
  },
]

const trail = (bench: Bench, filter: AuditFilter = {}): Promise<StoredAct[]> =>
  bench.store.auditTrail({ filter, beforeSeq: null, limit: 1_000 })

export const audit = topic('audit', {
  async 'each act of a person leaves one entry: who, what, why, to which ids, and when'(bench) {
    for (const { act, target, prepare } of ACTS) {
      const { run, ids } = await prepare(bench)
      await bench.clock.advance(1_000)
      const before = await trail(bench)
      await run()
      const [entry, ...rest] = await trail(bench)
      assert.deepEqual(rest, before, `${act} left more than one entry, or none, or changed an older one`)
      const { seq, data: _, ...said } = entry as StoredAct
      assert.deepEqual(said, { ...BY, act, target, ids, atMs: bench.clock.nowMs() })
      assert(seq > (before[0]?.seq ?? 0), 'the numbers of entries do not grow')
    }
  },

  async 'an act that comes too late, or that finds its work done, leaves none'(bench) {
    const id = await bench.finished('complete')
    const seen = { status: 'queued', attempt: 0 } as const
    assert.equal(await bench.intervene(id, { kind: 'cancel' }, seen), 'moved-on')
    await bench.submit({ dedupe: { key: 'one', scope: 'live' } })
    await bench.submit({ dedupe: { key: 'one', scope: 'live' }, by: BY })
    assert.deepEqual(await trail(bench), [])
  },

  async 'when the transaction of an act is refused, neither the act nor its entry is there'(bench) {
    const [from, made] = [await bench.finished('failed'), bench.makeId()]
    const good = bench.newJob({ id: made, retriedFrom: { id: from, ...BY } })
    const bad = bench.newJob({ type: 'nobody.declared.this', by: BY })
    await assert.rejects(bench.store.submit({ jobs: [good, bad] }), { code: 'TYPE_UNKNOWN' })
    assert.equal(await bench.store.job({ id: made }), null)
    assert.deepEqual(await trail(bench), [])
  },

  async 'what machines do leaves no entry'(bench) {
    await bench.finished('complete')
    await bench.finished('failed')
    const { lease } = await bench.processing()
    await bench.expireLeases()
    await bench.reclaim(lease, { to: 'orphaned' })
    assert.deepEqual(await trail(bench), [])
  },

  async 'entries are found by actor, act, kind of target, id and time, the newest first'(bench) {
    const [first, second] = [await bench.submit(), await bench.submit()]
    const startMs = bench.clock.nowMs()
    await bench.store.submit({ jobs: [bench.newJob({ by: { actor: 'ann', reason: 'by hand' } })] })
    await bench.clock.advance(1_000)
    await bench.intervene(first, { kind: 'cancel' })
    await bench.clock.advance(1_000)
    await bench.intervene(second, { kind: 'cancel' })
    const found = async (filter: AuditFilter) => (await trail(bench, filter)).map(({ act, ids }) => [act, ids[0]])
    const [firstOne, secondOne] = [
      ['jobs.cancel', first],
      ['jobs.cancel', second],
    ]
    assert.deepEqual(await found({ actor: 'olga' }), [secondOne, firstOne])
    assert.equal((await found({ actor: 'ann' })).length, 1)
    assert.deepEqual(await found({ actor: 'ol' }), [])
    assert.deepEqual(await found({ act: 'jobs.cancel' }), [secondOne, firstOne])
    assert.equal((await found({ act: 'jobs' })).length, 3)
    assert.deepEqual(await found({ act: 'job' }), [])
    assert.equal((await found({ target: 'job' })).length, 3)
    assert.deepEqual(await found({ target: 'queue' }), [])
    assert.deepEqual(await found({ id: first }), [firstOne])
    assert.deepEqual(await found({ id: first.slice(1) }), [], 'by a part of an id')
    assert.deepEqual(await found({ sinceMs: startMs + 1_000 }), [secondOne, firstOne])
    assert.deepEqual(await found({ sinceMs: startMs + 1_000, untilMs: startMs + 2_000 }), [firstOne])
  },

  async 'a long trail is read page by page, without one missing or doubled'(bench) {
    for (let i = 0; i < 7; i++) await bench.submit({ by: BY })
    const whole = await trail(bench)
    const seen: StoredAct[] = []
    for (;;) {
      const page = await bench.store.auditTrail({ filter: {}, beforeSeq: seen.at(-1)?.seq ?? null, limit: 3 })
      if (page.length === 0) break
      seen.push(...page)
    }
    assert.equal(whole.length, 7)
    assert.deepEqual(seen, whole)
  },

  async 'an entry stays when the job it is about is removed'(bench) {
    const id = await bench.finished('cancelled')
    const before = await trail(bench)
    await bench.clock.advance(10_000)
    const rule = { type: 'plain', completeMs: 1, failedMs: 1, cancelledMs: 1, deadLettersMs: null }
    await bench.store.prune({ rules: [rule], after: 0, limit: 100 })
    assert.equal(await bench.store.job({ id }), null)
    assert.deepEqual(await trail(bench), before)
    assert.deepEqual(
      before.map(({ ids }) => ids),
      [[id]],
    )
  },

  async 'who acted may be called anything'(bench) {
    const by = { actor: `o'brien "the\\fox"\n\u001b[31m 🧀`, reason: '; DROP TABLE audit; --' }
    const id = await bench.submit({ by })
    const [entry] = await trail(bench, { actor: by.actor, id })
    assert.deepEqual([entry?.actor, entry?.reason], [by.actor, by.reason])
  },
})
