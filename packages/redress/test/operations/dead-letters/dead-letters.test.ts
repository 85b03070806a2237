import { describe, expect, test } from 'vitest'
import { type PolicyInput, RedressError } from '../../../src/index.ts'
import { makeBench, refusal, WHO } from '../bench.ts'

const QUEUE: PolicyInput = { deadLetter: 'queue' }
const none = { ...WHO, offset: 999 }

async function deadLetters(policy: PolicyInput = QUEUE) {
  const bench = await makeBench(policy)
  const fail = async (options?: Parameters<typeof bench.finish>[1], outcome = 'GW_4XX') => {
    const id = await bench.finish([outcome], options)
    const { deadLetters: letters } = await bench.app.deadLetters.list({ limit: 1_000 })
    const letter = letters.find(({ jobId }) => jobId === id)
    if (letter === undefined) throw new Error(`job ${id} has no letter`)
    return letter
  }
  return { ...bench, fail }
}

describe('reading', () => {
  test('dead letters are listed by offset, with their failure and input [F12]', async () => {
    const { app, finish } = await makeBench({ deadLetter: 'queue' })
    const ids = [await finish(['GW_4XX']), await finish(['GW_4XX']), await finish(['GW_4XX'])]
    const first = await app.perform('dead-letters.list', { limit: 2 })
    expect(first.deadLetters.map(({ jobId }) => jobId)).toEqual(ids.slice(0, 2))
    const rest = await app.perform('dead-letters.list', { after: first.nextAfter ?? 0 })
    expect(rest).toMatchObject({
      nextAfter: null,
      deadLetters: [{ jobId: ids[2], attempts: 1, failure: { code: 'GW_4XX' } }],
    })
  })

  test('a dead letter has the task, its full failure, the attempts and the time [F15 F16]', async () => {
    const { app, fail } = await deadLetters()
    const letter = await fail({ owner: 'bob' })
    expect(await app.deadLetters.show(letter.offset)).toEqual(letter)
    expect(letter).toMatchObject({
      ...{ type: 'step', owner: 'bob', attempts: 1, input: { outcomes: ['GW_4XX'] }, jobStatus: 'failed' },
      ...{ failure: { code: 'GW_4XX', message: 'It does not take this.', decision: {}, context: {} } },
      ...{ replays: 0, replayedAt: null, replayedAs: null },
      replay: { allowed: true, why: 'makes a new job; this one stays failed' },
    })
    expect(letter.at).toMatch(/^2026-01-01T.*Z$/)
  })

  test('dead letters are found by code, owner, age and replay, page by page', async () => {
    const { app, clock, fail } = await deadLetters()
    const old = await fail({ owner: 'ann' })
    await clock.advance(3_600_000)
    const late = await fail({ owner: 'bob' }, 'GW_5XX')
    await app.deadLetters.replay(late.offset, { ...WHO, input: { outcomes: ['ok'] } })
    const offsets = async (filter: Parameters<typeof app.deadLetters.list>[0]) =>
      (await app.deadLetters.list(filter)).deadLetters.map(({ offset }) => offset)
    expect(await offsets({ code: 'GW_5XX' })).toEqual([late.offset])
    expect(await offsets({ owner: 'ann' })).toEqual([old.offset])
    expect(await offsets({ since: '1h' })).toEqual([late.offset])
    expect(await offsets({ until: late.at })).toEqual([old.offset])
    expect(await offsets({ replayed: 'no' })).toEqual([old.offset])
    expect(await offsets({ fingerprint: late.failure.fingerprint })).toEqual([late.offset])
    expect(await offsets({ after: old.offset })).toEqual([late.offset])
    expect(await app.deadLetters.list({ limit: 1 })).toMatchObject({ nextAfter: old.offset })
    expect(await refusal(app.deadLetters.list({ since: 'yesterday' }))).toMatchObject({ code: 'OPTION_INVALID' })
  })

  test('every operation on an unknown dead letter is refused', async () => {
    const { app } = await deadLetters()
    for (const asked of [app.deadLetters.show(999), app.deadLetters.replay(999, WHO), app.deadLetters.purge(none)]) {
      expect(await refusal(asked)).toMatchObject({ code: 'LETTER_NOT_FOUND', httpStatus: 404 })
    }
  })
})

