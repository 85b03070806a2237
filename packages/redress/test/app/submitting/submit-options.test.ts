import { DatabaseSync } from 'node:sqlite'
import { expect, onTestFinished, test } from 'vitest'
import { temporaryFolder } from '../../../../../test/support/stores/sqlite.ts'
import { type PolicyInput, redress, type SubmitOptions } from '../../../src/index.ts'
import { testKit } from '../../../src/testing/index.ts'

function kitWith(policy: PolicyInput = {}) {
  const kit = testKit()
  onTestFinished(() => kit.stop())
  const ran: unknown[] = []
  const type = kit.app.job<{ n: number }>('work', {
    policy,
    async run(input) {
      ran.push(input.n)
      if (input.n < 0) throw new Error('it fails')
      if (input.n >= 100) await kit.sleep('10s')
    },
  })
  return { kit, type, ran, app: kit.app }
}

const KEY = { key: 'a' }
test.each<[string, unknown, RegExp]>([
  ['delay and runAt', { delay: '1s', runAt: new Date() }, /delay and runAt cannot be used together/],
  ['dedupe and debounce', { dedupe: 'a', debounce: { ...KEY, wait: '1s' } }, /dedupe and debounce cannot/],
  ['dedupe and throttle', { dedupe: 'a', throttle: { ...KEY, every: '1s' } }, /dedupe and throttle cannot/],
  ['debounce and throttle', { debounce: { ...KEY, wait: 1 }, throttle: { ...KEY, every: 1 } }, /debounce and throttle/],
  ['debounce and delay', { debounce: { ...KEY, wait: '1s' }, delay: '1s' }, /debounce and delay cannot/],
  ['throttle and runAt', { throttle: { ...KEY, every: '1s' }, runAt: new Date() }, /throttle and runAt cannot/],
  [
    'debounce and a queued singleton',
    { debounce: { ...KEY, wait: '1s' }, singleton: 'both' },
    /debounce and singleton: 'both'/,
  ],
  ['a limit key and a running singleton', { limitKey: 'a', singleton: 'running' }, /limitKey and singleton: 'running'/],
  ['dedupe with scope and time', { dedupe: { ...KEY, scope: 'live', for: '1m' } }, /dedupe.scope and dedupe.for/],
  ['an invalid date', { runAt: new Date('nonsense') }, /runAt: an invalid Date is not a time/],
  ['a time without a zone', { runAt: '2030-01-01T10:00' }, /has no time zone/],
  ['a text that is no time', { runAt: 'tomorrow' }, /is not a time in ISO 8601/],
  ['a text that only begins like a time', { runAt: '2030-02-01junk' }, /is not a time in ISO 8601/],
  ['a day that does not exist', { runAt: '2030-02-30' }, /is not a time in ISO 8601/],
  ['a number as time', { runAt: 5 }, /runAt: a number is not a time/],
  ['a ttl of zero', { ttl: 0 }, /ttl must be longer than zero/],
  ['a ttl that is no duration', { ttl: 'soon' }, /ttl: "soon" is not a duration/],
  ['a debounce without a wait', { debounce: KEY }, /debounce.wait/],
  ['a longest wait that is too short', { debounce: { ...KEY, wait: '5s', maxWait: '1s' } }, /maxWait must be at least/],
  ['a misspelt field', { debounce: { ...KEY, wiat: '5s' } }, /debounce has no option "wiat"/],
  ['a throttle without a key', { throttle: { every: '5s' } }, /a throttle key must be a text/],
  ['an empty key', { throttle: { key: '', every: '5s' } }, /must have 1 to 500 characters/],
  ['a singleton of nothing', { singleton: 'sometimes' }, /singleton must be one of queued, running, both/],
  ['an owner with a NUL character', { owner: 'a\0' }, /owner must not contain a NUL character/],
  ['a dedupe key with a NUL character', { dedupe: 'a\0' }, /a dedupe key must not contain a NUL character/],
  ['a debounce key with a NUL character', { debounce: { key: 'a\0', wait: 1 } }, /a debounce key must not contain/],
  [
    'a singleton key with a NUL character',
    { singleton: { key: '\0', of: 'both' } },
    /a singleton key must not contain/,
  ],
  ['a limit key with a NUL character', { limitKey: 'a\0' }, /limitKey must not contain a NUL character/],
  ['a limit key that looks like a singleton', { limitKey: '\u0001a' }, /control character/],
])('a submission with %s is refused by name, and nothing is submitted', async (_, options, message) => {
  const { type, app } = kitWith()
  await expect(type.submit({ n: 1 }, options as SubmitOptions)).rejects.toThrow(message)
  expect((await app.jobs.list()).jobs).toEqual([])
})

