import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { failureCodes, type PolicyInput, redress, table } from '../../src/index.ts'
import type { LetterView } from '../../src/operations/dead-letters/dead-letters.ts'
import { testKit } from '../../src/testing/index.ts'
import { refusal, WHO } from '../operations/bench.ts'

const codes = failureCodes({
  DOWN: { fault: 'dependency', retry: 'never', message: 'The gateway is down.' },
  REFUSED: { fault: 'caller', retry: 'never', message: 'It was refused.' },
})

const numberOf = (letter: LetterView | undefined): number => (letter?.input as { n: number } | undefined)?.n ?? -1

/** A kit with so many dead letters of `order`, and a gateway that is back unless the test says otherwise. */
async function withLetters(count: number, policy: PolicyInput = {}) {
  const kit = testKit()
  const { app } = kit
  const gateway = { isUp: false, refuses: new Set<number>() }
  const refused = new Set<number>()
  const order = app.job('order', {
    input: z.looseObject({ n: z.number() }),
    codes,
    policy: { deadLetter: 'queue', ...policy },
    admitRetry: ({ n }, retry) => (refused.has(n) ? retry.fail('REFUSED') : undefined),
    run: ({ n }, attempt) => (gateway.isUp && !gateway.refuses.has(n) ? n : attempt.fail('DOWN')),
  })
  await order.submitMany(Array.from({ length: count }, (_, n) => ({ n })))
  await kit.drain()
  gateway.isUp = true
  const { deadLetters: letters } = await app.deadLetters.list({ limit: 1_000 })
  const store = await app.store()
  const planned = async (parts: Omit<Parameters<typeof app.replays.plan>[0], 'actor' | 'reason'> = {}) => {
    const { replay } = await app.replays.plan({ type: 'order', ...WHO, ...parts })
    if (replay === null) throw new Error('nothing was planned')
    return replay.id
  }
  const started = async (parts: Parameters<typeof planned>[0] = {}) => {
    const id = await planned(parts)
    await app.replays.start(id, WHO)
    return id
  }
  /** When the jobs of the replay were made, in milliseconds since `sinceMs`, in order. */
  const timesSince = async (sinceMs: number) => {
    const made = (await store.jobs({ limit: 1_000 })).filter(({ retriedFrom }) => retriedFrom !== null)
    return made.map(({ createdAtMs }) => createdAtMs - sinceMs).sort((a, b) => a - b)
  }
  return { kit, app, gateway, refused, letters, store, planned, started, timesSince }
}

describe('a plan', () => {
  test('says what would run and what would not and why, and nothing runs', async () => {
    const { app, kit, letters, refused } = await withLetters(5)
    const [replayed, , unwelcome, spoilt] = letters
    await app.deadLetters.replay(replayed?.offset ?? 0, WHO)
    refused.add(numberOf(unwelcome))
    await kit.drain()
    const before = (await app.jobs.list()).jobs.length
    const plan = await app.replays.plan({ type: 'order', ...WHO, patch: { note: 'x' } })
    expect(plan).toMatchObject({
      ...{ isDone: true, willRun: 3, unchecked: [] },
      did: `Planned replay ${plan.replay?.id}: 3 will run, 2 will be skipped. It runs when it is started.`,
      skipped: expect.arrayContaining([
        { code: 'already-replayed', letters: 1, example: { offset: replayed?.offset, why: expect.any(String) } },
        {
          code: 'refused',
          letters: 1,
          example: { offset: unwelcome?.offset, why: expect.stringContaining('REFUSED: It was refused.') },
        },
      ]),
      replay: { state: 'planned', total: 5, submitted: 0, skipped: 2, waiting: 3, selection: { type: 'order' } },
    })
    await kit.advance('1h')
    expect((await app.jobs.list()).jobs.length).toBe(before)
    expect(await app.replays.plan({ type: 'order', ...WHO, patch: { n: 'no number' } })).toMatchObject({
      ...{ isDone: false, replay: null, willRun: 0, did: 'Nothing was planned: 0 will run, 5 will be skipped.' },
    })
    expect(await app.deadLetters.show(spoilt?.offset ?? 0)).toMatchObject({ replays: 0 })
  })

  test('with dryRun keeps nothing', async () => {
    const { app } = await withLetters(2)
    expect(await app.replays.plan({ type: 'order', ...WHO, dryRun: true })).toMatchObject({
      ...{ isDone: false, replay: null, willRun: 2, did: 'Nothing was done. Of 2, 2 will run, 0 will be skipped.' },
    })
    expect((await app.replays.list()).replays).toEqual([])
  })

  test('of a type that this program does not know is unchecked, and its worker checks each before it goes', async () => {
    const { kit, app, refused, letters } = await withLetters(3)
    const other = redress({ store: await app.store(), clock: kit.clock })
    const plan = await other.replays.plan({ type: 'order', ...WHO })
    expect(plan).toMatchObject({ willRun: 3, unchecked: [{ type: 'order', letters: 3 }] })
    await other.replays.start(plan.replay?.id ?? '', WHO)
    refused.add(numberOf(letters[1]))
    await kit.drain()
    const shown = await app.replays.show(plan.replay?.id ?? '')
    expect(shown).toMatchObject({ state: 'done', submitted: 2, skipped: 1 })
    expect(shown.items.map(({ skip }) => skip?.code ?? null)).toEqual([null, 'refused', null])
  })

  test('is frozen: letters that come later are not part of it', async () => {
    const { kit, app, gateway, planned } = await withLetters(2)
    const id = await planned()
    gateway.isUp = false
    await app.submit('order', { n: 99 })
    await kit.drain()
    gateway.isUp = true
    await app.replays.start(id, WHO)
    await kit.drain()
    expect(await app.replays.show(id)).toMatchObject({ state: 'done', total: 2, submitted: 2 })
  })

  test.each([
    [{}, 'A filter is missing'],
    [{ type: 'order', rate: '0/s' }, 'rate: write'],
    [{ type: 'order', canary: 2, canaryFailures: 2 }, 'canaryFailures: must be less than canary (2).'],
    [{ type: 'order', since: 'last week' }, 'since'],
  ])('that cannot be meant is refused: %j', async (parts, message) => {
    const { app } = await withLetters(1)
    const refused = await refusal(app.replays.plan({ ...WHO, ...parts }))
    expect(refused).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(message) })
  })
})

