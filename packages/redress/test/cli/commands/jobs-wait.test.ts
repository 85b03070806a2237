import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../../../../test/support/until.ts'
import { startServer } from '../../../src/http/server.ts'
import { type App, failureCodes, redress as makeApp } from '../../../src/index.ts'
import { folder, redress, running } from '../command.ts'

interface Scene {
  app: App
  /** How commands reach it: on the store itself, or through a server. */
  at: string[]
  /** Lets the jobs that wait for it end. */
  release(): void
}

/** A program that works; commands reach it from other processes. */
async function scene(kind: 'store' | 'server'): Promise<Scene> {
  const data = folder()
  const app = makeApp({ store: `sqlite:${join(data, 'redress.db')}` })
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const codes = failureCodes({ BROKEN: { fault: 'caller', retry: 'never', message: 'It is broken.' } })
  app.job('fine', { run: async () => ({ pages: 3 }) })
  app.job('slow', { run: () => released })
  app.job('broken', { codes, run: (_: object, attempt) => attempt.fail('BROKEN') })
  await app.work()
  onTestFinished(async () => {
    release()
    await app.stop()
  })
  if (kind === 'store') return { app, at: ['--data', data], release }
  const server = await startServer({ app, port: 0, auth: 'none' })
  onTestFinished(() => server.stop())
  return { app, at: ['--server', server.url], release }
}

describe.each(['store', 'server'] as const)('jobs wait, by the %s', (kind) => {
  test('a complete job exits with 0 and prints its result', async () => {
    const { app, at, release } = await scene(kind)
    const { id } = await app.submit('slow', {})
    const waiting = redress(['jobs', 'wait', id, ...at])
    await until('it runs', async () => (await app.jobs.find(id))?.status === 'processing')
    release()
    expect(await waiting).toEqual({ code: 0, stdout: `Job ${id} is complete.\n`, stderr: '' })
  })

  test('a failed job exits with 7 and prints its verdict', async () => {
    const { app, at } = await scene(kind)
    const { id } = await app.submit('broken', {})
    const { code, stdout, stderr } = await redress(['wait', id, ...at])
    expect(code).toBe(7)
    expect(stdout).toMatch(/^FAILED\.\n/)
    expect(stderr).toContain(`JOB_FAILED: Job ${id} failed: BROKEN: It is broken.`)
    expect(stderr, 'what to type next leads to the same place').toMatch(
      new RegExp(`redress explain ${id} --(data|server) `),
    )
  })
})

test('submit --wait submits a job and reports its outcome', async () => {
  const { at } = await scene('store')
  const good = await redress(['submit', 'fine', '--wait', ...at])
  expect(good).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Submitted job \S+\.\n$/) })
  expect(good.stdout).toMatch(/^Job \S+ is complete\.\n\{"pages":3\}\n$/)
  const bad = await redress(['submit', 'broken', '--wait', '--json', ...at])
  expect(bad.code).toBe(7)
  expect(JSON.parse(bad.stdout)).toMatchObject({ status: 'failed', errorCode: 'BROKEN' })
  expect(JSON.parse(bad.stderr)).toMatchObject({ error: { code: 'JOB_FAILED' } })
})

test('a wait that times out exits with 5', async () => {
  const { app, at } = await scene('store')
  const { id } = await app.submit('slow', {})
  const { code, stderr } = await redress(['jobs', 'wait', id, '--timeout', '50ms', ...at])
  expect({ code, stderr }).toEqual({
    code: 5,
    stderr: expect.stringMatching(/^WAIT_TIMEOUT: .* within 50 ms\.\nIt goes on/),
  })
  expect((await redress(['jobs', 'wait', id, '--timeout', 'soon', ...at])).code).toBe(2)
})

