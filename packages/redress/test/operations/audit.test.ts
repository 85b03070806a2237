import { describe, expect, test } from 'vitest'
import { type App, failureCodes } from '../../src/index.ts'
import { CATALOG, type OperationName } from '../../src/operations/catalog.ts'
import { OPERATIONS } from '../../src/operations/table.ts'
import { type TestKit, testKit } from '../../src/testing/index.ts'
import { refusal } from './bench.ts'

/**
 * Whatever changes something in a person's name leaves an entry in the audit trail. The table below says how to try each
 * operation; one that is not in it fails here, so that none can be forgotten.
 */
const WHO = { actor: 'ann', reason: 'the gateway is back' }

interface Scene {
  kit: TestKit
  app: App
  /** A job that failed, retried in place. */
  failed(): Promise<string>
  /** The offset of a dead letter. */
  letter(): Promise<number>
  /** A planned replay of one letter. */
  replay(): Promise<string>
  /** The fingerprint of a group. */
  group(): Promise<string>
  /** A batch of one waiting and one failed job. */
  batch(): Promise<string>
}

async function onWaiting(app: App, input: object): Promise<{ input: object; ids: string[] }> {
  const { id } = await app.submit('wait', {}, { delay: '1h' })
  return { input: { id, ...input }, ids: [id] }
}

interface Trial {
  /** Brings about what the operation is done to, and answers with its input (without who and why) and the ids of it. */
  on(scene: Scene): Promise<{ input: object; ids?: string[] }>
  /** As what it is in the trail, where that is not its own name. */
  as?: readonly string[]
  /** Why, where the operation does not ask for a reason. */
  reason?: string
  /** A reason may be given, but need not be. */
  asksNoReason?: true
}

const TRIALS: Partial<Record<OperationName, Trial>> = {
  'jobs.submit': { on: async () => ({ input: { type: 'wait' } }), reason: 'submitted by hand' },
  'jobs.retry': { on: async ({ failed }) => onJob(await failed()) },
  'jobs.cancel': { on: async ({ app }) => onJob((await app.submit('wait', {}, { delay: '1h' })).id) },
  'jobs.reschedule': { on: async ({ app }) => onWaiting(app, { delay: '2h' }) },
  'jobs.promote': { on: async ({ app }) => onWaiting(app, {}) },
  'jobs.reprioritise': { on: async ({ app }) => onWaiting(app, { priority: 7 }) },
  'jobs.replace-input': { on: async ({ app }) => onWaiting(app, { input: { n: 2 } }) },
  'jobs.delete': { on: async ({ failed }) => onJob(await failed()) },
  'jobs.mark-failed': { on: async ({ app }) => onJob((await app.submit('wait', {}, { delay: '1h' })).id) },
  'failures.resolve': { on: async ({ group }) => onGroup(await group()) },
  'failures.snooze': { on: async ({ group }) => onGroup(await group(), { for: '1h' }) },
  'failures.reopen': {
    on: async ({ app, group }) => {
      const fingerprint = await group()
      await app.perform('failures.resolve', { fingerprint, ...WHO })
      return onGroup(fingerprint)
    },
  },
  'dead-letters.replay': { on: async ({ letter }) => ({ input: { offset: await letter() } }) },
  'dead-letters.replay-matching': {
    on: onLetters,
    as: ['replays.start', 'replays.plan'],
  },
  'dead-letters.purge': {
    on: async ({ letter }) => {
      const offset = await letter()
      return { input: { offset }, ids: [String(offset)] }
    },
  },
  'replays.plan': { on: onLetters },
  'replays.start': { on: async ({ replay }) => onJob(await replay()) },
  'replays.pause': { on: async (scene) => onJob(await replayAfter(scene, 'start')) },
  'replays.resume': { on: async (scene) => onJob(await replayAfter(scene, 'start', 'pause')) },
  'replays.abort': { on: async ({ replay }) => onJob(await replay()) },
  'batches.cancel': {
    on: async ({ batch }) => onJob(await batch()),
    // The batch itself, and each job that was cancelled.
    as: ['jobs.cancel', 'batches.cancel'],
  },
  'batches.retry-failed': { on: async ({ batch }) => ({ input: { id: await batch() } }), as: ['jobs.retry'] },
  'notices.test': { on: async () => ({ input: { channel: 'desk' } }) },
  'queues.pause': { on: async () => onNamed('side') },
  'queues.resume': { on: (scene) => after(scene, 'queues.pause', onNamed('side')) },
  'breakers.open': { on: async () => onNamed('gateway') },
  'breakers.close': { on: async () => onNamed('gateway') },
  'breakers.release': { on: (scene) => after(scene, 'breakers.open', onNamed('gateway')) },
  'breakers.probe': { on: (scene) => brokenBreaker(scene) },
  'schedules.upsert': {
    on: async () => ({ ...onNamed('hourly'), input: { name: 'hourly', job: 'wait', every: '1h' } }),
  },
  'schedules.pause': { on: async () => onNamed('nightly') },
  'schedules.resume': { on: (scene) => after(scene, 'schedules.pause', onNamed('nightly')) },
  'schedules.trigger': { on: async () => onNamed('nightly') },
  'schedules.remove': {
    on: async ({ app, kit }) => {
      await app.store()
      // Only what no program declares any more can be removed.
      kit.clock.jump(5 * 60_000)
      return onNamed('nightly')
    },
  },
  'accounts.create': { on: async () => onNamed('bob'), asksNoReason: true },
  'accounts.disable': { on: (scene) => after(scene, 'accounts.create', onNamed('bob')) },
  'tokens.create': { on: async () => ({ input: { name: 'ci', role: 'viewer' } }), asksNoReason: true },
  'tokens.revoke': {
    on: async ({ app }) => onJob((await app.perform('tokens.create', { name: 'ci', role: 'viewer', ...WHO })).id ?? ''),
  },
  'sign-in-links.create': { on: async () => ({ input: {} }), asksNoReason: true },
}