describe('a replay', () => {
  test('replays every letter once, and shows of each what became of it', async () => {
    const { kit, app, started, letters } = await withLetters(120)
    const id = await started()
    await kit.drain()
    const shown = await app.replays.show(id, { limit: 1_000 })
    expect(shown).toMatchObject({ state: 'done', total: 120, submitted: 120, waiting: 0, jobs: { complete: 120 } })
    expect(shown.items.map(({ offset }) => offset)).toEqual(letters.map(({ offset }) => offset))
    for (const { offset, jobId, jobStatus } of shown.items) {
      expect(jobStatus).toBe('complete')
      expect(await app.deadLetters.show(offset)).toMatchObject({ replays: 1, replayedAs: jobId })
    }
    expect((await app.jobs.list({ limit: 1_000 })).jobs).toHaveLength(240)
    expect((await app.replays.list()).replays).toMatchObject([{ id, state: 'done' }])
  })

  test('gives each input the patch, and checks it with its type', async () => {
    const { kit, app, started } = await withLetters(2)
    const id = await started({ patch: { n: 7, note: 'x' } })
    await kit.drain()
    const { items } = await app.replays.show(id)
    for (const { jobId } of items) {
      expect(await app.jobs.find(jobId ?? '')).toMatchObject({ input: { n: 7, note: 'x' }, result: 7 })
    }
  })

  test('keeps its rate exactly', async () => {
    const { kit, started, timesSince } = await withLetters(9)
    const sinceMs = kit.clock.nowMs()
    await started({ rate: '4/s' })
    await kit.advance('10s')
    expect(await timesSince(sinceMs)).toEqual([0, 250, 500, 750, 1000, 1250, 1500, 1750, 2000])
  })

  test('keeps a rate of less than one a second, and begins anew after a pause', async () => {
    const { kit, app, started, timesSince } = await withLetters(4)
    const sinceMs = kit.clock.nowMs()
    const id = await started({ rate: '30/m' })
    await kit.advance('3s')
    await app.replays.pause(id, WHO)
    await kit.advance('1h')
    await app.replays.resume(id, WHO)
    await kit.advance('10s')
    const resumedMs = 3_000 + 3_600_000
    expect(await timesSince(sinceMs)).toEqual([0, 2_000, resumedMs, resumedMs + 2_000])
  })

  test('that is paused makes no more jobs until it is resumed', async () => {
    const { kit, app, started } = await withLetters(10)
    const id = await started({ rate: 1 })
    await kit.advance('4s')
    expect(await app.replays.pause(id, WHO)).toMatchObject({ isDone: true, replay: { state: 'paused', submitted: 5 } })
    await kit.advance('1d')
    expect(await app.replays.show(id)).toMatchObject({ state: 'paused', submitted: 5, why: 'ann: the gateway is back' })
    await app.replays.resume(id, { actor: 'bob', reason: 'looked at it' })
    await kit.advance('1m')
    expect(await app.replays.show(id)).toMatchObject({
      ...{ state: 'done', submitted: 10, plannedBy: WHO, startedBy: { actor: 'bob', reason: 'looked at it' } },
    })
  })

  test('that is aborted leaves what it has not done, and the letters can be replayed otherwise', async () => {
    const { kit, app, started, planned } = await withLetters(5)
    const id = await started({ rate: 1 })
    await kit.advance('1s')
    expect(await app.replays.abort(id, WHO)).toMatchObject({ replay: { state: 'aborted', submitted: 2, waiting: 3 } })
    await kit.advance('1d')
    expect(await app.replays.show(id)).toMatchObject({ submitted: 2 })
    const refused = await refusal(app.replays.resume(id, WHO))
    expect(refused).toMatchObject({ code: 'REPLAY_WRONG_STATE', httpStatus: 409 })
    expect(refused.message).toContain('it was aborted; plan a new one for what is left')
    expect(await app.replays.show(await planned())).toMatchObject({ waiting: 3, skipped: 2 })
  })

  test('asks again what stands in the way when a letter would become a job', async () => {
    const { kit, app, planned, letters, refused } = await withLetters(5)
    const id = await planned()
    const [purged, retried, unwelcome] = letters
    await app.deadLetters.purge({ offset: purged?.offset ?? 0, ...WHO })
    await app.jobs.retry(retried?.jobId ?? '', WHO)
    refused.add(numberOf(unwelcome))
    await app.replays.start(id, WHO)
    await kit.drain()
    const { skippedBy, submitted, items } = await app.replays.show(id)
    expect(submitted).toBe(2)
    expect(items.map(({ skip }) => skip?.code ?? null)).toEqual([
      ...['purged', 'already-replayed', 'refused'],
      ...[null, null],
    ])
    expect(skippedBy).toHaveLength(3)
  })

  test('replays also what was replayed before, where that is said, and each once', async () => {
    const { kit, app, started, letters } = await withLetters(3)
    await app.deadLetters.replay(letters[0]?.offset ?? 0, WHO)
    const id = await started({ again: true })
    await kit.drain()
    expect(await app.replays.show(id)).toMatchObject({ submitted: 3, skipped: 0 })
    const counts = (await app.deadLetters.list()).deadLetters.map(({ replays }) => replays)
    expect(counts).toEqual([2, 1, 1])
  })

  test('of letters whose type no worker knows waits for one that does', async () => {
    const { kit, app } = await withLetters(2)
    const store = await app.store()
    const other = redress({ store, clock: kit.clock })
    const { replay } = await other.perform('dead-letters.replay-matching', { type: 'order', ...WHO })
    const stranger = await other.makeWorker()
    await stranger.runDuties()
    expect(await other.replays.show(replay?.id ?? '')).toMatchObject({
      ...{ state: 'running', submitted: 0, waitingTypes: [{ type: 'order', letters: 2 }] },
    })
    await kit.drain()
    expect(await other.replays.show(replay?.id ?? '')).toMatchObject({ state: 'done', submitted: 2 })
  })

  test('every act needs a name and a reason, and a dry run does nothing', async () => {
    const { app, planned } = await withLetters(1)
    const id = await planned()
    for (const act of ['start', 'pause', 'resume', 'abort'] as const) {
      expect(await refusal(app.replays[act](id, { actor: 'ann', reason: '' }))).toMatchObject({
        code: 'REASON_REQUIRED',
      })
      expect(await refusal(app.replays[act]('none', WHO))).toMatchObject({ code: 'REPLAY_NOT_FOUND' })
    }
    expect(await app.perform('replays.start', { id, ...WHO, dryRun: true })).toMatchObject({
      ...{ isDone: false, replay: { state: 'planned' } },
    })
  })
})

