import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { keepingLog } from '../../../../test/support/scene.ts'
import { until } from '../../../../test/support/until.ts'
import { outcomeLog } from '../../src/app/events/outcome-log.ts'
import { startServer } from '../../src/http/index.ts'
import { failureCodes, redress } from '../../src/index.ts'
import { listen } from './events/streams.ts'
import { ask, type World } from './world.ts'

const JOBS = 2_500
/** Each job has so many secrets: in its payload, in an address, in a header, and in what is thrown. */
const SECRETS_PER_JOB = 4
/** In every secret; nothing else has it. */
const MARK = 'pLaNtEd'

const secretOf = (n: number, place: string): string => `${MARK}${place}${n.toString(36).padStart(6, '0')}Zz09`

interface Planted {
  url: string
  header: string
  password: string
  token: string
}

const plantedIn = (n: number): Planted => ({
  url: `https://ann:${secretOf(n, 'u')}@files.example/a.pdf?signature=${secretOf(n, 'q')}`,
  header: `Bearer ${secretOf(n, 'h')}`,
  password: secretOf(n, 'p'),
  token: `ghp_${secretOf(n, 't')}`,
})

/** The ways in which libraries put into an error what they were given. */
const WAYS: readonly ((planted: Planted, attempt: { fail(code: 'GW_4XX', options?: object): never }) => never)[] = [
  ({ url }) => {
    throw new Error(`GET ${url} answered 500`)
  },
  ({ header, url }) => {
    throw Object.assign(new Error('Request failed'), { config: { url, headers: { Authorization: header } } })
  },
  ({ password }) => {
    throw new Error(`cannot connect: host=db user=ann password=${password} port=5432`)
  },
  ({ token }) => {
    throw new Error('push failed', { cause: new Error(`remote: ${token} has no access`) })
  },
  ({ password, url }) => {
    const cmd = `curl -u ann:${password} ${url}`
    throw Object.assign(new Error(`Command failed: ${cmd}`), { cmd, stderr: `curl: (22) ${url}`, code: 22 })
  },
  ({ header }) => {
    throw new Error(`request headers: Authorization: ${header}\nCookie: session=${header.slice(7)}`)
  },
  ({ password, token }) => {
    throw new AggregateError([new Error(`{"password":"${password}"}`), new Error(`token=${token}`)], 'all failed')
  },
  ({ password }) => {
    throw { message: 'not an Error', secret: password, nested: { apiKey: password } }
  },
  ({ url, header, password }, attempt) =>
    attempt.fail('GW_4XX', {
      detail: `${url} said no to ${header}`,
      context: { url, headers: { 'x-api-key': password, authorization: header } },
    }),
]

test(`${JOBS * SECRETS_PER_JOB} secrets of jobs are in no log, event, failure, letter, notice or answer`, {
  timeout: 180_000,
}, async () => {
  const log = keepingLog()
  const app = redress({ store: 'sqlite::memory:', log })
  const codes = failureCodes({ GW_4XX: { fault: 'caller', retry: 'never', message: 'It does not take this.' } })
  const input = z.strictObject({
    n: z.number(),
    url: z.string(),
    header: z.string(),
    password: z.string(),
    token: z.string(),
  })
  const type = app.job('leaky', {
    ...{ input, codes, policy: { deadLetter: 'queue', notify: { failed: ['ops'] }, orphan: 'requeue' } },
    admit: ({ n, password }) => {
      if (n < 0) throw new Error(`refused: password=${password}`)
    },
    run: (given, attempt) => (WAYS[given.n % WAYS.length] as (typeof WAYS)[number])(given, attempt as never),
  })
  const told: unknown[] = []
  app.channel('ops', {
    kind: 'test',
    deliver: (notice) => {
      told.push(notice)
      return { to: ['ops'], answer: 'thanks' }
    },
  })
  const server = await startServer({ app, port: 0, log })
  await server.ready
  onTestFinished(async () => {
    await server.stop({ graceMs: 100 })
    await app.stop()
  })
  const { token } = await app.perform('tokens.create', { name: 'viewer', role: 'operator', actor: 'olga' })
  const get = (path: string) => ask(server.url, path, { token: String(token) })
  const stream = await listen({ server, tokens: { viewer: String(token) } as World['tokens'] }, 'viewer')

  await app.work({ log, onOutcome: outcomeLog(log, { complete: 'info' }) })
  const all = Array.from({ length: JOBS }, (_, n) => ({ n, ...plantedIn(n) }))
  const submitted: { id: string }[] = []
  for (let at = 0; at < JOBS; at += 500)
    submitted.push(...(await type.submitMany(all.slice(at, at + 500), { owner: 'ann' })))
  await until(
    'all have failed',
    async () => (await app.perform('jobs.count', { type: 'leaky', status: 'failed' })).count === JOBS,
  )
  // A cause is told once per window, not once per job.
  await until('somebody was told', () => told.length > 0)
  await until('the stream has them', () => stream.told.filter(({ event }) => event === 'job.failed').length === JOBS)

  const said: string[] = [asLogged(log.lines), JSON.stringify(told), JSON.stringify(stream.told)]
  for (const path of [
    '/api/failures?limit=1000',
    '/api/notices?limit=1000',
    '/api/notices/deliveries?limit=1000',
    '/metrics',
  ]) {
    said.push(withoutInputs((await get(path)).text))
  }
  for (let after: number | null = 0; after !== null; ) {
    const { json, text } = await get(`/api/dead-letters?limit=500&after=${after}`)
    said.push(withoutInputs(text))
    after = json.nextAfter
  }
  for (const { id } of submitted.filter((_, n) => n % 10 === 0)) {
    for (const rest of ['', '/explain', '/events', '/failures'])
      said.push(withoutInputs((await get(`/api/jobs/${id}${rest}`)).text))
  }
  for (const { id } of submitted)
    said.push(JSON.stringify(await app.jobs.failures(id)), JSON.stringify(await app.jobs.events(id)))

  // What is refused at the door: an input of another shape, and one that its type does not take.
  for (let n = 0; n < 100; n++) {
    const planted = plantedIn(n)
    for (const given of [planted, { ...planted, n: 'x' }, { ...planted, n: -1 }, { ...planted, n, more: 1 }]) {
      const answer = await ask(server.url, '/api/jobs', { token: String(token), body: { type: 'leaky', input: given } })
      expect(answer.status).toBe(422)
      said.push(answer.text)
    }
    const wrong = await ask(server.url, `/api/jobs?token=${planted.token}`, { token: planted.token })
    expect(wrong.status).toBeLessThan(430)
    said.push(wrong.text)
    said.push((await ask(server.url, `/nowhere?token=${planted.token}`)).text)
  }
  said.push(asLogged(log.lines))
  const leaks = said
    .filter((text) => text.includes(MARK))
    .map((text) => text.slice(Math.max(0, text.indexOf(MARK) - 200), text.indexOf(MARK) + 60))
  expect(leaks.slice(0, 10)).toEqual([])
  expect(said.join('').length).toBeGreaterThan(JOBS * 1_000)
  expect(said.join('')).toContain('[redacted]')
})

/** What a job was given is kept as it is, and shown to those who may see it: the worker needs it. */
const withoutInputs = (text: string): string => {
  if (!text.startsWith('{')) return text
  return JSON.stringify(JSON.parse(text), (key, value: unknown) => (key === 'input' ? undefined : value))
}

/** As a log writes errors: with their words and where they come from. */
const asLogged = (lines: unknown): string =>
  JSON.stringify(lines, (_key, value: unknown) =>
    value instanceof Error ? { message: value.message, stack: value.stack, cause: value.cause } : value,
  )
