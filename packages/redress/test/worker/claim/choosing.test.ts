import { expect, test } from 'vitest'
import { Scene } from '../../../../../test/support/scene.ts'
import type { App } from '../../../src/app/app.ts'
import { failureCodes, jobType, redress } from '../../../src/index.ts'
import type { Handler } from '../../../src/worker/attempt/call-handler.ts'

const WHO = { actor: 'ann', reason: 'test' }

/** Types in three queues; `ran` has the type of each attempt, in order. */
function declare(app: App): string[] {
  const ran: string[] = []
  const run = (_: unknown, attempt: { type: string }) => {
    ran.push(attempt.type)
  }
  app.job('mail.send', { queue: 'mail', run })
  app.job('mail.sort', { queue: 'mail', run })
  app.job('pdf.convert', { queue: 'pdf', run })
  app.job('plain', { run })
  return ran
}

const submitAll = async (app: App) => {
  for (const type of ['mail.send', 'mail.sort', 'pdf.convert', 'plain']) await app.submit(type, {})
}

test.each([
  ['no choice', {}, ['mail.send', 'mail.sort', 'pdf.convert', 'plain']],
  ['a queue', { queues: ['mail'] }, ['mail.send', 'mail.sort']],
  ['two queues', { queues: ['mail', 'default'] }, ['mail.send', 'mail.sort', 'plain']],
  ['types', { types: ['plain', 'mail.sort'] }, ['mail.sort', 'plain']],
  ['a queue and types', { queues: ['mail'], types: ['mail.sort', 'plain'] }, ['mail.sort']],
])('a worker with %s runs and lists exactly these types', async (_, choice, types) => {
  const scene = new Scene()
  const ran = declare(scene.app)
  await submitAll(scene.app)
  const worker = await scene.worker(choice)
  await scene.pass(1_000)
  expect(ran.toSorted()).toEqual(types)
  expect(worker.types).toEqual(types)
  expect(await scene.store.workers()).toMatchObject([{ types }])
  const queued = await scene.store.jobs({ status: 'queued', limit: 10 })
  expect(queued.map(({ attempt }) => attempt)).toEqual(Array(4 - types.length).fill(0))
})

test('types can be given as job types, of app.job() and of jobType()', async () => {
  const scene = new Scene()
  const contract = jobType('shared', {})
  const own = scene.app.job('own', { run: () => 1 })
  scene.app.job(contract, { run: () => 1 })
  scene.app.job('other', { run: () => 1 })
  expect((await scene.worker({ types: [own, contract] })).types).toEqual(['own', 'shared'])
})

test.each<[string, object, string, string | null]>([
  ['a misspelt queue', { queues: ['mial'] }, 'queues names "mial"', 'Did you mean "mail"?'],
  ['a misspelt type', { types: ['mail.sned'] }, 'types names "mail.sned"', 'Did you mean "mail.send"?'],
  ['a misspelt type in perType', { perType: { plian: 1 } }, 'perType names "plian"', 'Did you mean "plain"?'],
  ['an inherited name', { perType: { toString: 1 } }, 'perType names "toString"', null],
  ['an unlike name', { queues: ['zzzzzz'] }, 'queues names "zzzzzz"', 'Use one of: mail, pdf, default.'],
  ['an empty list', { types: [] }, 'types must be a list of at least one name; got [].', null],
  ['a text for a list', { queues: 'mail' }, 'queues must be a list of at least one name; got "mail".', null],
  ['a number as a type', { types: [7] }, 'names of job types, or job types; got a number', null],
  ['null as a type', { types: [null] }, 'names of job types, or job types; got null', null],
  ['an object as a queue', { queues: [{ name: 'mail' }] }, 'names of queues; got a object', null],
  ['zero slots', { perType: { plain: 0 } }, 'perType["plain"] must be a whole number from 1; got 0.', null],
  ['half a slot', { perType: { plain: 1.5 } }, 'perType["plain"] must be a whole number from 1; got 1.5.', null],
  ['a list for perType', { perType: ['plain'] }, 'perType must be an object', null],
  ['types outside of the queues', { queues: ['mail'], types: ['plain'] }, 'would run no job', null],
  ['perType of a type that is not chosen', { queues: ['mail'], perType: { plain: 1 } }, 'does not run', null],
  ['a misspelt option', { queue: ['mail'] }, 'has no option "queue"', 'Did you mean "queues"?'],
])('work() refuses %s', async (_, choice, message, action) => {
  const scene = new Scene()
  declare(scene.app)
  const error = await scene.app.work(choice).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'OPTION_INVALID', message: expect.stringContaining(message) })
  if (action !== null) expect(error).toMatchObject({ action })
  expect(await scene.store.workers(), 'and starts no worker').toEqual([])
})