test('a job runs at its time, given as a Date or as a text', async () => {
  const { kit, type, ran } = kitWith()
  const at = new Date(kit.clock.nowMs() + 60_000)
  await type.submit({ n: 1 }, { runAt: at })
  await type.submit({ n: 2 }, { runAt: at.toISOString() })
  await type.submit({ n: 3 }, { runAt: new Date(0) })
  await kit.tick()
  expect(ran).toEqual([3])
  await kit.advance('59s')
  expect(ran).toEqual([3])
  await kit.advance('1s')
  expect(ran.toSorted()).toEqual([1, 2, 3])
})

test('a debounced job runs once, with the newest input', async () => {
  const { kit, type, ran } = kitWith()
  const options = { debounce: { key: ['doc', 7], wait: '5s' } }
  const { id } = await type.submit({ n: 1 }, options)
  await kit.advance('3s')
  expect(await type.submit({ n: 2 }, options)).toEqual({ id, isNew: false, isReplaced: true, status: 'queued' })
  await kit.advance('3s')
  expect(ran).toEqual([])
  await kit.drain()
  expect(ran).toEqual([2])
  expect(await kit.history(id)).toEqual(['queued', 'input-replaced', 'processing', 'complete'])
  expect(await kit.app.explain(id)).toMatch(/input replaced and rescheduled to .* by a later submission/)
})

test('submitMany takes keys as functions of the input', async () => {
  const { kit, type, ran } = kitWith()
  const answers = await type.submitMany([{ n: 1 }, { n: 2 }, { n: 3 }], {
    debounce: ({ n }) => ({ key: n % 2 === 0 ? 'even' : 'odd', wait: '1s' }),
    ttl: '1h',
  })
  expect(answers.map(({ isNew, isReplaced }) => [isNew, isReplaced])).toEqual([
    [true, undefined],
    [true, undefined],
    [false, true],
  ])
  await kit.drain()
  expect(ran.toSorted()).toEqual([2, 3])
  const oneKey = { throttle: { key: 'a', every: '1s' } } as never
  await expect(type.submitMany([{ n: 1 }], oneKey)).rejects.toThrow('throttle of submitMany() must be a function')
})

test('a worker does not run a job that expired while it waited for the worker', async () => {
  const { kit, type, ran, app } = kitWith({ deadLetter: 'queue' })
  const { id } = await type.submit({ n: 1 }, { ttl: '1m' })
  kit.clock.jump(60_000)
  await kit.tick()
  expect(ran).toEqual([])
  expect(await app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'TTL_EXPIRED' })
  const { failures } = await app.jobs.failures(id)
  expect(failures[0]?.decision).toMatchObject({ rule: 'ttl', budget: { before: 0, after: 0 } })
  expect((await app.deadLetters.list()).deadLetters).toHaveLength(1)
})

test('a job of a paused queue expires though nothing claims it', async () => {
  const { kit, type, ran, app } = kitWith()
  await app.queues.pause('default', { actor: 'olga', reason: 'a test' })
  const { id } = await type.submit({ n: 1 }, { ttl: '1m' })
  await kit.advance('50s')
  expect(await app.jobs.find(id)).toMatchObject({ status: 'queued' })
  await kit.advance('20s')
  expect(await app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'TTL_EXPIRED' })
  await app.queues.resume('default', { actor: 'olga', reason: 'a test' })
  await kit.drain()
  expect(ran).toEqual([])
})

test('a job that began within its ttl is retried after it', async () => {
  const { kit, type, ran, app } = kitWith({
    retry: { max: 3, unknown: 'transient', backoff: { table: ['5m'] } },
  })
  const { id } = await type.submit({ n: -1 }, { ttl: '1m' })
  await kit.drain()
  expect(ran).toEqual([-1, -1, -1])
  expect(await app.jobs.find(id)).toMatchObject({ status: 'failed', errorCode: 'UNKNOWN' })
})

test('jobs of a running singleton run one after the other, and explain says why they wait', async () => {
  const { kit, type, ran, app } = kitWith()
  const submit = (n: number, key: string) => type.submit({ n }, { singleton: { key, of: 'running' } })
  await submit(100, 'a')
  const { id } = await submit(101, 'a')
  await submit(102, 'b')
  await kit.tick()
  expect(ran).toEqual([100, 102])
  expect(await app.explain(id)).toContain('1 under way, which is all that its singleton allows')
  await kit.drain()
  expect(ran).toEqual([100, 102, 101])
})

