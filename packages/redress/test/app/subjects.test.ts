import { expect, expectTypeOf, test } from 'vitest'
import { type JobView, redress } from '../../src/index.ts'
import { CATALOG } from '../../src/operations/catalog.ts'

const by = { actor: 'ann', reason: 'a test' }

const SUBJECTS = {
  jobs: 'jobs',
  failures: 'failures',
  deadLetters: 'dead-letters',
  replays: 'replays',
  batches: 'batches',
  queues: 'queues',
  breakers: 'breakers',
  schedules: 'schedules',
  notices: 'notices',
  audit: 'audit',
} as const

test.each(Object.entries(SUBJECTS))('app.%s has a method for each operation of %s', (noun, subject) => {
  const methods = redress({ store: 'sqlite::memory:' })[noun as keyof typeof SUBJECTS] as unknown as object
  const acts = Object.keys(CATALOG)
    .filter((name) => name.startsWith(`${subject}.`))
    .map((name) => name.slice(subject.length + 1))
  const names = acts.map((act) => act.replaceAll(/-./g, (text) => text.slice(1).toUpperCase()))
  expect(acts.length).toBeGreaterThan(0)
  expect(Object.keys(methods)).toEqual(expect.arrayContaining(acts.includes('show') ? [...names, 'find'] : names))
})

test('the first argument is what the route has in its path, and the rest are fields', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const greet = app.job('greet', { queue: 'mail', policy: { retry: { max: 1 } }, run: () => 1 })
  expect(await app.queues.pause('mail', { ...by, for: '2h' })).toMatchObject({ isDone: true, queue: 'mail' })
  const { id } = await greet.submit({})
  expect(await app.jobs.show(id)).toMatchObject({ id, held: [{ by: 'workers' }, { by: 'queue', name: 'mail' }] })
  expect(await app.jobs.list({ type: 'greet', limit: 5 })).toMatchObject({ jobs: [{ id }] })
  expect(await app.jobs.markFailed(id, by)).toMatchObject({ isDone: true, job: { status: 'failed' } })
  const { groups } = await app.failures.list()
  expect(await app.failures.resolve(groups[0]?.fingerprint ?? '', by)).toMatchObject({ group: { state: 'resolved' } })
  const { entries } = await app.audit.list({ limit: 2 })
  expect(entries.map(({ act, actor }) => [act, actor])).toEqual([
    ['failures.resolve', 'ann'],
    ['jobs.mark-failed', 'ann'],
  ])
  await app.stop()
})

test('find answers null for what does not exist, and throws for every other refusal', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const missing = [
    app.jobs.find('none'),
    app.failures.find('none'),
    app.deadLetters.find(1),
    app.replays.find('none'),
    app.batches.find('none'),
    app.breakers.find('none'),
    app.schedules.find('none'),
  ]
  expect(await Promise.all(missing)).toEqual(missing.map(() => null))
  await expect(app.deadLetters.find('first')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  await app.stop()
})

test('the methods have the types of the operations', () => {
  const app = redress({ store: 'sqlite::memory:' })
  expectTypeOf(app.jobs.list).returns.resolves.toHaveProperty('jobs').toEqualTypeOf<JobView[]>()
  expectTypeOf(app.deadLetters.show).parameter(0).toEqualTypeOf<number | string>()
  expectTypeOf(app.deadLetters.replay).toBeCallableWith(17, { ...by, again: true })
  // @ts-expect-error an act needs an actor and a reason
  expectTypeOf(app.deadLetters.replay).toBeCallableWith(17)
  // @ts-expect-error an act needs a reason
  expectTypeOf(app.queues.resume).toBeCallableWith('mail', { actor: 'ann' })
  // @ts-expect-error there is no such status
  expectTypeOf(app.jobs.list).toBeCallableWith({ status: 'done' })
  expectTypeOf(app.queues.list).parameters.toEqualTypeOf<[]>()
  expectTypeOf(app.queues).not.toHaveProperty('find')
})