async function onLetters({ letter }: Scene) {
  await letter()
  return { input: { type: 'letter' } }
}

const onJob = (id: string) => ({ input: { id }, ids: [id] })
const onNamed = (name: string) => ({ input: { name }, ids: [name] })
const onGroup = (fingerprint: string, more: object = {}) => ({ input: { fingerprint, ...more }, ids: [fingerprint] })

async function after<Prepared extends { input: object }>({ app }: Scene, name: OperationName, prepared: Prepared) {
  await app.perform(name, { ...prepared.input, ...WHO } as never)
  return prepared
}

async function replayAfter({ app, replay }: Scene, ...acts: ('start' | 'pause')[]): Promise<string> {
  const id = await replay()
  for (const act of acts) await app.perform(`replays.${act}`, { id, ...WHO })
  return id
}

/** Opened by failures, not by a person: only then is there something to probe. */
async function brokenBreaker({ app, kit }: Scene) {
  for (let i = 0; i < 2; i++) await app.submit('guarded', {})
  await kit.tick()
  return onNamed('gateway')
}

async function makeScene(): Promise<Scene> {
  const kit = testKit()
  const { app } = kit
  const codes = failureCodes({ DOWN: { fault: 'dependency', retry: 'never', message: 'It is down.' } })
  const fail = (_: unknown, attempt: { fail(code: 'DOWN'): never }) => attempt.fail('DOWN')
  app.job('wait', { queue: 'side', run: () => undefined })
  app.job('fail', { codes, policy: { manualRetry: 'in-place' }, run: fail })
  app.job('letter', { codes, policy: { deadLetter: 'queue' }, run: fail })
  app.job('guarded', {
    codes,
    policy: { breaker: { guards: 'gateway', minCalls: 2, windowCalls: 2 } },
    run: fail,
  })
  app.schedule('nightly', { cron: '0 3 * * *', job: 'wait' })
  app.channel('desk', { kind: 'desk', deliver: () => ({ to: ['desk'], answer: 'heard' }) })
  await app.store()
  const ended = async (type: string, options?: { batch: string }) => {
    const { id } = await app.submit(type, {}, options)
    await kit.tick()
    return id
  }
  const letter = async () => {
    await ended('letter')
    return (await app.perform('dead-letters.list', {})).deadLetters.at(-1)?.offset ?? 0
  }
  return {
    kit,
    app,
    letter,
    failed: () => ended('fail'),
    async replay() {
      await letter()
      const { replay } = await app.perform('replays.plan', { type: 'letter', ...WHO })
      return replay?.id ?? ''
    },
    async group() {
      await ended('fail')
      return (await app.perform('failures.list', {})).groups[0]?.fingerprint ?? ''
    },
    async batch() {
      const { id } = await app.batches.create('day')
      await ended('fail', { batch: id })
      await app.submit('wait', {}, { batch: id, delay: '1h' })
      return id
    },
  }
}

const names = Object.keys(CATALOG) as OperationName[]
const fieldsOf = (name: OperationName): string[] => Object.keys(OPERATIONS[name].input.shape)
const mutating = names.filter((name) => CATALOG[name].mutates)

const trailOf = async (app: App) => (await app.perform('audit.list', { limit: 1_000 })).entries

test('every mutating operation has the field actor', () => {
  expect(mutating.filter((name) => !fieldsOf(name).includes('actor'))).toEqual([])
})

test('this file tests every mutating operation, and no other', () => {
  const untried = mutating.filter((name) => TRIALS[name] === undefined)
  expect(untried, 'these operations change something; say in TRIALS how to try them').toEqual([])
  expect(Object.keys(TRIALS).filter((name) => !mutating.includes(name as OperationName))).toEqual([])
})

