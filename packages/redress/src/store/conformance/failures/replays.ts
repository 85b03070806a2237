import assert from 'node:assert/strict'
import type { NewReplay, NewReplayItem, ReplayTurn } from '../../contract/replays.ts'
import type { NewJob, Store } from '../../contract/store.ts'
import type { Bench } from '../bench/bench.ts'
import { complete, failed } from '../bench/changes.ts'
import { topic } from '../promise.ts'

const BY = { actor: 'olga', reason: 'the gateway is back' }
const TURN_MS = 5_000
const TYPES = ['plain', 'other']
const EVERYTHING = { afterPosition: 0, limit: 1_000 }

export const replays = topic('replays', {
  async 'a replay keeps what was asked for, by whom and why, and its frozen selection in order'(bench) {
    const offsets = await letters(bench, 3)
    const skip = { code: 'refused', why: 'INPUT_INVALID: it does not fit' } as const
    const id = await plan(bench, { canary: 2, canaryFailuresMax: 1, perSecond: 2.5, patch: '{"a":1}' }, (item, i) =>
      i === 1 ? { ...item, skip } : item,
    )
    await letters(bench, 1)
    const replay = await bench.store.replay({ id })
    assert.deepEqual(replay, {
      ...{ key: replay?.key, id, state: 'planned', why: 'it waits to be started', selection: { type: 'plain' } },
      ...{ patch: '{"a":1}', perSecond: 2.5, canary: 2, canaryFailuresMax: 1, isCanaryOver: false },
      ...{ plannedBy: BY, startedBy: null, total: 3, submitted: 0, skipped: 1 },
      ...{ createdAtMs: bench.clock.nowMs(), startedAtMs: null, endedAtMs: null },
    })
    const items = await bench.store.replayItems({ id, ...EVERYTHING })
    assert.deepEqual(
      items.map(({ offset, state, skip: why, status }) => [offset, state, why, status]),
      offsets.map((offset, i) => [offset, i === 1 ? 'skipped' : 'waiting', i === 1 ? skip : null, null]),
    )
    assert.deepEqual(await bench.store.replays({ limit: 10 }), [replay])
    assert.equal(await bench.store.nextReplayAtMs(), null)
  },

  async 'a selection that was never finished cannot be started, and one that was takes no more letters'(bench) {
    await letters(bench, 1)
    const id = bench.makeId()
    await bench.store.draftReplay({ ...BY, ...newReplay(id) })
    await assert.rejects(move(bench, id, 'start'), { code: 'REPLAY_WRONG_STATE' })
    await bench.store.addReplayItems({ id, items: [], isLast: true })
    await assert.rejects(bench.store.addReplayItems({ id, items: [], isLast: true }), { code: 'REPLAY_WRONG_STATE' })
    await assert.rejects(bench.store.addReplayItems({ id: 'none', items: [], isLast: true }), {
      code: 'REPLAY_NOT_FOUND',
    })
  },

  async 'nothing happens before it is started, and then every letter becomes one job'(bench) {
    const offsets = await letters(bench, 5)
    const id = await plan(bench)
    assert.equal(await bench.store.takeReplayTurn({ types: TYPES, turnMs: TURN_MS, limit: 2 }), null)
    await move(bench, id, 'start')
    assert.equal(await bench.store.nextReplayAtMs(), bench.clock.nowMs())
    await run(bench)
    const replay = await bench.store.replay({ id })
    assert.deepEqual([replay?.state, replay?.submitted, replay?.endedAtMs], ['done', 5, bench.clock.nowMs()])
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1, 1])
    for (const { state, job, offset, status } of await bench.store.replayItems({ id, ...EVERYTHING })) {
      assert.deepEqual([state, status], ['submitted', 'queued'])
      const letter = await bench.store.deadLetter({ offset })
      assert.deepEqual([letter?.replayedAs, (await bench.row(job)).retriedFrom], [job, letter?.jobId])
      assert.deepEqual((await bench.lastEvent(job)).data, BY)
    }
    assert.equal(await bench.store.nextReplayAtMs(), null)
  },

  async 'a letter that several processes have in hand at once becomes one job'(bench) {
    const offsets = await letters(bench, 8)
    const id = await plan(bench)
    await move(bench, id, 'start')
    const stores = await bench.openMany(3)
    const turns: ReplayTurn[] = []
    for (const store of stores) {
      const turn = await takeTurn(store, 6)
      assert.equal(turn?.items.length, 6)
      turns.push(turn)
      // As if it had died: the next process takes the same letters in hand when its turn is over.
      await bench.clock.advance(TURN_MS)
    }
    await Promise.all(turns.map((turn, i) => advance(bench, turn, stores[i] as Store)))
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1, 1, 1, 0, 0])
    const replay = await bench.store.replay({ id })
    assert.deepEqual([replay?.submitted, replay?.skipped], [6, 0])
  },

  async 'while one process has a turn the others have none, and whoever dies loses only its turn'(bench) {
    await letters(bench, 2)
    await move(bench, await plan(bench), 'start')
    const [store, other] = await bench.openMany(2)
    assert.notEqual(await takeTurn(store), null)
    assert.equal(await takeTurn(other as Store), null)
    await bench.clock.advance(TURN_MS - 1)
    assert.equal(await takeTurn(other as Store), null)
    await bench.clock.advance(1)
    assert.equal((await takeTurn(other as Store))?.items.length, 2)
  },

  async 'a process is given letters only of the types it knows, and does not keep the others from who knows them'(
    bench,
  ) {
    await letters(bench, 2)
    await letters(bench, 1, { type: 'other' })
    const id = await plan(bench, { selection: {} })
    await move(bench, id, 'start')
    assert.equal(await takeTurn(bench.store, 10, ['third']), null)
    const turn = await takeTurn(bench.store, 10, ['other'])
    assert.deepEqual(
      turn?.items.map(({ letter }) => letter?.type),
      ['other'],
    )
    await advance(bench, turn as ReplayTurn)
    const counts = await bench.store.replayCounts({ id })
    assert.deepEqual(counts.waiting, [{ type: 'plain', letters: 2 }])
    assert.equal((await takeTurn(bench.store, 10, ['plain']))?.items.length, 2)
  },

  async 'what stands in the way of a letter is looked at again when it would become a job'(bench) {
    const [purged = 0, replayed = 0, twin = 0, fine = 0] = [
      ...(await letters(bench, 2)),
      ...(await letters(bench, 1, { dedupe: { key: 'k', scope: 'live' } })),
      ...(await letters(bench, 1)),
    ]
    const id = await plan(bench)
    await move(bench, id, 'start')
    const turn = await takeTurn(bench.store)
    await bench.store.purgeDeadLetters({ ...BY, filter: { offset: purged }, afterOffset: 0, upToOffset: 99, limit: 9 })
    const letter = await bench.store.deadLetter({ offset: replayed })
    await bench.submit({ retriedFrom: { id: letter?.jobId ?? '', ...BY } })
    await bench.submit({ dedupe: { key: 'k', scope: 'live' } })
    assert.deepEqual(await advance(bench, turn as ReplayTurn), { submitted: 1, skipped: 3 })
    const items = await bench.store.replayItems({ id, ...EVERYTHING })
    assert.deepEqual(
      items.map(({ offset, skip }) => [offset, skip?.code ?? null]),
      [
        [purged, 'purged'],
        [replayed, 'already-replayed'],
        [twin, 'twin'],
        [fine, null],
      ],
    )
    const { skipped } = await bench.store.replayCounts({ id })
    assert.deepEqual(
      skipped.map((one) => one.letters),
      [1, 1, 1],
    )
    assert.equal((await bench.store.replay({ id }))?.state, 'done')
  },

  async 'what its preparer refuses is skipped with the reason'(bench) {
    const [offset = 0] = await letters(bench, 1)
    const id = await plan(bench)
    await move(bench, id, 'start')
    const turn = await takeTurn(bench.store)
    const skip = { code: 'refused', why: 'SOURCE_GONE: The source is gone.' } as const
    const decided = [{ position: turn?.items[0]?.position ?? 0, decision: { skip } }]
    assert.deepEqual(await bench.store.advanceReplay({ id, decided }), { submitted: 0, skipped: 1 })
    assert.deepEqual((await bench.store.replayItems({ id, ...EVERYTHING }))[0]?.skip, skip)
    assert.equal((await bench.store.deadLetter({ offset }))?.replays, 0)
  },

  async 'no more letters go than the rate allows, and the rest at their time'(bench) {
    await letters(bench, 4)
    const id = await plan(bench, { perSecond: 4 })
    await move(bench, id, 'start')
    const startedMs = bench.clock.nowMs()
    const times: number[] = []
    for (;;) {
      const before = (await bench.store.replay({ id }))?.submitted ?? 0
      await run(bench)
      const after = (await bench.store.replay({ id }))?.submitted ?? 0
      for (let i = before; i < after; i++) times.push(bench.clock.nowMs() - startedMs)
      const nextMs = await bench.store.nextReplayAtMs()
      if (nextMs === null) break
      assert(nextMs > bench.clock.nowMs(), 'something is due and was not done')
      await bench.clock.advance(nextMs - bench.clock.nowMs())
    }
    assert.deepEqual(times, [0, 250, 500, 750])
  },

  async 'a clock that is set back holds up no letter for longer than the rate does'(bench) {
    const offsets = await letters(bench, 6)
    const id = await plan(bench, { perSecond: 0.5 })
    await move(bench, id, 'start')
    for (let i = 0; i < 3; i++) {
      await run(bench)
      await bench.clock.advance(2_000)
    }
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 0, 0, 0])
    bench.clock.jump(-3_600_000)
    await run(bench)
    await run(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1, 0, 0])
    await bench.clock.advance(2_000)
    await run(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1, 1, 0])
  },

  async 'a pause holds it between any two letters, also those in hand, and resuming goes on where it was'(bench) {
    const offsets = await letters(bench, 4)
    const id = await plan(bench)
    await move(bench, id, 'start')
    await advance(bench, (await takeTurn(bench.store, 1)) as ReplayTurn)
    const inHand = (await takeTurn(bench.store, 1)) as ReplayTurn
    await move(bench, id, 'pause')
    assert.deepEqual(await advance(bench, inHand), { submitted: 0, skipped: 0 })
    await bench.clock.advance(10 * TURN_MS)
    assert.equal(await takeTurn(bench.store), null)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 0, 0, 0])
    await move(bench, id, 'resume')
    await run(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1])
  },

  async 'an aborted replay makes no more jobs, and cannot be taken up again'(bench) {
    const offsets = await letters(bench, 3)
    const id = await plan(bench)
    await move(bench, id, 'start')
    await advance(bench, (await takeTurn(bench.store, 1)) as ReplayTurn)
    await move(bench, id, 'abort')
    await bench.clock.advance(10 * TURN_MS)
    await run(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 0, 0])
    for (const act of ['start', 'pause', 'resume', 'abort'] as const) {
      await assert.rejects(move(bench, id, act), { code: 'REPLAY_WRONG_STATE' })
    }
    assert.equal((await bench.store.replay({ id }))?.endedAtMs, bench.clock.nowMs() - 10 * TURN_MS)
  },

  async 'an act on a replay that has moved on since changes nothing'(bench) {
    await letters(bench, 1)
    const id = await plan(bench)
    await move(bench, id, 'start')
    assert.equal(await bench.store.moveReplay({ ...BY, id, act: 'start', expect: 'planned' }), 'moved-on')
    assert.equal(await bench.store.moveReplay({ ...BY, id, act: 'abort', expect: 'planned' }), 'moved-on')
    assert.equal((await bench.store.replay({ id }))?.state, 'running')
  },

  async 'after its first letters it waits until their jobs have ended, and goes on when they ended well'(bench) {
    const offsets = await letters(bench, 4)
    const id = await plan(bench, { canary: 2 })
    await move(bench, id, 'start')
    await run(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 0, 0])
    assert.equal((await bench.store.replay({ id }))?.state, 'canary')
    const worker = await bench.worker()
    await worker.close(await worker.claimOne(), complete())
    await later(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 0, 0])
    await worker.close(await worker.claimOne(), complete())
    await later(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1])
    assert.equal((await bench.store.replay({ id }))?.state, 'done')
  },

  async 'when one of its first jobs fails it stops with the reason, and a person may go on'(bench) {
    const offsets = await letters(bench, 4)
    const id = await plan(bench, { canary: 2 })
    await move(bench, id, 'start')
    await run(bench)
    const worker = await bench.worker()
    const lease = await worker.claimOne()
    await worker.close(lease, failed(lease))
    await later(bench)
    const stopped = await bench.store.replay({ id })
    assert.deepEqual([stopped?.state, stopped?.why], ['stopped', 'of the first 2 jobs, 1 failed; none may'])
    assert.deepEqual((await bench.store.replayCounts({ id })).jobs, {
      ...{ queued: 1, processing: 0, complete: 0, failed: 1, cancelled: 0, gone: 0 },
    })
    await later(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 0, 0])
    await move(bench, id, 'resume')
    await run(bench)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1])
  },

  async 'a replay goes on where another process left it when that one died'(bench) {
    const offsets = await letters(bench, 4)
    const id = await plan(bench)
    await move(bench, id, 'start')
    await advance(bench, (await takeTurn(bench.store, 2)) as ReplayTurn)
    await takeTurn(bench.store, 1)
    const [, other] = await bench.openMany(2)
    await bench.clock.advance(TURN_MS)
    await run(bench, other)
    assert.deepEqual(await jobsPerLetter(bench, offsets), [1, 1, 1, 1])
    assert.equal((await bench.store.replay({ id }))?.state, 'done')
  },

  async 'who planned, started, paused, resumed and aborted it, and why, is in the audit trail with the jobs it made'(
    bench,
  ) {
    await letters(bench, 2)
    const id = await plan(bench, { perSecond: 1 })
    await move(bench, id, 'start')
    await run(bench)
    await move(bench, id, 'pause')
    await move(bench, id, 'resume')
    await move(bench, id, 'abort')
    const trail = await bench.store.auditTrail({ filter: { act: 'replays' }, beforeSeq: null, limit: 100 })
    assert.deepEqual(
      trail.map(({ act }) => act).toReversed(),
      ['plan', 'start', 'submit', 'pause', 'resume', 'abort'].map((act) => `replays.${act}`),
    )
    assert(trail.every(({ actor, reason, ids }) => actor === BY.actor && reason === BY.reason && ids[0] === id))
    const [item] = await bench.store.replayItems({ id, ...EVERYTHING })
    assert.deepEqual(trail.find(({ act }) => act === 'replays.submit')?.ids, [id, item?.job])
  },
})

