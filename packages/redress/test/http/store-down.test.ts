import { expect, onTestFinished, test } from 'vitest'
import { keepingLog } from '../../../../test/support/scene.ts'
import { startOwnPostgres } from '../../../../test/support/stores/postgres.ts'
import { until } from '../../../../test/support/until.ts'
import { startServer } from '../../src/http/index.ts'
import { redress } from '../../src/index.ts'
import { openRawConnection } from './sockets.ts'
import { ask, makeWorld } from './world.ts'

const HTML = { accept: 'text/html,application/xhtml+xml' }

test('a server that starts before its database reports it and recovers', async () => {
  // Set up, and taken down again: its address is known, and nobody is there.
  // Of its own, whatever server there is for the other tests.
  const first = await startOwnPostgres()
  await first.end()
  const log = keepingLog()
  const app = redress({ store: first.url, log })
  app.job('step', { run: () => null })
  const server = await startServer({ app, port: 0, log })
  onTestFinished(async () => {
    await server.stop({ graceMs: 100 })
    await app.stop()
    await first.stop()
  })
  const page = await ask(server.url, '/', { headers: HTML })
  expect(page.status).toBe(503)
  expect(page.headers['content-type']).toMatch(/^text\/html/)
  expect(page.text).toContain('The store cannot be reached')
  const refused = await ask(server.url, '/api/jobs')
  expect([refused.status, refused.json.error.code, refused.headers['retry-after']]).toEqual([
    503,
    'STORE_UNREACHABLE',
    '5',
  ])
  for (const { text } of [page, refused]) expect(text).not.toMatch(/127\.0\.0\.1|ECONNREFUSED|postgres:/)
  expect(refused.json.error).toMatchObject({
    ...{
      message: 'The store cannot be reached; the server keeps trying.',
      action: expect.stringContaining('Retry-After'),
    },
  })
  // Why it is so is logged by whoever keeps trying, and not again for everybody who asks meanwhile.
  expect(log.lines.filter(({ message }) => message === 'a request failed')).toEqual([])
  expect(await ask(server.url, '/healthz')).toMatchObject({ status: 200 })
  expect(await ask(server.url, '/readyz')).toMatchObject({ status: 503, json: { status: 'not ready' } })

  await first.start()
  await server.ready
  expect(await ask(server.url, '/readyz')).toMatchObject({ status: 200, json: { status: 'ready' } })
  const { token } = await app.perform('tokens.create', { name: 'ci', role: 'operator', actor: 'olga' })
  const asking = { token: String(token), body: { type: 'step', input: {} } }
  expect(await ask(server.url, '/api/jobs', asking)).toMatchObject({ status: 201 })

  await first.end()
  const startedMs = performance.now()
  const gone = await until('it is noticed', async () => {
    const answer = await ask(server.url, '/readyz')
    return answer.status === 503 && answer
  })
  expect(gone.json).toEqual({ status: 'not ready' })
  const lost = await ask(server.url, '/api/jobs', { token: String(token) })
  expect(lost.status).toBe(503)
  expect(lost.json.error.message).not.toMatch(/127\.0\.0\.1|ECONNREFUSED/)
  expect((await ask(server.url, '/api/jobs', { token: String(token), headers: HTML })).text).toContain(
    'The store cannot be reached',
  )
  // A balancer that waits for an answer must get one.
  expect(performance.now() - startedMs).toBeLessThan(30_000)
  await first.start()
  await until('it is back', async () => (await ask(server.url, '/readyz')).status === 200)
  expect(await ask(server.url, '/api/jobs', asking)).toMatchObject({ status: 201 })
})

test('reads report a lost store within seconds', async () => {
  const database = await startOwnPostgres()
  const app = redress({ store: database.url })
  app.job('step', { run: () => null })
  const server = await startServer({ app, port: 0 })
  onTestFinished(async () => {
    await server.stop({ graceMs: 100 })
    await app.stop()
    await database.stop()
  })
  await server.ready
  const { token } = await app.perform('tokens.create', { name: 'ci', role: 'operator', actor: 'olga' })
  const asking = { token: String(token) }
  expect(await ask(server.url, '/api/jobs', asking)).toMatchObject({ status: 200 })
  await database.end()
  const beganMs = performance.now()
  const answers = await Promise.all(
    ['/api/jobs', '/api/queues', '/metrics'].map((path) => ask(server.url, path, asking)),
  )
  // Half a minute is what the store itself waits for a database that is being restarted.
  expect(performance.now() - beganMs).toBeLessThan(15_000)
  for (const { status, json, headers } of answers) {
    expect([status, json.error.code, headers['retry-after']]).toEqual([503, 'STORE_UNREACHABLE', '5'])
  }
  const at = performance.now()
  expect(await ask(server.url, '/api/jobs', asking)).toMatchObject({ status: 503 })
  expect(performance.now() - at, 'and the next one at once').toBeLessThan(1_000)
  await database.start()
  await until('it is back', async () => (await ask(server.url, '/api/jobs', asking)).status === 200)
})

test('a stopping server finishes running requests and accepts no new ones', async () => {
  const started = Promise.withResolvers<void>()
  const going = Promise.withResolvers<void>()
  const world = await makeWorld({
    mounts: [
      (server) => {
        server.get('/slow', async () => {
          started.resolve()
          await going.promise
          return { finished: true }
        })
      },
    ],
  })
  const { server } = world
  const running = ask(server.url, '/slow')
  await started.promise
  const stopped = server.stop()
  // Nobody new gets in; whoever is inside is told to come back.
  await until('new ones are refused', async () => {
    const answer = await ask(server.url, '/healthz').catch((error: NodeJS.ErrnoException) => error.code)
    return answer === 'ECONNREFUSED' || (typeof answer === 'object' && answer.json.error.code === 'SERVER_STOPPING')
  })
  going.resolve()
  expect(await running).toMatchObject({ status: 200, json: { finished: true } })
  const startedMs = performance.now()
  await stopped
  expect(performance.now() - startedMs).toBeLessThan(5_000)
})

test('a connection on which nothing was sent yet does not delay a server that stops', async () => {
  const { server } = await makeWorld()
  const { closed } = await openRawConnection(server.url)
  // A browser opens connections ahead of its requests. The answer to the request after it shows that the server has it.
  expect(await ask(server.url, '/healthz')).toMatchObject({ status: 200 })
  const startedMs = performance.now()
  await server.stop()
  await closed
  expect(performance.now() - startedMs).toBeLessThan(5_000)
})

test('requests that exceed the grace period are cut off', async () => {
  const started = Promise.withResolvers<void>()
  const world = await makeWorld({
    mounts: [
      (server) => {
        server.get('/never', () => {
          started.resolve()
          return new Promise(() => undefined)
        })
      },
    ],
  })
  const running = ask(world.server.url, '/never').catch((error: NodeJS.ErrnoException) => error.code)
  await started.promise
  await world.server.stop({ graceMs: 50 })
  expect(await running).toBe('ECONNRESET')
})
