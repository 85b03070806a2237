import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { artifactStore } from '../../src/artifacts/index.ts'
import { startServer } from '../../src/http/index.ts'
import {
  type Attempt,
  exponential,
  failureCodes,
  jobType,
  outcomeLog,
  redress,
  renderExplanation,
  table,
} from '../../src/index.ts'
import { email, renderNotice, webhook } from '../../src/notify/index.ts'
import { outboundAgent, outboundGuard, outboundRequest } from '../../src/outbound/index.ts'
import { runProgram } from '../../src/programs/index.ts'
import { silentLog } from '../../src/runtime/log.ts'
import { sseStream } from '../../src/sse/index.ts'
import { openPostgresRows } from '../../src/store/index.ts'
import { TestKit, testKit } from '../../src/testing/index.ts'

const kit = testKit()
const { app } = kit
const send = app.job('mail.send', { run: () => null })
const folder = mkdtempSync(join(tmpdir(), 'redress-options-'))
const files = await artifactStore({ url: `file:${folder}` })
afterAll(() => kit.stop())

const guard = outboundGuard()
// biome-ignore lint/suspicious/noExplicitAny: a program in JavaScript has no compiler that finds the misspelt name
const any = (options: unknown): any => options
const smtp = { host: 'localhost' }

/** Each public call, one misspelt option, and the option that was meant. */
const CALLS: [call: string, run: () => unknown, meant: string][] = [
  ['redress()', () => redress(any({ stroe: 'x' })), 'store'],
  ['app.job()', () => app.job('a.b', any({ run: () => null, polcy: {} })), 'policy'],
  ['app.work()', () => app.work(any({ concurency: 3 })), 'concurrency'],
  ['app.makeWorker()', () => app.makeWorker(any({ polMs: 3 })), 'pollMs'],
  ['app.startMaintenance()', () => app.startMaintenance(any({ logg: silentLog })), 'log'],
  ['app.stop()', () => app.stop(any({ gracMs: 1 })), 'graceMs'],
  ['submit()', () => send.submit({}, any({ delya: '1h' })), 'delay'],
  ['app.submit()', () => app.submit('mail.send', {}, any({ prioity: 1 })), 'priority'],
  ['dedupe', () => send.submit({}, { dedupe: any({ key: 'a', scop: 'live' }) }), 'scope'],
  ['submitMany()', () => send.submitMany([{}], any({ delya: '1h' })), 'delay'],
  ['submitMany() of nothing', () => send.submitMany([], any({ delya: '1h' })), 'delay'],
  ['prepare()', () => send.prepare({}, any({ bacth: 'x' })), 'batch'],
  ['batches.create()', () => app.batches.create('b', any({ ownr: 'x' })), 'owner'],
  ['onSettled', () => app.batches.create('b', { onSettled: any({ job: 'mail.send', inptu: {} }) }), 'input'],
  ['a job of a batch', () => app.batches.create('b', { jobs: [send.request({}, any({ delya: 1 }))] }), 'delay'],
  [
    'a request of a batch',
    () => app.batches.create('b', { jobs: [any({ ...send.request({}), optoins: {} })] }),
    'options',
  ],
  ['submitAndWait()', () => send.submitAndWait({}, any({ tiemout: '1s' })), 'timeout'],
  ['result()', () => send.result('a', any({ tiemout: '1s' })), 'timeout'],
  ['list() of a type', () => send.list(any({ stauts: 'failed' })), 'status'],
  ['app.on()', () => app.on('job.failed', () => null, any({ topcis: ['*'] })), 'topics'],
  ['jobType()', () => jobType('a.c', any({ inptu: {} })), 'input'],
  ['app.jobs.list()', () => app.jobs.list(any({ stauts: 'failed' })), 'status'],
  ['app.perform()', () => app.perform('jobs.submit', any({ type: 'mail.send', throtle: {} })), 'throttle'],
  ['app.perform(): name', () => app.perform(any('jobs.lits'), {}), 'jobs.list'],
  ['schedules.upsert()', () => app.schedules.upsert('s', any({ job: send, evry: '1m' })), 'every'],
  ['app.schedule()', () => app.schedule('s', any({ cron: '@daily', job: send, timzone: 'UTC' })), 'timezone'],
  ['app.dependency()', () => app.dependency('d', any({ probe: () => null, timeot: 1 })), 'timeout'],
  ['app.notify()', () => app.notify('k', any({ channels: ['c'], subject: 's', windw: '1h' })), 'window'],
  ['hub.subscribe()', () => app.hub.subscribe(any({ topics: ['*'], aftr: 1 })), 'after'],
  ['outcomeLog()', () => outcomeLog(silentLog, any({ complet: 'info' })), 'complete'],
  ['renderExplanation()', () => renderExplanation(any({}), any({ colums: 80 })), 'columns'],
  ['renderNotice()', () => renderNotice(any({}), any({ lnk: 'x' })), 'link'],
  ['table()', () => table(['1s'], any({ jiter: '10%' })), 'jitter'],
  ['exponential()', () => exponential('1s', any({ facter: 2 })), 'factor'],
  ['email()', () => email(any({ smtp, from: 'a@b.org', to: () => null, redner: 1 })), 'render'],
  ['email(): smtp', () => email({ smtp: any({ host: 'h', prot: 25 }), from: 'a@b.org', to: () => null }), 'port'],
  ['webhook()', () => webhook(any({ url: 'http://a.org', secrets: ['whsec_aa'], heders: {} })), 'headers'],
  ['outboundGuard()', () => outboundGuard(any({ alow: [] })), 'allow'],
  ['outboundAgent()', () => outboundAgent(any({ guard, conectMs: 1 })), 'connectMs'],
  ['outboundRequest()', () => outboundRequest('http://a.org', any({ guard, metod: 'GET' })), 'method'],
  ['runProgram()', () => runProgram(any({ program: 'true', timoutMs: 1 })), 'timeoutMs'],
  ['sseStream()', () => sseStream(any({}), any({ hartbeatMs: 1 })), 'heartbeatMs'],
  ['startServer()', () => startServer(any({ app, prot: 0 })), 'port'],
  ['startServer(): limits', () => startServer({ app, port: 0, limits: any({ bodyBytsMax: 1 }) }), 'bodyBytesMax'],
  ['openPostgresRows()', () => openPostgresRows(any({ url: 'x', shema: 'y' })), 'schema'],
  ['artifactStore()', () => artifactStore(any({ url: 'file:x', limts: {} })), 'limits'],
  ['artifactStore(): s3', () => artifactStore({ url: 's3://b', s3: any({ partByts: 1 }) }), 'partBytes'],
  ['artifactStore(): limits', () => artifactStore({ url: `file:${folder}`, limits: any({ hrad: {} }) }), 'hard'],
  ['put()', () => files.put('a', 'x', any({ ifAbsnt: true })), 'ifAbsent'],
  ['get()', () => files.get('a', any({ rnage: 1 })), 'range'],
  ['head()', () => files.head('a', any({ signl: 1 })), 'signal'],
  ['verify()', () => files.verify('a', any({ signl: 1 })), 'signal'],
  ['remove()', () => files.remove('a', any({ signl: 1 })), 'signal'],
  ['list()', () => files.list(any({ prefx: 'a' })), 'prefix'],
  ['removeOlderThan()', () => files.removeOlderThan(any({ olderThanMs: 1, kep: () => true })), 'keep'],
  ['sweep()', () => files.sweep(any({ olderThenMs: 1 })), 'olderThanMs'],
  ['testKit()', () => new TestKit(any({ sed: 1 })), 'seed'],
  ['kit.drain()', () => kit.drain(any({ whitin: '1h' })), 'within'],
  ['kit.until()', () => kit.until('x', () => true, any({ whitin: '1h' })), 'within'],
  ['kit.crashingWorker()', () => kit.crashingWorker(any({ at: 'run', concurency: 1 })), 'concurrency'],
]