test('a singleton of both has one job that waits and one that runs', async () => {
  const { kit, type, ran } = kitWith()
  const first = await type.submit({ n: 100 }, { singleton: 'both' })
  await kit.tick()
  const second = await type.submit({ n: 101 }, { singleton: 'both' })
  expect(await type.submit({ n: 102 }, { singleton: 'both' })).toEqual({
    id: second.id,
    isNew: false,
    status: 'queued',
  })
  expect(second.id).not.toBe(first.id)
  await kit.tick()
  expect(ran).toEqual([100])
  await kit.drain()
  expect(ran).toEqual([100, 101])
})

test('a transaction that is rolled back replaces no input and keeps no key', async () => {
  const path = `${temporaryFolder()}/jobs.db`
  const app = redress({ store: `sqlite:${path}` })
  onTestFinished(() => app.stop())
  const type = app.job<{ n: number }>('work', { run: () => undefined })
  const debounce = { debounce: { key: 'a', wait: '1h' } }
  const { id } = await type.submit({ n: 1 }, debounce)
  const before = await app.jobs.show(id)
  const database = new DatabaseSync(path)
  onTestFinished(() => database.close())
  const jobs = [
    await type.prepare({ n: 2 }, debounce),
    await type.prepare({ n: 3 }, { throttle: { key: 'a', every: '1h' } }),
    await type.prepare({ n: 4 }, { singleton: 'both', ttl: '1h', dedupe: { key: 'a', for: '1h' } }),
  ]
  database.exec('BEGIN IMMEDIATE')
  expect(app.submitIn(database, jobs)).toMatchObject([{ id, isReplaced: true }, { isNew: true }, { isNew: true }])
  database.exec('ROLLBACK')
  expect(await app.jobs.show(id)).toEqual(before)
  expect((await app.jobs.list()).jobs).toHaveLength(1)
  database.exec('BEGIN IMMEDIATE')
  expect(app.submitIn(database, jobs)).toMatchObject([{ id, isReplaced: true }, { isNew: true }, { isNew: true }])
  database.exec('COMMIT')
  expect(await app.jobs.show(id)).toMatchObject({ input: { n: 2 } })
  expect((await app.jobs.list()).jobs).toHaveLength(3)
})

test('the operation takes every option, as objects or in flat fields', async () => {
  const { app } = kitWith()
  const submit = (options: object) => app.perform('jobs.submit', { type: 'work', input: { n: 1 }, ...options })
  const debounce = { key: 'a', wait: '5m', maxWait: '10m' }
  const first = await submit({ debounce })
  const again = await submit({ debounce })
  expect(again).toMatchObject({ isDone: true, job: { id: first.job?.id } })
  expect(again.did).toContain('it has the new input now')
  expect((await submit({ throttle: { key: 'a', every: '5m' } })).isDone).toBe(true)
  expect((await submit({ runAt: '2090-01-01T00:00Z', ttl: '1h' })).job?.retryAfter).toBe('2090-01-01T00:00:00.000Z')
  const held = await submit({ dedupe: 'k', dedupeFor: '1h' })
  expect((await submit({ dedupe: { key: 'k', for: '1h' } })).job?.id).toBe(held.job?.id)
  const listed = await submit({ dedupe: ['invoice', 7] })
  expect((await submit({ dedupe: ['invoice', 7] })).job?.id).toBe(listed.job?.id)
  const always = await submit({ dedupe: { key: 'once', scope: 'always' } })
  await app.jobs.cancel(always.job?.id ?? '', { actor: 'ann', reason: 'test' })
  expect((await submit({ dedupe: { key: 'once', scope: 'always' } })).job?.id).toBe(always.job?.id)
  const alone = await submit({ singleton: 'queued', singletonKey: 's' })
  expect((await submit({ singleton: { key: 's', of: 'queued' } })).job?.id).toBe(alone.job?.id)
  await expect(submit({ dedupeFor: '1h' })).rejects.toThrow('dedupeFor needs a dedupe key')
  await expect(submit({ singletonKey: 's' })).rejects.toThrow('singletonKey needs singleton')
  await expect(submit({ debounce, throttle: { key: 'a', every: '1m' } })).rejects.toThrow('cannot be used together')
})

test('jobs of a batch take the options, and a merged job is counted once', async () => {
  const { app, type } = kitWith()
  const options = { debounce: { key: 'a', wait: '1s' } }
  const batch = await app.batches.create('b', {
    jobs: [type.request({ n: 1 }, options), type.request({ n: 2 }, options)],
  })
  expect(batch.jobs.map(({ isNew }) => isNew)).toEqual([true, false])
  expect(await batch.find()).toMatchObject({ counts: { total: 1 } })
})