test('a type that is declared after work() runs, and is listed, where it passes the choice', async () => {
  const scene = new Scene()
  const ran = declare(scene.app)
  const all = await scene.worker({ id: 'all' })
  const mail = await scene.worker({ id: 'mail', queues: ['mail'] })
  const named = await scene.worker({ id: 'named', types: ['plain'] })
  await scene.pass(100)
  const late = scene.app.job('mail.late', { queue: 'mail', run: () => void ran.push('mail.late') })
  await late.submit({})
  await scene.pass(100)
  expect(ran).toEqual(['mail.late'])
  expect([all, mail, named].map(({ types }) => types.includes('mail.late'))).toEqual([true, true, false])
  const listed = (await scene.store.workers()).map(({ id, types }) => [id, types.includes('mail.late')])
  expect(listed).toEqual([
    ['all', true],
    ['mail', true],
    ['named', false],
  ])
})

test('a type that only submits is picked up by running workers when it is implemented', async () => {
  const scene = new Scene()
  const contract = jobType('late', {})
  const producer = scene.app.job(contract)
  await scene.worker({ types: [contract] })
  const { id } = await producer.submit({})
  await scene.pass(1_000)
  expect(await scene.status(id)).toBe('queued')
  scene.app.job(contract, { run: () => 1 })
  await scene.app.store()
  await scene.pass(1_000)
  expect(await scene.status(id)).toBe('complete')
})

test.each([
  ['a type that has no handler', { types: ['shared', 'plain'] }, ['shared']],
  ['a queue without a handler', { queues: ['sharing'] }, ['shared']],
  ['types that all have a handler', { types: ['plain'] }, null],
  ['types of which one is in another queue', { types: ['plain', 'mail.sort'], queues: ['mail'] }, null],
  ['everything', {}, null],
])('a worker that chooses %s warns if it cannot run one of them', async (_, choice, types) => {
  const warnings: object[] = []
  const warn = (fields: object) => warnings.push(fields)
  const log = { debug: () => null, info: () => null, warn, error: () => null }
  const app = redress({ store: 'sqlite::memory:', log })
  declare(app)
  app.job(jobType('shared', { queue: 'sharing' }))
  await app.makeWorker(choice)
  expect(warnings).toEqual(types === null ? [] : [{ types }])
  await app.stop()
})

test('a type with a breaker and a short lease, declared later, is guarded and renewed as if it had been there', async () => {
  const scene = new Scene()
  scene.app.job('first', { run: () => 1 })
  await scene.worker({ concurrency: 1 })
  await scene.pass(100)
  let calls = 0
  scene.app.job('guarded', {
    codes: failureCodes({ DOWN: { fault: 'dependency', retry: 'transient', message: 'The service is down.' } }),
    policy: {
      retry: { max: 1 },
      lease: { ttl: '3s' },
      breaker: { guards: 'svc', minCalls: 2, windowCalls: 4 },
    },
    run: (_, attempt) => {
      calls++
      attempt.fail('DOWN')
    },
  })
  await scene.app.submitMany('guarded', [{}, {}, {}, {}])
  await scene.app.store()
  for (let i = 0; i < 5; i++) await scene.pass(300)
  expect(calls, 'the breaker is open after two failed calls').toBe(2)
})

