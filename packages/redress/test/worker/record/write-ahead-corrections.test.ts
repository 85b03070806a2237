import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import { Faulty, type Form, only, openRuns } from '../../../../../test/support/stores/faulty-store.ts'
import { turns, until } from '../../../../../test/support/until.ts'
import type { App } from '../../../src/app/app.ts'
import { newJob } from '../../../src/app/jobs/submission.ts'
import { RedressError } from '../../../src/core/errors.ts'
import { type PolicyInput, policy } from '../../../src/core/policy/policy.ts'
import type { Intervention, Lease, Store } from '../../../src/store/contract/store.ts'
import { withWriteAhead } from '../../../src/store/decorators/write-ahead.ts'

/** The log is written before the store is asked; a line that turns out untrue is corrected by another one. */

let scene: Scene
let folder: string
let path: string
beforeEach(() => {
  scene = new Scene()
  apps = []
  folder = mkdtempSync(join(tmpdir(), 'redress-'))
  path = join(folder, 'failures.jsonl')
})
afterEach(async () => {
  await scene.end()
  for (const app of apps) await (await app.store()).stop()
  rmSync(folder, { recursive: true })
})

const POLICY: PolicyInput = { audit: 'write-ahead', orphan: 'requeue', manualRetry: 'in-place', deadLetter: 'flag' }

interface Line {
  job_id?: string
  event?: string
  of?: string
  to?: string
  from?: string
  reason?: string
  attempt?: number
}

const lines = (): Line[] =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
/** In words: 'complete', 'refused complete', 'started'. */
const words = (): string[] =>
  lines().map(({ event, of, to }) => (of === undefined ? (event ?? to ?? '') : `${event} ${of}`))

let apps: App[]
const logged = (store: Store = scene.store): App => {
  const app = scene.newApp({ store, failureLog: path })
  apps.push(app)
  return app
}
/** Writing a line to a disk takes real time, during which the virtual clock stands still. */
const said = (word: string) =>
  until(`the log says "${word}"`, async () => {
    await pass(500)
    return words().includes(word)
  })
const pass = (ms: number) => scene.clock.advance(ms, () => turns(3))

/** One job that runs, with the given form of fault from then on. */
async function running(form: Form, ...methods: ('close' | 'start')[]) {
  const faulty = new Faulty(scene)
  const app = logged(faulty.store)
  const runs = openRuns(scene.clock, app, 'encode', 30_000, POLICY)
  const { id } = await app.submit('encode', {})
  const worker = await scene.worker({}, app)
  await worker.tick()
  await until('it runs', () => runs.length === 1)
  faulty.set(form, ...methods)
  return { faulty, app, runs, id, worker }
}

describe('an outcome that was logged', () => {
  test('and comes after the job was taken away is followed by a line that says so', async () => {
    const { app, runs, id, worker } = await running('well')
    await app.jobs.markFailed(id, { actor: 'ann', reason: 'wrong machine' })
    only(runs).end('too late')
    await worker.tick()
    await said('refused complete')
    expect(words().slice(-3)).toEqual(['mark-failed', 'complete', 'refused complete'])
    expect(lines().at(-1)).toMatchObject({ job_id: id, attempt: 1, reason: 'lost', ts: expect.any(String) })
    expect(lines().at(-1)).not.toHaveProperty('to')
  })

  test('and is refused is said to be of unknown outcome, and logged again when it is sent again', async () => {
    const { faulty, runs, id } = await running('refused', 'close')
    only(runs).end('done')
    await pass(100)
    await said('unknown complete')
    expect(words().indexOf('unknown complete')).toBe(words().indexOf('complete') + 1)
    faulty.set('well', 'close')
    await until('it is complete', async () => {
      await pass(1_000)
      return (await scene.status(id)) === 'complete'
    })
    expect(words().at(-1)).toBe('complete')
  })

  test('and was recorded although the answer was lost is not said to be refused by the second try', async () => {
    const { faulty, runs, id, worker } = await running('unknown', 'close')
    only(runs).end('done')
    await pass(100)
    await said('unknown complete')
    faulty.set('well', 'close')
    await until('the second try is answered', async () => {
      await pass(1_000)
      return worker.held === 0
    })
    expect(await scene.status(id)).toBe('complete')
    expect(words().at(-1)).toBe('complete')
    expect(words()).not.toContain('refused complete')
  })

  test('and is not answered for five seconds is said to be of unknown outcome', async () => {
    const { runs } = await running('silent', 'close')
    only(runs).end('done')
    await pass(100)
    await said('unknown complete')
    expect(words().indexOf('unknown complete')).toBe(words().indexOf('complete') + 1)
  })

  test('and is answered late is said to be done after all', async () => {
    const { faulty, runs, id } = await running('late', 'close')
    faulty.lateMs = 12_000
    only(runs).end('done')
    await pass(100)
    await said('unknown complete')
    await said('done complete')
    expect(await scene.status(id)).toBe('complete')
    expect(words()).not.toContain('refused complete')
  })
})