test.each(CALLS)('%s refuses a misspelt option and names the nearest one', async (_call, run, meant) => {
  const error = await (async () => run())().then(
    () => 'no error',
    (thrown: unknown) => thrown,
  )
  expect(error).toMatchObject({ code: 'OPTION_INVALID', action: `Did you mean "${meant}"?` })
})

test.each([[null], [[]], [5], ['soon']])('options given as %j are refused', async (options) => {
  const refused = { code: 'OPTION_INVALID', message: expect.stringMatching(/ takes its options as an object; got /) }
  const calls: (() => Promise<unknown>)[] = [
    () => send.submit({}, any(options)),
    () => send.submitMany([{}], any(options)),
    () => send.submitAndWait({}, any(options)),
    () => send.result('a', any(options)),
    () => send.list(any(options)),
    () => app.work(any(options)),
  ]
  for (const call of calls) await expect(call()).rejects.toMatchObject(refused)
})

test('the inputs of submitMany() must be a list', async () => {
  await expect(send.submitMany(any(new Set([{}])))).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: 'The inputs of submitMany() must be a list.',
  })
})

test('a refused call stores nothing', async () => {
  const store = await app.store()
  expect(await store.jobs({ limit: 10 })).toEqual([])
  expect(app.types).toEqual(['mail.send'])
})

test('a stage refuses a misspelt option before its first try', async () => {
  await using one = testKit()
  let tries = 0
  const job = one.app.job('staged', {
    run: (_: unknown, attempt: Attempt) => attempt.stage('upload', any({ timeot: '1s' }), () => tries++),
  })
  const { id } = await job.submit({})
  await one.drain()
  const { status } = await one.app.jobs.show(id)
  expect({ status, tries }).toEqual({ status: 'failed', tries: 0 })
  expect((await one.app.jobs.explain(id)).steps.map((step) => JSON.stringify(step)).join()).toContain(
    'The stage upload has no option',
  )
})

test('a misspelt option of attempt.fail keeps the code of the failure and is named in its detail', async () => {
  await using one = testKit()
  const codes = failureCodes({ FULL: { fault: 'operator', retry: 'never', message: 'The disk is full.' } })
  const job = one.app.job('disk', {
    codes,
    run: (_: unknown, attempt) => attempt.fail('FULL', any({ detial: '/var' })),
  })
  const { id } = await job.submit({})
  await one.drain()
  const [failure] = (await one.app.jobs.failures(id)).failures
  expect(failure?.code).toBe('FULL')
  expect(failure?.detail).toContain('fail() has no option "detial". Did you mean "detail"?')
})