describe('replaying one', () => {
  test('a replay makes a new job from the letter and records it; the failed job stays unchanged [F1]', async () => {
    const { app, fail, clock } = await deadLetters()
    const letter = await fail({ owner: 'bob', priority: 4 })
    const before = [
      await app.jobs.find(letter.jobId),
      (await app.jobs.events(letter.jobId)).events,
      (await app.jobs.failures(letter.jobId)).failures,
    ]
    const { isDone, did, job, letter: after } = await app.deadLetters.replay(letter.offset, WHO)
    expect([isDone, did]).toEqual([
      true,
      `Made job ${job?.id} from dead letter ${letter.offset} with the same input; job ${letter.jobId} stays failed.`,
    ])
    expect(job).toMatchObject({ status: 'queued', retriedFrom: letter.jobId, owner: 'bob', priority: 4 })
    const replayedAt = new Date(clock.nowMs()).toISOString()
    expect(after).toMatchObject({ replays: 1, replayedAs: job?.id, replayedAt, replay: { allowed: false } })
    const { actions, retriedAs } = (await app.jobs.find(letter.jobId)) ?? {}
    expect(retriedAs).toBe(job?.id)
    expect([
      await app.jobs.find(letter.jobId),
      (await app.jobs.events(letter.jobId)).events,
      (await app.jobs.failures(letter.jobId)).failures,
    ]).toEqual([{ ...before[0], actions, retriedAs }, ...before.slice(1)])
    expect((await app.jobs.events(job?.id ?? '')).events[0]).toMatchObject({ kind: 'queued', data: WHO })
  })

  test('replays of a forward-only job are new jobs, with the same input or an edited one, and leave the original unchanged [P10 P41 P44]', async () => {
    const { app, fail } = await deadLetters({ ...QUEUE, forwardOnly: true })
    const { jobId: id, offset } = await fail()
    const original = async () => {
      const { actions: _, retriedAs: __, ...job } = (await app.jobs.find(id)) ?? expect.fail('the job is gone')
      return [job, (await app.jobs.events(id)).events, (await app.jobs.failures(id)).failures]
    }
    const before = await original()
    const same = await app.deadLetters.replay(offset, WHO)
    const edited = await app.deadLetters.replay(offset, { ...WHO, again: true, input: { outcomes: ['ok'] } })
    const ids = [id, same.job?.id ?? '', edited.job?.id ?? '']
    expect(new Set(ids).size).toBe(3)
    expect(await app.jobs.find(ids[1] as string)).toMatchObject({ input: { outcomes: ['GW_4XX'] }, retriedFrom: id })
    expect(await app.jobs.find(ids[2] as string)).toMatchObject({ input: { outcomes: ['ok'] }, retriedFrom: id })
    expect(await original()).toEqual(before)
  })

  test('a letter is replayed once, or again with `again`', async () => {
    const { app, fail } = await deadLetters()
    const { offset } = await fail()
    const { job } = await app.deadLetters.replay(offset, WHO)
    const refused = await refusal(app.deadLetters.replay(offset, WHO))
    expect(refused).toMatchObject({ code: 'LETTER_NOT_REPLAYED', httpStatus: 409 })
    expect(refused.message).toContain(`it was replayed already, as job ${job?.id}`)
    expect((await app.deadLetters.replay(offset, { ...WHO, again: true })).letter.replays).toBe(2)
  })

  test('a retry of its job counts as a replay', async () => {
    const { app, fail } = await deadLetters()
    const letter = await fail()
    const { job } = await app.jobs.retry(letter.jobId, WHO)
    expect(await app.deadLetters.show(letter.offset)).toMatchObject({ replays: 1, replayedAs: job.id })
  })

  test('a new input is checked like a submission, and a refusal leaves the letter unchanged', async () => {
    const { app, fail, work } = await deadLetters({ ...QUEUE, reject: 'record' })
    const { offset } = await fail()
    const replay = (input: unknown) => app.deadLetters.replay(offset, { ...WHO, input })
    expect(await refusal(replay({ outcomes: 'ok' }))).toMatchObject({ code: 'SUBMISSION_REFUSED' })
    expect((await refusal(replay({ outcomes: [], note: 'refuse' }))).message).toBe('REFUSED: It was refused.')
    expect(await app.deadLetters.show(offset)).toMatchObject({ replays: 0 })
    const { job, did } = await replay({ outcomes: ['ok'] })
    expect(did).toContain('with the given input')
    await work()
    expect(await app.jobs.find(job?.id ?? '')).toMatchObject({ status: 'complete', input: { outcomes: ['ok'] } })
  })

  test('a dry run checks everything and makes nothing', async () => {
    const { app, fail } = await deadLetters()
    const { offset } = await fail()
    const dry = await app.deadLetters.replay(offset, { ...WHO, dryRun: true })
    expect(dry).toMatchObject({ isDone: false, job: null, letter: { replays: 0 } })
    expect(await refusal(app.deadLetters.replay(offset, { ...WHO, dryRun: true, input: {} }))).toMatchObject({
      code: 'INPUT_INVALID',
    })
    expect((await app.jobs.list()).jobs).toHaveLength(1)
  })

  test('is refused without a name or a reason', async () => {
    const { app, fail } = await deadLetters()
    const { offset } = await fail()
    for (const by of [
      { actor: '', reason: 'why' },
      { actor: 'ann', reason: ' ' },
    ]) {
      expect(await refusal(app.deadLetters.replay(offset, by))).toMatchObject({ code: 'REASON_REQUIRED' })
    }
  })

  test('is refused while another job holds the dedupe key, and names that job', async () => {
    const { app, fail, submit } = await deadLetters()
    const { offset } = await fail({ dedupe: 'one' })
    const twin = await submit(['ok'], { dedupe: 'one' })
    expect((await refusal(app.deadLetters.replay(offset, WHO))).message).toContain(`job ${twin} holds the same`)
  })
})