/** Jobs that failed and were set aside; answers with the offsets of their letters. */
async function letters(bench: Bench, count: number, parts: Partial<NewJob> = {}): Promise<number[]> {
  const before = (await bench.store.countDeadLetters({})).lastOffset
  for (let i = 0; i < count; i++) {
    const { lease, worker } = await bench.processing(parts)
    await worker.close(lease, failed(lease, { deadLetter: 'queue' }))
  }
  const found = await bench.store.deadLetters({ afterOffset: before, limit: count })
  return found.map(({ offset }) => offset)
}

const newReplay = (id: string): NewReplay => ({
  ...{ id, selection: { type: 'plain' }, patch: null, perSecond: null, canary: 0, canaryFailuresMax: 0 },
})

/** Plans the replay of every letter there is, in two parts. */
async function plan(
  bench: Bench,
  parts: Partial<NewReplay> = {},
  change: (item: NewReplayItem, index: number) => NewReplayItem = (item) => item,
): Promise<string> {
  const id = bench.makeId()
  await bench.store.draftReplay({ ...BY, ...newReplay(id), ...parts })
  const found = await bench.store.deadLetters({ afterOffset: 0, limit: 100 })
  const items = found.map(({ offset, type, replays: seen }, i) =>
    change({ offset, type, replaysSeen: seen, job: bench.makeId(), skip: null }, i),
  )
  await bench.store.addReplayItems({ id, items: items.slice(0, 1), isLast: false })
  await bench.store.addReplayItems({ id, items: items.slice(1), isLast: true })
  return id
}