test('a cancelled job exits with 4, an unknown one with 3', async () => {
  const { app, at } = await scene('store')
  const { id } = await app.submit('fine', {}, { delay: '1h' })
  await app.jobs.cancel(id, { actor: 'ann', reason: 'a test' })
  const { code, stderr } = await redress(['jobs', 'wait', id, ...at])
  expect({ code, stderr }).toEqual({ code: 4, stderr: expect.stringContaining(`Job ${id} was cancelled.`) })
  expect((await redress(['jobs', 'wait', 'nobody', ...at])).code).toBe(3)
})

describe.each(['store', 'server'] as const)('events, from the %s', (kind) => {
  test('are printed one per line as they happen, until Ctrl-C', async () => {
    const { app, at } = await scene(kind)
    const { child, stdout, ended } = await running(['events', '--topic', 'type:fine', ...at], { says: 'Following' })
    const { id } = await app.submit('fine', {}, { owner: 'ann' })
    await app.submit('broken', {})
    await until('it is told', () => stdout().includes('job.complete'))
    expect(stdout()).toMatch(new RegExp(`^\\S+Z  job\\.queued +${id}  fine .*owner ann`, 'm'))
    expect(stdout()).not.toContain('broken')
    child.kill('SIGINT')
    expect(await ended).toBe(0)
  })

  test('continue after a given event, and stop after --limit', async () => {
    const { app, at } = await scene(kind)
    const { id } = await app.submit('fine', {})
    await until('it is done', async () => (await app.jobs.find(id))?.status === 'complete')
    const { code, stdout, stderr } = await redress(['events', '--after', '0', '--limit', '2', '--jsonl', ...at])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const told = stdout.trimEnd().split('\n')
    expect(told.map((line) => JSON.parse(line))).toMatchObject([
      { id: '2', event: 'job.queued', data: { jobId: id, type: 'fine' } },
      { event: expect.stringMatching(/^job\./) },
    ])
  })
})

test('an owner gets its own events without a topic, and a token without the right to listen can still wait', async () => {
  const { app, at: _, release } = await scene('store')
  const server = await startServer({ app, port: 0 })
  onTestFinished(() => server.stop())
  await app.perform('accounts.create', { name: 'ann', actor: 'olga' })
  const tokenFor = async (scopes: string[]) => {
    const asked = { name: 'ann-laptop', role: 'owner', account: 'ann', scopes, actor: 'olga' } as const
    return { REDRESS_SERVER: server.url, REDRESS_TOKEN: (await app.perform('tokens.create', asked)).token ?? '' }
  }
  const { stdout } = await running(['events'], { env: await tokenFor(['jobs.*']), says: 'Following' })
  await app.submit('fine', {}, { owner: 'bob' })
  const { id } = await app.submit('slow', {}, { owner: 'ann' })
  await until('its own is told', () => stdout().includes(id))
  expect(stdout()).not.toContain('owner bob')
  const waiting = redress(['jobs', 'wait', id], { env: await tokenFor(['jobs.show']) })
  release()
  expect(await waiting).toMatchObject({ code: 0, stdout: `Job ${id} is complete.\n` })
})

test('events continue after a restart of the server, without a gap', async () => {
  const data = folder()
  const app = makeApp({ store: `sqlite:${join(data, 'redress.db')}` })
  app.job('fine', { run: () => 1 })
  onTestFinished(() => app.stop())
  let server = await startServer({ app, port: 0, auth: 'none' })
  onTestFinished(() => server.stop())
  const port = Number(new URL(server.url).port)
  const { stdout, stderr } = await running(['events', '--server', server.url], { says: 'Following' })
  const first = await app.submit('fine', {})
  await until('the first is told', () => stdout().includes(first.id))
  await server.stop({ graceMs: 0 })
  await until('the break is noticed', () => stderr().includes('broke; reconnecting'))
  const second = await app.submit('fine', {})
  server = await startServer({ app, port, auth: 'none' })
  await until('the second is told', () => stdout().includes(second.id))
  expect(stdout().split('job.queued')).toHaveLength(3)
})