test('an answer of the store that was lost makes no second job of a letter, and one that failed loses none', async () => {
  const { kit, app, store, started, letters } = await withLetters(120)
  const faults = ['after', 'before', 'after']
  const { advanceReplay } = store
  const broken = new Error('the store did not answer')
  store.advanceReplay = async (params) => {
    const fault = faults.shift()
    if (fault === 'before') throw broken
    const answer = await advanceReplay(params)
    if (fault === 'after') throw broken
    return answer
  }
  const id = await started()
  const worker = await kit.worker()
  while (faults.length > 0) {
    await expect(worker.runDuties()).rejects.toThrow(broken)
    await kit.clock.advance(5_000)
  }
  await kit.drain()
  expect(await app.replays.show(id)).toMatchObject({ state: 'done', submitted: 120, jobs: { complete: 120 } })
  const made = (await store.jobs({ limit: 1_000 })).flatMap(({ retriedFrom }) => retriedFrom ?? [])
  expect(made.toSorted()).toEqual(letters.map(({ jobId }) => jobId).toSorted())
})

test('a replay logs its new jobs before it creates them when the audit is write-ahead [P66]', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redress-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const failureLog = join(folder, 'failures.jsonl')
  const kit = testKit({ failureLog })
  kit.app.job('strict', {
    codes,
    policy: { audit: 'write-ahead', deadLetter: 'queue' },
    run: (_: unknown, attempt) => attempt.fail('DOWN'),
  })
  for (let n = 0; n < 2; n++) await kit.app.submit('strict', { n })
  await kit.drain()
  const [one] = (await kit.app.deadLetters.list()).deadLetters
  const { job } = await kit.app.deadLetters.replay(one?.offset ?? 0, WHO)
  const { replay } = await kit.app.perform('dead-letters.replay-matching', { type: 'strict', ...WHO })
  await kit.drain()
  const { items } = await kit.app.replays.show(replay?.id ?? '', { state: 'submitted' })
  const lines = readFileSync(failureLog, 'utf8').split('\n').filter(Boolean)
  const begun = lines.map((line) => JSON.parse(line)).filter(({ from, to }) => from === null && to === 'queued')
  expect(begun.map(({ job_id }) => job_id)).toEqual(
    expect.arrayContaining([job?.id, ...items.map(({ jobId }) => jobId)]),
  )
  expect(items).toHaveLength(1)
})