test('a channel that is declared after work() delivers', async () => {
  const scene = new Scene()
  const worker = await scene.worker({})
  await scene.pass(100)
  const told: string[] = []
  scene.app.channel('ops', {
    kind: 'test',
    deliver: () => {
      told.push('ops')
      return { to: ['ops'], answer: 'ok' }
    },
  })
  await scene.app.notify('hello', { channels: ['ops'], subject: 'x' })
  await worker.runDuties()
  await scene.pass(200)
  expect(told).toEqual(['ops'])
})

test('a worker that chooses still delivers notices, takes ticks of schedules and reclaims jobs of other types', async () => {
  const scene = new Scene()
  const ran = declare(scene.app)
  const told: string[] = []
  scene.app.channel('ops', {
    kind: 'test',
    deliver: () => {
      told.push('ops')
      return { to: ['ops'], answer: 'ok' }
    },
  })
  scene.app.schedule('hourly', { cron: '0 * * * *', job: 'plain', input: {} })
  const { id } = await scene.app.submit('pdf.convert', {})
  const dying = await scene.app.makeWorker({
    types: ['pdf.convert'],
    probe: (step) => (step === 'run' ? 'crash' : undefined),
  })
  await dying.tick()
  const mail = await scene.worker({ queues: ['mail'] })
  await scene.app.notify('hello', { channels: ['ops'], subject: 'x' })
  await scene.pass(3_600_000)
  await mail.maintain()
  await mail.runDuties()
  await scene.pass(1_000)
  expect(told).toEqual(['ops'])
  expect(await scene.job(id)).toMatchObject({ orphanedAtMs: expect.any(Number) })
  expect((await scene.store.jobs({ status: 'queued', limit: 9 })).map(({ type }) => type)).toContain('plain')
  expect(ran, 'but runs only its own types').toEqual([])
})

test('the files of a deleted job are removed by the workers that run its type', async () => {
  const scene = new Scene()
  const removed: string[] = []
  const removeFiles = ({ id }: { id: string }) => void removed.push(id)
  scene.app.job('pdf.convert', { queue: 'pdf', run: () => 1, removeFiles })
  scene.app.job('plain', { run: () => 1 })
  const { id } = await scene.app.submit('pdf.convert', {})
  const plain = await scene.worker({ types: ['plain'] })
  expect(plain.types).toEqual(['plain'])
  const pdf = await scene.worker({ queues: ['pdf'] })
  expect(pdf.types).toEqual(['pdf.convert', 'redress.files.pdf.convert'])
  await scene.pass(100)
  await scene.app.jobs.delete(id, WHO)
  await scene.pass(10_000)
  expect(removed).toEqual([id])
  const files = await scene.worker({ queues: ['redress.files'] })
  expect(files.types, 'and by workers that name their queue').toEqual(['redress.files.pdf.convert'])
})

/** Jobs that run until they are let go; `running` counts them by type. */
function holding(app: App, types: readonly string[], more: object = {}) {
  const running = new Map<string, number>()
  const most = new Map<string, number>()
  let letGo: (() => void)[] = []
  for (const type of types) {
    app.job(type, {
      ...more,
      run: async () => {
        running.set(type, (running.get(type) ?? 0) + 1)
        most.set(type, Math.max(most.get(type) ?? 0, running.get(type) ?? 0))
        await new Promise<void>((resolve) => letGo.push(resolve))
        running.set(type, (running.get(type) ?? 0) - 1)
      },
    })
  }
  const endAll = () => {
    for (const end of letGo.splice(0)) end()
    letGo = []
  }
  return { running, most, endAll }
}

