import assert from 'node:assert/strict'
import type { DeadLetter } from '../../../core/job/change.ts'
import { addTries, packSpent, spendFailure, unpackSpent } from '../../../core/policy/budget.ts'
import { policy } from '../../../core/policy/policy.ts'
import type { LetterFilter, StoredDeadLetter } from '../../contract/dead-letters.ts'
import type { NewJob } from '../../contract/store.ts'
import { opened, PLAIN } from '../bench/batch-bench.ts'
import type { Bench } from '../bench/bench.ts'
import { failed, markFailed, requeued, retryInPlace } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const BY = { actor: 'olga', reason: 'a test' }
const ALL = { afterOffset: 0, limit: 100 }

export const deadLetters = topic('dead letters', {
  async 'a dead letter holds what a replay needs: payload, cause and attempts'(bench) {
    const { lease: first, worker } = await bench.processing({ payload: '{"n":1}', owner: 'ann', priority: 3 })
    await worker.close(first, requeued('retry', first))
    const lease = await worker.claimOne()
    await bench.clock.advance(10)
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }), 2)
    const [letter, ...more] = await bench.store.deadLetters(ALL)
    const [, failure] = await bench.store.failures({ id: lease.id })
    assert.deepEqual(more, [])
    assert.deepEqual(letter, {
      ...{ offset: letter?.offset, jobId: lease.id, type: 'plain', queue: 'default', owner: 'ann' },
      ...{ batchId: null, payload: '{"n":1}' },
      ...{ failure, attempts: 2, atMs: bench.clock.nowMs(), status: 'failed', manualRetry: 'in-place' },
      ...{ replays: 0, replayedAtMs: null, replayedAs: null, retriedAs: null, twin: null },
      ...{ priority: 3, dedupeKey: null, limitKey: null },
    })
    assert.deepEqual(await bench.store.deadLetter({ offset: letter?.offset ?? 0 }), letter)
    assert.equal((await bench.lastEvent(lease.id)).data.deadLetterOffset, letter?.offset)
    assert.equal((await bench.row(lease.id)).isDeadLettered, true)
  },

  async 'a letter says in which batch its job was made, also when another has taken its place there'(bench) {
    const batch = await opened(bench, 1)
    const worker = await bench.worker()
    const lease = await worker.claimOne(PLAIN)
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }))
    const letter = await letterOf(bench, lease.id)
    assert.equal(letter.batchId, batch)
    await replay(bench, letter)
    assert.equal((await letterOf(bench, lease.id)).batchId, batch)
  },

  async 'a dead letter counts every try of its task, including the tries within an attempt [F15]'(bench) {
    const { lease: first, worker } = await bench.processing()
    const tried = (tries: number, spent: string | null) =>
      packSpent(addTries(spendFailure(unpackSpent(spent), 'BROKEN'), tries))
    await worker.close(first, { ...requeued('retry', first), spent: tried(2, first.spent) })
    const lease = await worker.claimOne()
    await worker.close(lease, { ...failed(lease, { deadLetter: 'queue' }), spent: tried(3, lease.spent) })
    assert.deepEqual([(await letterOf(bench, lease.id)).attempts, (await bench.row(lease.id)).tries], [5, 5])
    // A mark-failed by a person is not a try, and does not remove one.
    const { id: marked, lease: held, worker: other } = await bench.processing()
    await other.close(held, { ...requeued('retry', held), spent: tried(4, held.spent) })
    await bench.intervene(marked, markFailed(await bench.row(marked), { deadLetter: 'queue' }))
    assert.equal((await letterOf(bench, marked)).attempts, 4)
  },

  async 'a flagged job is set aside without a letter, and others are not set aside at all'(bench) {
    const flagged = await fail(bench, 'flag')
    const ordinary = await fail(bench, 'none')
    assert.equal((await bench.row(flagged)).isDeadLettered, true)
    assert.equal((await bench.row(ordinary)).isDeadLettered, false)
    assert.deepEqual(await bench.store.deadLetters(ALL), [])
  },

  async 'a job that a person marked as failed is set aside, too'(bench) {
    const id = await bench.submit()
    await bench.intervene(id, markFailed(await bench.row(id), { deadLetter: 'queue' }))
    const [letter] = await bench.store.deadLetters(ALL)
    assert.deepEqual([letter?.jobId, letter?.attempts, letter?.failure.code], [id, 0, 'MARKED_FAILED'])
  },

  async 'a page of letters is of one moment: a letter that is purged meanwhile leaves no gap at its end'(bench) {
    for (let i = 0; i < 40; i++) await fail(bench, 'queue')
    const offsets = (await bench.store.deadLetters(ALL)).map(({ offset }) => offset).slice(0, 30)
    const lengths = new Set<number>()
    let isPurging = true
    const listing = (async () => {
      while (isPurging) lengths.add((await bench.store.deadLetters({ afterOffset: 0, limit: 10 })).length)
    })()
    for (const offset of offsets) await purge(bench, { offset })
    isPurging = false
    await listing
    // A shorter page would tell a reader that nothing comes after it.
    assert.deepEqual([...lengths], [10])
  },

  async 'letters are read in order, page by page, and their offsets only grow'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await fail(bench, 'queue'))
    const read: string[] = []
    let afterOffset = 0
    for (;;) {
      const page = await bench.store.deadLetters({ afterOffset, limit: 2 })
      assert(page.length <= 2)
      const last = page.at(-1)
      if (last === undefined) break
      assert(page.every(({ offset }) => offset > afterOffset))
      read.push(...page.map(({ jobId }) => jobId))
      afterOffset = last.offset
    }
    assert.deepEqual(read, ids)
  },

  async 'letters are read the newest first, too, page by page, whatever they are found by'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 4; i++) ids.unshift(await fail(bench, 'queue', { owner: 'ann' }))
    await fail(bench, 'queue', { type: 'other', owner: 'bob' })
    const { failure } = await letterOf(bench, ids[0] as string)
    const { code, fingerprint } = failure
    for (const filter of [{ owner: 'ann' }, { type: 'plain' }, { code }, { fingerprint }, { isReplayed: false }, {}]) {
      const read: string[] = []
      for (let afterOffset = 0; ; ) {
        const page = await bench.store.deadLetters({ ...filter, afterOffset, limit: 2, isNewestFirst: true })
        const last = page.at(-1)
        if (last === undefined) break
        read.push(...page.filter(({ type }) => type === 'plain').map(({ jobId }) => jobId))
        afterOffset = last.offset
      }
      assert.deepEqual(read, ids, JSON.stringify(filter))
    }
    const [newest] = await bench.store.deadLetters({ afterOffset: 0, limit: 1, isNewestFirst: true })
    assert.equal(newest?.type, 'other')
  },

  async 'letters are found and counted by type, code, owner, fingerprint, time, and whether they were replayed'(bench) {
    const early = await letterOf(bench, await fail(bench, 'queue', { owner: 'ann' }))
    await bench.clock.advance(10)
    const late = await letterOf(bench, await fail(bench, 'queue', { type: 'other', owner: 'bob' }))
    const marked = await bench.submit({ owner: 'bob' })
    await bench.intervene(marked, markFailed(await bench.row(marked), { deadLetter: 'queue' }))
    const last = await letterOf(bench, marked)
    await replay(bench, last)
    const finds = async (filter: LetterFilter, ...expected: StoredDeadLetter[]) => {
      const found = await bench.store.deadLetters({ ...filter, ...ALL })
      const offsets = expected.map(({ offset }) => offset)
      assert.deepEqual(
        found.map(({ offset }) => offset),
        offsets,
        JSON.stringify(filter),
      )
      const { letters, lastOffset, byCause } = await bench.store.countDeadLetters(filter)
      assert.deepEqual([letters, lastOffset], [expected.length, offsets.at(-1) ?? 0], JSON.stringify(filter))
      assert.equal(
        byCause.reduce((sum, cause) => sum + cause.letters, 0),
        letters,
      )
    }
    const { code, fingerprint } = early.failure
    await finds({}, early, late, last)
    await finds({ offset: late.offset }, late)
    await finds({ type: 'plain' }, early, last)
    await finds({ type: 'nobody.declared.this' })
    await finds({ code }, early, late)
    await finds({ code: 'MARKED_FAILED' }, last)
    await finds({ owner: 'bob' }, late, last)
    await finds({ fingerprint, owner: 'ann' }, early)
    await finds({ sinceMs: late.atMs }, late, last)
    await finds({ untilMs: late.atMs }, early)
    await finds({ sinceMs: early.atMs, untilMs: early.atMs + 1 }, early)
    await finds({ isReplayed: true }, last)
    await finds({ isReplayed: false }, early, late)
    await finds({ type: 'plain', owner: 'bob', isReplayed: false })
  },

  async 'a replay makes a new job from the letter, and the letter says which and when'(bench) {
    const id = await fail(bench, 'queue', { payload: '{"n":1}', owner: 'ann' })
    const before = await bench.picture(id)
    const letter = await letterOf(bench, id)
    await bench.clock.advance(10)
    const { job, skip } = await replay(bench, letter, { payload: letter.payload, owner: 'ann' })
    assert.equal(skip, null)
    const row = await bench.row(job ?? '')
    assert.deepEqual([row.status, row.retriedFrom, row.payload, row.owner], ['queued', id, '{"n":1}', 'ann'])
    assert.deepEqual((await bench.lastEvent(row.id)).data, BY)
    const { row: stays, ...history } = await bench.picture(id)
    assert.deepEqual({ ...history, row: { ...stays, retriedAs: null, retriedAsStatus: null } }, before)
    const { replays, replayedAtMs, replayedAs } = await letterOf(bench, id)
    assert.deepEqual([replays, replayedAtMs, replayedAs], [1, bench.clock.nowMs(), job])
  },

  async 'of any number who replay a letter at once, one does'(bench) {
    const letter = await letterOf(bench, await fail(bench, 'queue'))
    const stores = await bench.openMany(4)
    const answers = await Promise.all(stores.map((store) => replay(bench, letter, {}, { store })))
    assert.equal(answers.filter(({ job }) => job !== null).length, 1)
    assert.deepEqual(
      answers.flatMap(({ skip }) => (skip === null ? [] : [skip.code])),
      ['already-replayed', 'already-replayed', 'already-replayed'],
    )
    assert.equal((await bench.store.jobs({ limit: 100 })).length, 2)
  },

  async 'whoever has seen that a letter was replayed may replay it again'(bench) {
    const id = await fail(bench, 'queue')
    await replay(bench, await letterOf(bench, id))
    const seen = await letterOf(bench, id)
    const { job } = await replay(bench, seen)
    assert.deepEqual([(await letterOf(bench, id)).replays, (await letterOf(bench, id)).replayedAs], [2, job])
    assert.equal((await replay(bench, seen)).skip?.code, 'already-replayed')
  },

  async 'a letter that is gone, and one whose job is no longer failed, are not replayed'(bench) {
    const gone = await letterOf(bench, await fail(bench, 'queue'))
    await purge(bench, { offset: gone.offset })
    assert.equal((await replay(bench, gone)).skip?.code, 'purged')
    const back = await fail(bench, 'queue')
    await bench.intervene(back, retryInPlace(await bench.row(back)))
    const letter = await letterOf(bench, back)
    assert.deepEqual([letter.status, letter.replays, letter.replayedAs], ['queued', 1, back])
    assert.equal((await replay(bench, letter)).skip?.code, 'not-failed')
    assert.equal((await bench.store.jobs({ limit: 100 })).length, 2)
  },

  async 'a policy that allows no retry by a person allows no replay either, from the moment it is declared'(bench) {
    const [store, other] = await bench.openMany(2)
    const letter = await letterOf(bench, await fail(bench, 'queue', { type: 'third' }))
    await bench.declare('third', policy({ manualRetry: 'off' }), other)
    assert.equal((await replay(bench, letter, { type: 'third' }, { store })).skip?.code, 'not-allowed')
  },

  async 'a replay takes over the dedupe key, and while a twin holds the key there is none'(bench) {
    const dedupe = { key: 'k', scope: 'live' } as const
    const letter = await letterOf(bench, await fail(bench, 'queue', { dedupe }))
    const { job } = await replay(bench, letter)
    const twin = await bench.submit({ dedupe })
    assert.equal(twin, job)
    const seen = await letterOf(bench, letter.jobId)
    assert.deepEqual(seen.twin, { id: twin, status: 'queued' })
    const { skip } = await replay(bench, seen)
    assert.equal(skip?.code, 'twin')
    assert.match(skip.why, new RegExp(twin))
    assert.notEqual((await replay(bench, seen, {}, { isEdited: true })).job, null)
  },

  async 'a job that keeps its dedupe key for good is no twin of itself'(bench) {
    const dedupe = { key: 'k', scope: 'always' } as const
    const letter = await letterOf(bench, await fail(bench, 'queue', { dedupe }))
    assert.equal(letter.twin, null)
    assert.notEqual((await replay(bench, letter)).job, null)
  },

  async 'a retry by a person counts as a replay, unless it was refused at once'(bench) {
    const id = await fail(bench, 'queue')
    const retriedFrom = { id, ...BY }
    const { failure } = failed({ spent: null })
    await bench.submit({ retriedFrom, rejected: failure })
    assert.equal((await letterOf(bench, id)).replays, 0)
    const job = await bench.submit({ retriedFrom })
    assert.equal((await letterOf(bench, id)).replayedAs, job)
  },

  async 'a replay counts as a retry of its job, so a later retry is refused'(bench) {
    const id = await fail(bench, 'queue')
    const { job } = await replay(bench, await letterOf(bench, id))
    assert.equal((await bench.row(id)).retriedAs, job)
    await assert.rejects(bench.submit({ retriedFrom: { id, ...BY } }), { code: 'ALREADY_RETRIED' })
  },

  async 'a concurrent replay and retry of one failed job make only one job'(bench) {
    const [one, other = one] = await bench.openMany(2)
    for (let round = 0; round < 10; round++) {
      const id = await fail(bench, 'queue')
      const { offset } = await letterOf(bench, id)
      const retriedFrom = { id, ...BY }
      const replaying = { offset, replaysSeen: 0, isEdited: false, job: bench.newJob({ retriedFrom }) }
      const [replayed, retried] = await Promise.allSettled([
        one.replayDeadLetter(replaying),
        bench.submit({ retriedFrom }, other),
      ])
      assert(replayed.status === 'fulfilled')
      const made = (await bench.store.jobs({ retriedFrom: id, limit: 10 })).map((row) => row.id)
      assert.deepEqual(made, [retried.status === 'fulfilled' ? retried.value : replayed.value.job])
      assert.equal(replayed.value.skip?.code, retried.status === 'fulfilled' ? 'already-replayed' : undefined)
      assert.equal((await bench.row(id)).retriedAs, made[0])
      assert.equal((await letterOf(bench, id)).replayedAs, made[0])
    }
  },

  async 'a retry marks every letter of its job, not only the newest'(bench) {
    const id = await fail(bench, 'queue')
    await bench.intervene(id, retryInPlace(await bench.row(id)))
    const worker = await bench.worker()
    const lease = await worker.claimOne(PLAIN)
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }))
    const [older, newer] = await bench.store.deadLetters(ALL)
    assert.deepEqual([older?.replays, newer?.replays], [1, 0])
    assert(older !== undefined)
    const { job } = await replay(bench, older)
    const after = await bench.store.deadLetters(ALL)
    assert.deepEqual(
      after.map(({ replays, replayedAs }) => [replays, replayedAs]),
      [
        [2, job],
        [1, job],
      ],
    )
    const { skip } = await replay(bench, older)
    assert.equal(skip?.code, 'already-replayed')
  },

  async 'a purge removes what it names, and the jobs stay failed with their history'(bench) {
    const ids: string[] = []
    for (let i = 0; i < 5; i++) ids.push(await fail(bench, 'queue', { owner: i < 3 ? 'ann' : 'bob' }))
    const pictures = await Promise.all(ids.map((id) => bench.picture(id)))
    assert.equal(await purge(bench, { owner: 'ann' }), 3)
    assert.deepEqual(
      (await bench.store.deadLetters(ALL)).map(({ jobId }) => jobId),
      ids.slice(3),
    )
    for (const [i, id] of ids.entries()) {
      const before = pictures[i]
      assert(before !== undefined)
      const isDeadLettered = i >= 3
      assert.deepEqual(await bench.picture(id), { ...before, row: { ...before.row, isDeadLettered } })
    }
  },

  async 'a purge leaves alone what came after it was decided on'(bench) {
    const early = await letterOf(bench, await fail(bench, 'queue'))
    const { lastOffset } = await bench.store.countDeadLetters({})
    const late = await letterOf(bench, await fail(bench, 'queue'))
    assert.equal(await purge(bench, {}, lastOffset), 1)
    assert.equal(await bench.store.deadLetter({ offset: early.offset }), null)
    assert.deepEqual(await bench.store.deadLetter({ offset: late.offset }), late)
  },

  async 'the offset of a purged letter never comes back'(bench) {
    const letter = await letterOf(bench, await fail(bench, 'queue'))
    await purge(bench, {})
    const next = await letterOf(bench, await fail(bench, 'queue'))
    assert(next.offset > letter.offset)
    assert.equal(await bench.store.deadLetter({ offset: letter.offset }), null)
  },

  async 'who replayed and who purged, and why, is in the audit trail'(bench) {
    const one = await letterOf(bench, await fail(bench, 'queue'))
    const other = await letterOf(bench, await fail(bench, 'queue'))
    const { job } = await replay(bench, one)
    await purge(bench, {})
    await purge(bench, {})
    const trail = await bench.store.auditTrail({ filter: { act: 'dead-letters' }, beforeSeq: null, limit: 100 })
    assert.deepEqual(
      trail.map(({ act, ids, actor, reason }) => ({ act, ids, actor, reason })),
      [
        { act: 'dead-letters.purge', ids: [one, other].map(({ offset }) => String(offset)), ...BY },
        { act: 'dead-letters.replay', ids: [one.jobId, job], ...BY },
      ],
    )
  },
})

