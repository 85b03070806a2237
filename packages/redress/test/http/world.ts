import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { z } from 'zod'
import { keepingLog, type LogLine } from '../../../../test/support/scene.ts'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import type { App } from '../../src/app/app.ts'
import type { JobType } from '../../src/app/jobs/job-type.ts'
import type { HttpServer, ServerOptions } from '../../src/http/index.ts'
import { startServer } from '../../src/http/index.ts'
import { failureCodes, redress } from '../../src/index.ts'
import type { OperationName } from '../../src/operations/catalog.ts'
import { VirtualClock } from '../../src/runtime/clock.ts'
import type { Store } from '../../src/store/contract/store.ts'

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: what a route answers is what the tests look into
  json: any
}

export interface Asking {
  method?: string
  token?: string | undefined
  body?: unknown
  /** As it is; nothing is said of its type. */
  rawBody?: string | Buffer
  headers?: Record<string, string | string[]>
}

const agent = new Agent({ keepAlive: true })

/** One request, with nothing done for it that a browser or a client library would do. */
export function ask(
  origin: string,
  path: string,
  { method, token, body, rawBody, headers = {} }: Asking = {},
): Promise<Answer> {
  const sent = rawBody ?? (body === undefined ? undefined : JSON.stringify(body))
  const { host } = new URL(origin)
  return new Promise((resolve, reject) => {
    const asked = httpRequest(origin, {
      // Not through URL: it would mend what is malformed.
      path,
      method: method ?? (sent === undefined ? 'GET' : 'POST'),
      agent,
      headers: {
        host,
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(sent !== undefined && { 'content-length': Buffer.byteLength(sent) }),
        ...headers,
      },
    })
    asked.on('error', reject)
    asked.on('response', (response) => {
      if (response.headers['content-type'] === 'text/event-stream') {
        asked.destroy()
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text: '', json: null })
        return
      }
      const parts: Buffer[] = []
      response.on('data', (part: Buffer) => parts.push(part))
      response.on('error', reject)
      response.on('end', () => {
        const text = Buffer.concat(parts).toString()
        const isJson = response.headers['content-type']?.startsWith('application/json') ?? false
        const json = isJson && text !== '' ? JSON.parse(text) : null
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json })
      })
    })
    asked.end(sent)
  })
}

/** Who asks: each role, and those who may not come in (any more). */
export const CALLERS = ['stranger', 'owner', 'viewer', 'operator', 'admin', 'scoped', 'expired', 'revoked'] as const
export type CallerName = (typeof CALLERS)[number]

/** Whose thing is asked for, as ann sees it. */
export const WHOSE = ['own', 'others', 'missing'] as const
export type Whose = (typeof WHOSE)[number]

export interface World {
  app: App
  store: Store
  clock: VirtualClock
  server: HttpServer
  /** Where the store is, unless another was given. */
  file: string
  log: LogLine[]
  tokens: Record<CallerName | 'bob', string | undefined>
  /** The first job of ann, and of bob, in each standing. */
  jobs: Record<'ann' | 'bob', Record<'failed' | 'queued' | 'complete' | 'forbidden', string>>
  batches: Record<'ann' | 'bob', string>
  /** The input of an operation that is good for whoever may do it, and changes nothing. */
  inputOf(name: OperationName, whose: Whose): Record<string, unknown>
  ask(path: string, asking?: Asking & { as?: CallerName | 'bob' }): Promise<Answer>
}

const BY = { actor: 'olga', reason: 'a test' }
const codes = failureCodes({
  GW_4XX: { fault: 'caller', retry: 'never', message: 'It does not take this.' },
})
export const NOBODY = '00000000-0000-7000-8000-000000000000'