async function move(bench: Bench, id: string, act: 'start' | 'pause' | 'resume' | 'abort'): Promise<void> {
  const replay = await bench.store.replay({ id })
  assert(replay !== null)
  assert.equal(await bench.store.moveReplay({ ...BY, id, act, expect: replay.state }), 'done')
}

const takeTurn = (store: Store, limit = 10, types = TYPES): Promise<ReplayTurn | null> =>
  store.takeReplayTurn({ types, turnMs: TURN_MS, limit })

/** Prepares every letter as it is and hands the jobs in. */
function advance(bench: Bench, { id, by, items }: ReplayTurn, store = bench.store) {
  const decided = items.flatMap(({ position, job, letter }) => {
    if (letter === null) return []
    const retriedFrom = { id: letter.jobId, ...by, act: 'replays.start', replay: id } as const
    const { payload, type } = letter
    return [{ position, decision: { job: bench.newJob({ id: job, type, payload, retriedFrom }) } }]
  })
  return store.advanceReplay({ id, decided })
}

/** Everything that is due now, in steps of two letters. */
async function run(bench: Bench, store = bench.store): Promise<void> {
  for (;;) {
    const turn = await takeTurn(store, 2)
    if (turn === null) return
    await advance(bench, turn, store)
  }
}

/** Until the replay looks at its jobs again. */
async function later(bench: Bench): Promise<void> {
  await bench.clock.advance(TURN_MS)
  await run(bench)
}

async function jobsPerLetter(bench: Bench, offsets: readonly number[]): Promise<number[]> {
  const jobs = await bench.store.jobs({ limit: 1_000 })
  const counts: number[] = []
  for (const offset of offsets) {
    const letter = await bench.store.deadLetter({ offset })
    counts.push(jobs.filter(({ retriedFrom }) => retriedFrom === letter?.jobId).length)
  }
  return counts
}