test('a start that comes after the job was taken away is corrected', async () => {
  const { app, id } = await running('well')
  const store = await app.store()
  const lease = await scene.job(id)
  await app.jobs.markFailed(id, { actor: 'ann', reason: 'wrong machine' })
  const worker = await scene.store.enlist({ id: 'late', host: 'there', pid: 1, types: [] })
  const attempts = [{ key: lease.key, attempt: 1, agoMs: 0 }]
  expect((await store.start({ worker, attempts })).lost).toEqual([lease.key])
  expect(words().slice(-2)).toEqual(['started', 'refused started'])
})

describe('what a person does', () => {
  const act = (id: string, status: 'queued' | 'failed', kind: Intervention['act']): Intervention => ({
    ...{ id, actor: 'ann', reason: 'again', act: kind },
    expect: { status, attempt: 0 },
  })

  test.each([
    ['retry-in-place', { kind: 'retry-in-place', spent: null }],
    ['cancel', { kind: 'cancel' }],
  ] as const)('%s that comes too late is corrected', async (word, kind) => {
    const app = logged()
    app.job('encode', { policy: POLICY, run: () => 'done' })
    const { id } = await app.submit('encode', {})
    await (await scene.worker({}, app)).tick()
    await until('it is complete', async () => (await scene.status(id)) === 'complete')
    const store = await app.store()
    expect(await store.intervene(act(id, word === 'cancel' ? 'queued' : 'failed', kind as Intervention['act']))).toBe(
      'moved-on',
    )
    expect(words().slice(-2)).toEqual([word, `refused ${word}`])
    expect(lines().at(-1)).toMatchObject({ job_id: id, reason: 'moved-on' })
  })
})

describe('a submission', () => {
  test('that another job with its dedupe key stands in for is corrected, and names that job', async () => {
    const app = logged()
    app.job('encode', { policy: POLICY, run: () => 'done' })
    const first = await app.submit('encode', {}, { dedupe: 'a' })
    expect((await app.submit('encode', {}, { dedupe: 'a' })).id).toBe(first.id)
    expect(words()).toEqual(['queued', 'queued', 'refused queued'])
    expect(lines()[2]).toMatchObject({ job_id: lines()[1]?.job_id, reason: `already there as ${first.id}` })
  })

  test('with the id of a job that is there is true', async () => {
    const app = logged()
    app.job('encode', { policy: POLICY, run: () => 'done' })
    const id = app.newId()
    await app.submit('encode', {}, { id })
    await app.submit('encode', {}, { id })
    expect(words()).toEqual(['queued', 'queued'])
  })

  test.each([
    ['refused queued', () => new RedressError('BATCH_CLOSED', 'The batch is sealed.')],
    ['unknown queued', () => new Error('connection lost')],
  ])('that the store throws at is followed by "%s"', async (word, error) => {
    const app = logged({ ...scene.store, submit: () => Promise.reject(error()) })
    app.job('encode', { policy: POLICY, run: () => 'done' })
    await expect(app.submit('encode', {})).rejects.toThrow()
    expect(words()).toEqual(['queued', word])
  })
})