export async function makeWorld(
  options: Partial<ServerOptions> & { store?: string; clock?: VirtualClock } = {},
): Promise<World> {
  const { store: place, clock = new VirtualClock(), ...serverOptions } = options
  const file = join(temporaryFolder(), 'redress.db')
  const log = keepingLog()
  const app = redress({ store: place ?? `sqlite:${file}`, clock, chance: () => 0.5, log })
  const step = declareTypes(app)
  const store = await app.store()
  await beforeSchedules(store, clock)
  // Only the types of the world: tests run their own types with workers of their own.
  const worker = await app.makeWorker({ types: app.types })
  const work = async () => {
    for (let i = 0; i < 4; i++) await worker.tick()
  }

  const jobs: World['jobs'] = { ann: { ...NONE }, bob: { ...NONE } }
  const batches: World['batches'] = { ann: '', bob: '' }
  for (const owner of ['ann', 'bob'] as const) {
    await app.perform('accounts.create', { name: owner, actor: 'olga' })
    jobs[owner].failed = (await app.submit('step', { fails: true }, { owner })).id
    jobs[owner].complete = (await app.submit('step', { fails: false }, { owner })).id
    jobs[owner].forbidden = (await app.submit('forbidden', { fails: true }, { owner })).id
    await app.submit('letter', { fails: true }, { owner })
    const { id } = await app.batches.create('pages', { owner, jobs: [step.request({ fails: true })] })
    batches[owner] = id
    await work()
    jobs[owner].queued = (await app.submit('step', { fails: false }, { owner, delay: '1d' })).id
    // Something that waits, so that there is something to cancel.
    await app.submit('step', { fails: false }, { owner, delay: '1d' })
  }
  const replays = await makeReplays(app)
  const tokens = await makeTokens(app, clock)
  const { groups } = await app.perform('failures.list', {})
  const fingerprint = String(groups[0]?.fingerprint)
  const mended = String(groups[1]?.fingerprint)
  await app.perform('failures.resolve', { fingerprint: mended, ...BY })
  // What was counted so far is in the store, so that who reads it brings nothing there.
  await app.perform('activity.show', {})
  const tokenId = String((await app.perform('tokens.list', {})).tokens[0]?.id)

  const server = await startServer({ app, port: 0, log, clock, ...serverOptions })
  await server.ready
  onTestFinished(async () => {
    worker.crash()
    await server.stop({ graceMs: 100 })
    await app.stop()
  })

  const nameOf = { own: 'ann', others: 'bob' } as const
  const inputOf: World['inputOf'] = (name, whose) => {
    const isMissing = whose === 'missing'
    const owner = isMissing ? 'nobody' : nameOf[whose]
    const acts = { reason: 'a test', dryRun: true }
    const job = (standing: keyof typeof NONE) => (isMissing ? NOBODY : jobs[nameOf[whose]][standing])
    const batch = isMissing ? NOBODY : batches[nameOf[whose]]
    const of = (thing: string) => (isMissing ? 'nothing' : thing)
    const inputs: Partial<Record<OperationName, Record<string, unknown>>> = {
      'jobs.submit': { type: isMissing ? 'nothing' : 'step', input: { fails: false }, owner, dryRun: true },
      'jobs.list': { owner },
      'jobs.count': { owner },
      'jobs.show': { id: job('failed') },
      'jobs.explain': { id: job('failed') },
      'jobs.events': { id: job('failed') },
      'jobs.failures': { id: job('failed') },
      'jobs.logs': { id: job('failed') },
      'jobs.retry': { id: job('failed'), ...acts },
      'jobs.reschedule': { id: job('queued'), delay: '1h', ...acts },
      'jobs.promote': { id: job('queued'), ...acts },
      'jobs.reprioritise': { id: job('queued'), priority: 7, ...acts },
      'jobs.replace-input': { id: job('queued'), input: { fails: false }, ...acts },
      'jobs.delete': { id: job('failed'), force: true, ...acts },
      'jobs.cancel': { id: job('queued'), ...acts },
      'jobs.mark-failed': { id: job('queued'), ...acts },
      'failures.show': { fingerprint: of(fingerprint) },
      'failures.resolve': { fingerprint: of(fingerprint), ...acts },
      'failures.snooze': { fingerprint: of(fingerprint), for: '1h', ...acts },
      'failures.reopen': { fingerprint: of(mended), ...acts },
      'dead-letters.list': { owner },
      'dead-letters.show': { offset: isMissing ? 999_999 : whose === 'own' ? 1 : 2 },
      'dead-letters.replay': { offset: isMissing ? 999_999 : whose === 'own' ? 1 : 2, again: true, ...acts },
      'dead-letters.replay-matching': { owner, again: true, ...acts },
      'dead-letters.purge': { owner, ...acts },
      'replays.plan': { owner, again: true, ...acts },
      'replays.start': { id: isMissing ? NOBODY : replays.planned, ...acts },
      'replays.pause': { id: isMissing ? NOBODY : replays.running, ...acts },
      'replays.resume': { id: isMissing ? NOBODY : replays.paused, ...acts },
      'replays.abort': { id: isMissing ? NOBODY : replays.paused, ...acts },
      'replays.show': { id: isMissing ? NOBODY : replays.planned },
      'batches.list': { owner },
      'batches.show': { id: batch },
      'batches.cancel': { id: batch, ...acts },
      'batches.retry-failed': { id: batch, ...acts },
      'notices.test': { channel: of('ops'), ...acts },
      'queues.pause': { name: of('default'), ...acts },
      'queues.resume': { name: of('default'), ...acts },
      'breakers.show': { name: of('gateway') },
      'breakers.open': { name: of('gateway'), ...acts },
      'breakers.close': { name: of('gateway'), ...acts },
      'breakers.release': { name: of('gateway'), ...acts },
      'breakers.probe': { name: of('gateway'), ...acts },
      'policy.show': { type: of('step') },
      'policy.preview': { type: of('step'), failures: 'GW_4XX' },
      'schedules.show': { name: of('nightly') },
      'schedules.upsert': { name: of('hourly'), job: of('step'), cron: '@hourly', input: { fails: false }, ...acts },
      'schedules.pause': { name: of('nightly'), ...acts },
      'schedules.resume': { name: of('nightly'), ...acts },
      'schedules.trigger': { name: of('nightly'), ...acts },
      'schedules.remove': { name: of('forgotten'), ...acts },
      'accounts.create': { name: 'zoe', dryRun: true },
      'accounts.disable': { name: isMissing ? 'nobody' : nameOf[whose], ...acts },
      'tokens.create': { name: 'new', role: 'viewer', dryRun: true },
      'tokens.revoke': { id: isMissing ? NOBODY : tokenId, ...acts },
      'sign-in-links.create': { dryRun: true },
    }
    return inputs[name] ?? {}
  }
  return {
    ...{ app, store, clock, server, file, log: log.lines, tokens, jobs, batches, inputOf },
    ask: (path, { as, ...asking } = {}) =>
      ask(server.url, path, { ...(as !== undefined && { token: tokens[as] }), ...asking }),
  }
}