describe('purging', () => {
  test('deletes one letter; its job stays failed, with its history', async () => {
    const { app, fail } = await deadLetters()
    const { offset, jobId } = await fail()
    const history = (await app.jobs.events(jobId)).events
    expect(await app.deadLetters.purge({ offset, ...WHO })).toMatchObject({ isDone: true, letters: 1 })
    expect(await refusal(app.deadLetters.show(offset))).toMatchObject({ code: 'LETTER_NOT_FOUND' })
    expect(await app.jobs.find(jobId)).toMatchObject({ status: 'failed', deadLettered: false })
    expect((await app.jobs.events(jobId)).events).toEqual(history)
    expect((await fail()).offset).toBeGreaterThan(offset)
  })

  test('a dry run counts what the purge with the same filter deletes', async () => {
    const { app, fail } = await deadLetters()
    for (let i = 0; i < 3; i++) await fail()
    const kept = await fail({}, 'GW_5XX')
    const dry = await app.deadLetters.purge({ code: 'GW_4XX', ...WHO, dryRun: true })
    expect(dry).toEqual({
      ...{ isDone: false, did: 'Nothing was done. This purges 3 dead letters; their jobs stay failed.' },
      ...{ letters: 3, byCause: [{ type: 'step', code: 'GW_4XX', letters: 3 }] },
    })
    expect(await app.deadLetters.purge({ code: 'GW_4XX', ...WHO })).toMatchObject({ isDone: true, letters: 3 })
    expect((await app.deadLetters.list()).deadLetters).toEqual([kept])
    expect(await app.deadLetters.purge({ code: 'GW_4XX', ...WHO })).toMatchObject({ isDone: false, letters: 0 })
  })

  test('a purge of several steps deletes all letters, each in the audit trail', async () => {
    const { app, store } = await deadLetters()
    const worker = await app.makeWorker({ concurrency: 100 })
    await app.submitMany('step', Array(1_100).fill({ outcomes: ['GW_4XX'] }))
    while ((await store.countDeadLetters({})).letters < 1_100) await worker.tick()
    expect(await app.deadLetters.purge({ all: true, ...WHO })).toMatchObject({ letters: 1_100 })
    const { entries } = await app.perform('audit.list', { act: 'dead-letters.purge' })
    expect(entries.map(({ ids }) => ids.length)).toEqual([100, 500, 500])
    expect(new Set(entries.flatMap(({ ids }) => ids)).size).toBe(1_100)
    expect(entries.every(({ actor, reason }) => actor === WHO.actor && reason === WHO.reason)).toBe(true)
  })

  test('a purge without a filter is refused', async () => {
    const { app, fail } = await deadLetters()
    await fail()
    expect(await refusal(app.deadLetters.purge(WHO))).toMatchObject({ code: 'OPTION_INVALID' })
    expect(await refusal(app.deadLetters.purge({ all: true, type: 'step', ...WHO }))).toMatchObject({
      code: 'OPTION_INVALID',
    })
    expect((await app.deadLetters.list()).deadLetters).toHaveLength(1)
  })

  test('needs a name and a reason, also for a dry run', async () => {
    const { app } = await deadLetters()
    const purge = app.deadLetters.purge({ all: true, actor: 'ann', reason: '', dryRun: true })
    expect(await refusal(purge)).toMatchObject({ code: 'REASON_REQUIRED' })
  })
})

test('a purge that fails midway reports how many letters it purged', async () => {
  let steps = 0
  const bench = await makeBench(
    QUEUE,
    (store) =>
      new Proxy(store, {
        get(target, name) {
          if (name === 'purgeDeadLetters') {
            return (params: Parameters<typeof target.purgeDeadLetters>[0]) => {
              if (++steps === 2) return Promise.reject(new RedressError('STORE_UNREACHABLE', 'It is gone.'))
              return target.purgeDeadLetters({ ...params, limit: 2 })
            }
          }
          const value = Reflect.get(target, name) as unknown
          return typeof value === 'function' ? value.bind(target) : value
        },
      }),
  )
  for (let i = 0; i < 5; i++) await bench.finish(['GW_4XX'])
  expect(await refusal(bench.app.deadLetters.purge({ ...WHO, all: true }))).toMatchObject({
    ...{ code: 'PARTLY_DONE', exitCode: 6, message: expect.stringMatching(/^2 of 5 .*STORE_UNREACHABLE/) },
  })
  expect((await bench.app.deadLetters.list({})).deadLetters).toHaveLength(3)
  steps = 1
  expect(await refusal(bench.app.deadLetters.purge({ ...WHO, all: true }))).toMatchObject({ code: 'STORE_UNREACHABLE' })
})