async function fail(bench: Bench, deadLetter: DeadLetter, parts: Partial<NewJob> = {}): Promise<string> {
  const { id, lease, worker } = await bench.processing(parts)
  await worker.close(lease, failed(lease, { deadLetter }))
  return id
}

async function letterOf(bench: Bench, jobId: string): Promise<StoredDeadLetter> {
  const letter = (await bench.store.deadLetters(ALL)).find((one) => one.jobId === jobId)
  assert(letter !== undefined, `job ${jobId} has no letter`)
  return letter
}

/** As the operation does, by somebody who has just seen the letter. */
function replay(
  bench: Bench,
  { offset, replays, jobId }: StoredDeadLetter,
  parts: Partial<NewJob> = {},
  { store = bench.store, isEdited = false } = {},
) {
  const retriedFrom = { id: jobId, ...BY, act: 'dead-letters.replay' } as const
  return store.replayDeadLetter({
    offset,
    replaysSeen: replays,
    isEdited,
    job: bench.newJob({ ...parts, retriedFrom }),
  })
}

/** To the end; answers how many went. */
async function purge(bench: Bench, filter: LetterFilter, upToOffset = Number.MAX_SAFE_INTEGER): Promise<number> {
  let purged = 0
  for (let afterOffset: number | null = 0; afterOffset !== null; ) {
    const step: { purged: number; cursor: number | null } = await bench.store.purgeDeadLetters({
      ...BY,
      filter,
      afterOffset,
      upToOffset,
      limit: 10,
    })
    purged += step.purged
    afterOffset = step.cursor
  }
  return purged
}