describe('a canary', () => {
  test('goes first, and the rest when it has ended well', async () => {
    const { kit, app, started } = await withLetters(10, { timeout: { attempt: '1h' } })
    const id = await started({ canary: 3 })
    await kit.tick()
    expect(await app.replays.show(id)).toMatchObject({ state: 'canary', submitted: 3, waiting: 7 })
    await kit.advance('1m')
    expect(await app.replays.show(id)).toMatchObject({ state: 'done', submitted: 10, jobs: { complete: 10 } })
  })

  test('that fails stops the replay with the reason, and a person may go on all the same', async () => {
    const { kit, app, gateway, started } = await withLetters(10)
    gateway.isUp = false
    const id = await started({ canary: 3 })
    await kit.advance('1h')
    expect(await app.replays.show(id)).toMatchObject({
      ...{ state: 'stopped', why: 'of the first 3 jobs, 3 failed; none may', submitted: 3, jobs: { failed: 3 } },
    })
    gateway.isUp = true
    await app.replays.resume(id, WHO)
    await kit.drain()
    expect(await app.replays.show(id)).toMatchObject({ state: 'done', submitted: 10, jobs: { complete: 7, failed: 3 } })
  })

  test('may fail as often as was said', async () => {
    const { kit, app, gateway, letters, started, store } = await withLetters(6)
    gateway.refuses.add(numberOf(letters[1]))
    const id = await started({ canary: 3, canaryFailures: 1 })
    await kit.until('it has ended', async () => (await app.replays.show(id)).endedAt !== null)
    await kit.drain()
    expect(await app.replays.show(id)).toMatchObject({ state: 'done', jobs: { failed: 1, complete: 5 } })
    expect(await store.nextReplayAtMs()).toBeNull()
  })

  test('is waited for through its retries', async () => {
    const { kit, app, gateway, started } = await withLetters(4)
    app.job('slow', {
      codes: failureCodes({ BUSY: { fault: 'dependency', retry: 'transient', message: 'Busy.' } }),
      policy: { deadLetter: 'queue', retry: { max: 2, backoff: table(['1m']) } },
      run: (_: unknown, attempt) => (gateway.isUp && attempt.number === 2 ? 'ok' : attempt.fail('BUSY')),
    })
    gateway.isUp = false
    for (let n = 0; n < 3; n++) await app.submit('slow', { n })
    await kit.drain()
    gateway.isUp = true
    const id = await started({ type: 'slow', canary: 1 })
    await kit.advance('30s')
    expect(await app.replays.show(id)).toMatchObject({ state: 'canary', submitted: 1, jobs: { queued: 1 } })
    await kit.advance('31s')
    expect(await app.replays.show(id)).toMatchObject({ state: 'done', submitted: 3 })
  })
})