const NONE = { failed: '', queued: '', complete: '', forbidden: '' }

function declareTypes(app: App): JobType<{ fails: boolean }> {
  const input = z.object({ fails: z.boolean(), note: z.string().optional() })
  const run = ({ fails }: { fails: boolean }, attempt: { fail(code: 'GW_4XX'): never }) =>
    fails ? attempt.fail('GW_4XX') : { done: true }
  const step = app.job('step', { input, codes, run, policy: { manualRetry: 'in-place' } })
  app.job('forbidden', { input, codes, run, policy: { manualRetry: 'in-place', deny: 'forbid' } })
  app.job('letter', { input, codes, run, policy: { deadLetter: 'queue' } })
  app.job('guarded', { input, codes, run, policy: { breaker: { guards: 'gateway' } } })
  app.channel('ops', { kind: 'test', deliver: () => ({ to: ['ops'], answer: 'thanks' }) })
  app.schedule('nightly', { cron: '0 3 * * *', job: 'step', input: { fails: false } })
  return step
}

/** A schedule that a program declared which is not there any more. */
async function beforeSchedules(store: Store, clock: VirtualClock): Promise<void> {
  const gone = redress({ store, clock })
  gone.job('step', { run: () => null, policy: { manualRetry: 'in-place' } })
  gone.schedule('forgotten', { cron: '0 4 * * *', job: 'step' })
  await gone.store()
  await clock.advance(300_000)
}

async function makeReplays(app: App): Promise<Record<'planned' | 'running' | 'paused', string>> {
  const plan = async () => {
    const { replay } = await app.perform('replays.plan', { type: 'letter', again: true, ...BY })
    return String(replay?.id)
  }
  const [planned, running, paused] = [await plan(), await plan(), await plan()]
  await app.perform('replays.start', { id: running, ...BY })
  await app.perform('replays.start', { id: paused, ...BY })
  await app.perform('replays.pause', { id: paused, ...BY })
  return { planned, running, paused }
}

async function makeTokens(app: App, clock: VirtualClock): Promise<World['tokens']> {
  const make = async (name: string, role: 'owner' | 'viewer' | 'operator' | 'admin', more: object = {}) =>
    app.perform('tokens.create', { name, role, actor: 'olga', ...more })
  const expired = await make('expired', 'admin', { expires: '1m' })
  const revoked = await make('revoked', 'admin')
  await app.perform('tokens.revoke', { id: String(revoked.id), ...BY })
  await clock.advance(60_001)
  return {
    stranger: undefined,
    owner: String((await make('ann-laptop', 'owner', { account: 'ann' })).token),
    bob: String((await make('bob-laptop', 'owner', { account: 'bob' })).token),
    viewer: String((await make('viewer', 'viewer')).token),
    operator: String((await make('operator', 'operator')).token),
    admin: String((await make('admin', 'admin')).token),
    // It may do one thing, which no route below is.
    scoped: String((await make('scoped', 'admin', { scopes: 'workers.list' })).token),
    expired: String(expired.token),
    revoked: String(revoked.token),
  }
}