describe.each(mutating.filter((name) => TRIALS[name] !== undefined))('%s', (name) => {
  const { on, as = [name], reason = WHO.reason, asksNoReason = false } = TRIALS[name] as Trial
  const by = fieldsOf(name).includes('reason') ? WHO : { actor: WHO.actor }

  test('records actor, operation, reason and ids', async () => {
    const scene = await makeScene()
    const { input, ids = [] } = await on(scene)
    const before = await trailOf(scene.app)
    await scene.app.perform(name, { ...input, ...by } as never)
    const trail = await trailOf(scene.app)
    const left = trail.slice(0, trail.length - before.length)
    expect(
      left.map(({ act }) => act),
      `${name} changed something and left no entry, or another one, in the audit trail`,
    ).toEqual(as)
    for (const entry of left) {
      expect(entry).toMatchObject({ actor: WHO.actor, reason, target: expect.stringMatching(/^[a-z-]+$/) })
      expect(
        entry.ids.filter((id) => id !== ''),
        `${name} does not say what it was done to`,
      ).not.toEqual([])
      expect(entry.at).toBe(new Date(scene.kit.clock.nowMs()).toISOString())
    }
    expect(left.flatMap((entry) => entry.ids)).toEqual(expect.arrayContaining(ids))
    await scene.kit.stop()
  })

  test('a dry run records nothing', async () => {
    const scene = await makeScene()
    const { input } = await on(scene)
    const before = await trailOf(scene.app)
    await scene.app.perform(name, { ...input, ...by, dryRun: true } as never)
    expect(await trailOf(scene.app)).toEqual(before)
    await scene.kit.stop()
  })

  test('without an actor or a reason it is refused and records nothing', async () => {
    const scene = await makeScene()
    const { input } = await on(scene)
    const before = await trailOf(scene.app)
    const nameless = [{ reason: 'why not' }, {}]
    const lacking = fieldsOf(name).includes('reason') ? [...nameless, ...(asksNoReason ? [] : [{ actor: 'ann' }])] : []
    for (const partly of lacking) {
      expect(await refusal(scene.app.perform(name, { ...input, ...partly } as never))).toMatchObject({
        code: 'REASON_REQUIRED',
      })
    }
    expect(await trailOf(scene.app)).toEqual(before)
    await scene.kit.stop()
  })
})

test('submissions by programs and duplicates are not in the audit trail', async () => {
  const { app, kit } = await makeScene()
  await app.submit('wait', {})
  await app.perform('jobs.submit', { type: 'wait' })
  await app.perform('jobs.submit', { type: 'wait', actor: ' ' })
  expect(await trailOf(app)).toEqual([])
  await app.perform('jobs.submit', { type: 'wait', dedupe: 'one', actor: 'ann' })
  await app.perform('jobs.submit', { type: 'wait', dedupe: 'one', actor: 'bob' })
  expect((await trailOf(app)).map(({ actor }) => actor)).toEqual(['ann'])
  await kit.stop()
})

test('a retry as a new job names both jobs', async () => {
  const { app, kit, letter } = await makeScene()
  await letter()
  const [failed] = (await app.jobs.list({ status: 'failed' })).jobs
  const { job } = await app.jobs.retry(failed?.id ?? '', WHO)
  expect(await trailOf(app)).toMatchObject([{ act: 'jobs.retry', ids: [failed?.id, job.id] }])
  await kit.stop()
})

test('the audit trail is filtered by actor, operation, target and time, and paged', async () => {
  const { app, kit, failed } = await makeScene()
  const id = await failed()
  await app.jobs.retry(id, WHO)
  await kit.clock.advance(60 * 60_000)
  await app.perform('queues.pause', { name: 'side', actor: 'bob', reason: 'too much' })
  const acts = async (filter: Parameters<typeof app.perform<'audit.list'>>[1]) =>
    (await app.perform('audit.list', filter)).entries.map(({ act }) => act)
  expect(await acts({})).toEqual(['queues.pause', 'jobs.retry'])
  expect(await acts({ by: 'ann' })).toEqual(['jobs.retry'])
  expect(await acts({ act: 'queues' })).toEqual(['queues.pause'])
  expect(await acts({ target: 'job' })).toEqual(['jobs.retry'])
  expect(await acts({ id })).toEqual(['jobs.retry'])
  expect(await acts({ since: '30m' })).toEqual(['queues.pause'])
  expect(await acts({ until: '30m' })).toEqual(['jobs.retry'])
  const first = await app.perform('audit.list', { limit: 1 })
  expect(await acts({ limit: 1, cursor: first.nextCursor ?? '' })).toEqual(['jobs.retry'])
  await kit.stop()
})
