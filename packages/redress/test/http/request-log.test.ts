import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { describe, expect, onTestFinished, test } from 'vitest'
import { keepingLog, type LogLine } from '../../../../test/support/scene.ts'
import { until } from '../../../../test/support/until.ts'
import { startServer } from '../../src/http/index.ts'
import { redress } from '../../src/index.ts'
import { ask } from './world.ts'

async function serve() {
  const log = keepingLog()
  const app = redress({ store: 'sqlite::memory:', log })
  app.job('plain', { run: () => undefined })
  const made = await app.perform('tokens.create', { name: 'ci', role: 'admin', actor: 'olga' })
  const server = await startServer({ app, port: 0, log })
  await server.ready
  onTestFinished(async () => {
    await server.stop({ graceMs: 100 })
    await app.stop()
  })
  const lines = (): LogLine[] => log.lines.filter(({ fields }) => fields.event === 'http_request')
  const lineAfter = async (before: number): Promise<LogLine> => {
    await until('the request is in the log', () => lines().length > before)
    return lines().at(-1) as LogLine
  }
  const logged = async (path: string, asking: Parameters<typeof ask>[2] = {}): Promise<LogLine> => {
    const before = lines().length
    await ask(server.url, path, asking)
    return lineAfter(before)
  }
  return { app, server, log, lines, logged, token: String(made.token) }
}

describe('each request is one line', () => {
  test('each request logs method, route, status, duration and caller [E21]', async () => {
    const { logged, token } = await serve()
    const { level, fields } = await logged('/api/jobs?owner=somebody%40example.org&limit=3', { token })
    expect(level).toBe('info')
    expect(fields).toEqual({
      event: 'http_request',
      method: 'GET',
      route: '/api/jobs',
      status: 200,
      duration_ms: expect.any(Number),
      caller: 'ci',
      error_code: null,
      incident: null,
    })
    const refused = await logged('/api/jobs')
    expect(Object.keys(refused.fields)).toEqual(Object.keys(fields))
    expect(refused.fields).toMatchObject({ status: 401, caller: null, error_code: 'SIGN_IN_REQUIRED' })
  })

  test('a route is logged as a pattern, without values of path, query and headers', async () => {
    const { logged, log, token } = await serve()
    const secrets = ['s3cret-in-path', 's3cret-in-query', 's3cret-in-header', 's3cret-in-body', token]
    const shown = await logged('/api/jobs/s3cret-in-path?code=s3cret-in-query', {
      token,
      headers: { 'x-key': 's3cret-in-header', cookie: 'redress=s3cret-in-header' },
    })
    expect(shown.fields).toMatchObject({ route: '/api/jobs/:id', status: 404 })
    const stray = await logged('/nowhere/s3cret-in-path?token=s3cret-in-query')
    expect(stray.fields).toMatchObject({ route: null, status: 404, error_code: 'ROUTE_NOT_FOUND' })
    await logged('/api/jobs', { token, body: { type: 'plain', input: { key: 's3cret-in-body' } } })
    for (const secret of secrets) expect(JSON.stringify(log.lines)).not.toContain(secret)
  })

  test('a server error is logged with the incident id that the caller gets', async () => {
    const { app, lines, server, log, token } = await serve()
    const store = await app.store()
    store.counts = () => Promise.reject(new Error('the disk is on fire'))
    const { json } = await ask(server.url, '/api/queues', { token })
    const incident = String(json.error.incident)
    await until('it is in the log', () => lines().length > 0)
    expect(lines().at(-1)?.fields).toMatchObject({ status: 500, route: '/api/queues', incident })
    expect(
      log.lines.find(({ message, fields }) => message === 'a request failed' && fields.incident === incident),
    ).toBeDefined()
  })

  test('health probes are logged at level debug', async () => {
    const { logged } = await serve()
    expect(await logged('/healthz')).toMatchObject({ level: 'debug', fields: { route: '/healthz', status: 200 } })
    expect((await logged('/readyz')).level).toBe('debug')
  })
})

test('a submission over HTTP continues the trace of its caller', async () => {
  const exporter = new InMemorySpanExporter()
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }))
  onTestFinished(() => {
    trace.disable()
    context.disable()
  })
  const { server, token } = await serve()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const body = { type: 'plain', input: {} }
  const submitted = await ask(server.url, '/api/jobs', { token, body, headers: { traceparent } })
  expect(submitted.status).toBe(201)
  expect((await ask(server.url, '/api/jobs', { token, body, headers: { traceparent: 'nonsense' } })).status).toBe(201)
  const [first, second] = exporter.getFinishedSpans()
  expect(first?.name).toBe('redress.submit plain')
  expect(first?.parentSpanContext).toMatchObject({ traceId: '0af7651916cd43dd8448eb211c80319c' })
  expect(first?.attributes).toMatchObject({ 'redress.job.id': submitted.json.job.id, 'redress.is_new': true })
  expect(second?.parentSpanContext).toBeUndefined()
})