test('a job that is taken back after its worker renewed it is said to stay where it is', async () => {
  const { app, id, worker } = await running('well')
  const store = await app.store()
  scene.clock.block(40_000)
  const [stalled] = await store.stalled({ unstartedForMs: 1e9, limit: 10 })
  expect(stalled?.id).toBe(id)
  await worker.tick()
  const { key, attempt } = stalled as NonNullable<typeof stalled>
  const change = { to: 'queued', cause: 'reclaimed', delayMs: 0, spent: null, failure: null, note: null } as const
  expect(await store.reclaim({ reclaims: [{ key, attempt, expect: 'expired', change }] })).toEqual(['lost'])
  expect(words().slice(-2)).toEqual(['queued', 'refused queued'])
})

test('the end of an attempt is logged first, also when a late answer to the attempt before came in between', async () => {
  const gate = Promise.withResolvers<void>()
  const late: Store = {
    ...scene.store,
    close: async (params) => {
      const isFirst = params.closes.some(({ attempt }) => attempt === 1)
      if (isFirst) await gate.promise
      return scene.store.close(params)
    },
  }
  const written: Line[] = []
  const log = {
    append: async (entries: readonly object[]) => void written.push(...entries),
    close: async () => undefined,
  }
  const store = withWriteAhead(late, log)
  await store.register({ types: [{ name: 'encode', queue: 'default', policy: policy(POLICY) }] })
  await store.submit({ jobs: [newJob('encode', '{}', {}, () => 'one')] })
  const worker = await store.enlist({ id: 'w', host: 'h', pid: 1, types: ['encode'] })
  const claim = async () => {
    const { leases } = await store.claim({ worker, lanes: [{ type: 'encode', ttlMs: 1_000 }], max: 1 })
    return leases[0] as Lease
  }
  const end = ({ key, attempt }: { key: number; attempt: number }) =>
    store.close({ worker, closes: [{ key, attempt, change: { to: 'complete', result: null }, ranMs: 1 }] })
  const first = await claim()
  const ending = end(first)
  await pass(5_000)
  const { key, attempt } = first
  expect(await scene.store.stalled({ unstartedForMs: 0, limit: 1 })).toMatchObject([{ key, attempt }])
  const change = { to: 'queued', cause: 'reclaimed', delayMs: 0, spent: null, failure: null, note: null } as const
  expect(await scene.store.reclaim({ reclaims: [{ key, attempt, expect: 'expired-unstarted', change }] })).toEqual([
    'closed',
  ])
  const second = await claim()
  gate.resolve()
  expect(await ending).toEqual(['lost'])
  expect(await end(second)).toEqual(['closed'])
  expect(written.filter(({ to }) => to === 'complete').map((line) => line.attempt)).toEqual([1, 2])
})

test('a correction that cannot be written is logged, and written before the next line', async () => {
  const entries: Line[] = []
  const broken: unknown[] = []
  let isFull = false
  const log = {
    async append(added: readonly object[]) {
      if (isFull) throw new Error('no space')
      entries.push(...(added as Line[]))
    },
    close: async () => undefined,
  }
  let answers = 0
  const store = withWriteAhead(
    {
      ...scene.store,
      async submit(params) {
        isFull = answers++ === 0
        if (isFull) throw new RedressError('BATCH_CLOSED', 'The batch is sealed.')
        return scene.store.submit(params)
      },
    },
    log,
    (error) => broken.push(error),
  )
  const types = [{ name: 'encode', queue: 'default', policy: policy(POLICY) }]
  await store.register({ types })
  const [first, second] = [scene.app.newId(), scene.app.newId()]
  const job = (id: string) => newJob('encode', '{}', { id }, () => id)
  await expect(store.submit({ jobs: [job(first)] })).rejects.toMatchObject({ code: 'BATCH_CLOSED' })
  expect(broken).toHaveLength(1)
  isFull = false
  await store.submit({ jobs: [job(second)] })
  expect(entries.map(({ job_id, event, to }) => [job_id, event ?? to])).toEqual([
    [first, 'queued'],
    [first, 'refused'],
    [second, 'queued'],
  ])
})