test('perType limits the slots of a type in one worker, and leaves the others to other types', async () => {
  const scene = new Scene()
  const { running, most, endAll } = holding(scene.app, ['heavy', 'light'])
  await scene.app.submitMany('heavy', Array(7).fill({}), { priority: 5 })
  await scene.app.submitMany('light', Array(20).fill({}))
  await scene.worker({ concurrency: 6, perType: { heavy: 2 } })
  await scene.pass(100)
  expect([running.get('heavy'), running.get('light')]).toEqual([2, 4])
  for (let i = 0; i < 12; i++) {
    endAll()
    await scene.pass(200)
  }
  expect(await scene.store.counts()).toMatchObject([{ complete: 7 }, { complete: 20 }])
  expect(most.get('heavy')).toBe(2)
})

test('perType counts each worker alone, and the smaller of perType and slotsMax holds', async () => {
  const scene = new Scene()
  const { running } = holding(scene.app, ['heavy'])
  const tight = holding(scene.app, ['tight'], { slotsMax: () => 1 })
  await scene.app.submitMany('heavy', Array(9).fill({}))
  await scene.app.submitMany('tight', Array(9).fill({}))
  await scene.worker({ perType: { heavy: 3, tight: 5 } })
  await scene.worker({ perType: { heavy: 1 } })
  await scene.pass(100)
  expect(running.get('heavy')).toBe(4)
  expect(tight.running.get('tight')).toBe(2)
})

test('perType holds for a type that is implemented later', async () => {
  const scene = new Scene()
  const contract = jobType('heavy', {})
  scene.app.job(contract)
  await scene.worker({ perType: { heavy: 1 } })
  let running = 0
  scene.app.job(contract, { run: () => new Promise(() => running++) })
  await scene.app.submitMany('heavy', [{}, {}, {}])
  await scene.pass(100)
  expect(running).toBe(1)
})

test('a worker that chooses nothing uses the handlers as they are declared, in one claim', async () => {
  const scene = new Scene()
  declare(scene.app)
  const { store } = scene
  const claims: string[][] = []
  const app = scene.newApp({
    store: {
      ...store,
      claim: (params) => {
        claims.push(params.lanes.map(({ type }) => type))
        return store.claim(params)
      },
    },
  })
  declare(app)
  await scene.worker({}, app)
  await scene.pass(100)
  expect(new Set(claims.map(String))).toEqual(new Set(['mail.send,mail.sort,pdf.convert,plain']))
  expect(claims.length).toBe(1)
})

test('a list of workers that cannot be written is written later, and the jobs run meanwhile', async () => {
  const scene = new Scene()
  const { store } = scene
  let refusals = 2
  const app = scene.newApp({
    store: { ...store, serve: (params) => (refusals-- > 0 ? Promise.reject(new Error('busy')) : store.serve(params)) },
  })
  app.job('first', { run: () => 1 })
  await scene.worker({}, app)
  await scene.pass(100)
  const { id } = await app.job('late', { run: () => 1 }).submit({})
  await scene.pass(100)
  expect(await scene.status(id)).toBe('complete')
  for (let i = 0; i < 5; i++) await scene.pass(1_000)
  expect(await store.workers()).toMatchObject([{ types: ['first', 'late'] }])
})

test('a type that the store refuses at first is picked up when the store takes it', async () => {
  const scene = new Scene()
  const { store } = scene
  let refusals = 0
  const app = scene.newApp({
    store: {
      ...store,
      register: (params) => (refusals-- > 0 ? Promise.reject(new Error('store down')) : store.register(params)),
    },
  })
  app.job('first', { run: () => 1 })
  await scene.worker({}, app)
  await scene.pass(100)
  refusals = 2
  const ran: Handler['type'][] = []
  app.job('late', { run: (_, { type }) => void ran.push(type) })
  for (let i = 0; i < 4; i++) await scene.pass(1_000)
  expect(scene.log.lines.filter(({ level }) => level === 'error')[0]?.message).toContain('could not be registered')
  await scene.app.submit('late', {})
  await scene.pass(100)
  expect(ran).toEqual(['late'])
})
