import { writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type HttpServer, startServer } from '../../../src/http/server.ts'
import { type App, redress as makeApp } from '../../../src/index.ts'
import { requestOf } from '../../../src/operations/request-of.ts'
import { folder, json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let store: PreparedStore
let app: App
let server: HttpServer
let operator: string
let viewer: string

beforeAll(async () => {
  store = await prepareStore()
  app = makeApp({ store: `sqlite:${join(store.data, 'redress.db')}` })
  server = await startServer({ app, port: 0 })
  const token = async (name: string, role: 'operator' | 'viewer') =>
    (await app.perform('tokens.create', { name, role, actor: 'olga' })).token ?? ''
  operator = await token('tom', 'operator')
  viewer = await token('vera', 'viewer')
})
afterAll(async () => {
  await server.stop()
  await app.stop()
  await store.remove()
})

const call = (args: string[], env: Record<string, string> = {}) =>
  redress([...args, '--server', server.url], { env: { REDRESS_TOKEN: operator, ...env } })

test('the CLI retries a job through a server in the name of its token [P40]', async () => {
  const id = store.ids.failed
  const { code, stdout, stderr } = await call(['retry', id, '--reason', 'the gateway is back'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: `Job ${id} is back in the queue.\n` })
  expect(stderr).toContain(`redress explain ${id} --server ${server.url}`)
  const trail = (await app.perform('audit.list', { id })).entries
  expect(trail[0]).toMatchObject({ actor: 'tom', act: 'jobs.retry', reason: 'the gateway is back' })
})

test('dead letters are exported from a server as from the store itself [F1]', async () => {
  const command = ['dead-letters', 'export', '--code', 'GW_5XX']
  const { code, stdout } = await call(command)
  expect(code).toBe(0)
  expect(JSON.parse(stdout)).toMatchObject({ jobId: store.ids.letter, failure: { code: 'GW_5XX' } })
  const stranger = await call(command, { REDRESS_TOKEN: 'rdr_wrong' })
  expect([stranger.code, stranger.stdout]).toEqual([4, ''])
})

test('the server and the token may be named by the environment, and options win over it', async () => {
  const file = join(folder(), 'token')
  writeFileSync(file, `${viewer}\n`)
  const env = { REDRESS_SERVER: server.url }
  const jobs = await json(['jobs', '--data', store.data])
  expect(await json(['jobs'], { env: { ...env, REDRESS_TOKEN: viewer } })).toEqual(jobs)
  expect(await json(['jobs'], { env: { ...env, REDRESS_TOKEN_FILE: file } })).toEqual(jobs)
  expect(await json(['--token-file', file, 'jobs'], { env: { ...env, REDRESS_TOKEN: 'rdr_wrong' } })).toEqual(jobs)
  const gone = { REDRESS_SERVER: 'http://127.0.0.1:1' }
  expect(await json(['jobs', '--data', store.data], { env: gone }), '--data wins over REDRESS_SERVER').toEqual(jobs)
})

describe('invalid usage', () => {
  test.each([
    ['without a token', {}, 4, /^SIGN_IN_REQUIRED: .*\nPut a token into REDRESS_TOKEN, or give --token-file\./],
    ['with a token that is none', { REDRESS_TOKEN: 'rdr_wrong' }, 4, /^SIGN_IN_REQUIRED: This token is not valid/],
    ['with two words for a token', { REDRESS_TOKEN: 'two words' }, 2, /^USAGE: REDRESS_TOKEN does not contain a token/],
    ['with a token file that is not there', { REDRESS_TOKEN_FILE: '/no/file' }, 2, /^USAGE: Cannot read the token/],
  ])('%s', async (_, env, code, message) => {
    const answer = await redress(['jobs', '--server', server.url], { env })
    expect(answer).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(message) })
    expect(answer.stderr).not.toContain('two words')
  })

  test('what the role does not allow: 4', async () => {
    const answer = await call(['retry', store.ids.failed, '--reason', 'x'], { REDRESS_TOKEN: viewer })
    expect(answer).toMatchObject({ code: 4, stderr: expect.stringMatching(/^ROLE_TOO_LOW: /) })
  })

  test('the code of the answer decides, with --json too', async () => {
    const { code, stdout, stderr } = await call(['jobs', 'show', 'nobody', '--json'])
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'JOB_NOT_FOUND', message: 'There is no job nobody.' } })
    expect(await call(['jobs', 'list', '--q', 'x', '--limit', '5000'])).toMatchObject({ code: 2 })
  })

  test.each([
    [['jobs', '--data', 'x'], '--server and --data cannot be combined'],
    [['jobs', '--store', 'sqlite:x'], '--server and --store cannot be combined'],
    [['jobs', '--app', 'x.ts'], '--server and --app cannot be combined'],
    [['retry', 'x', '--reason', 'y', '--actor', 'ann'], '--actor cannot be used with a server'],
    [['doctor'], '--server works only with --orphans'],
    [['copy'], 'redress copy works on a store only: it has no option --server.'],
    [['migrate'], 'redress migrate works on a store only: it has no option --server.'],
    [['policy', 'check', 'x.json'], 'redress policy check works on a store only: it has no option --server.'],
    [['policy', 'simulate', 'x.json'], 'redress policy simulate works on a store only: it has no option --server.'],
  ])('what does not go together: %j', async (args, message) => {
    expect(await call(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(message) })
  })

  test('a token as an argument, where every user of the machine would see it', async () => {
    const { code, stderr } = await redress(['jobs', '--server', server.url, '--token', operator])
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('Did you mean --token-file?') })
    const inUrl = await redress(['jobs', '--server', `http://me:${operator}@127.0.0.1`])
    expect(inUrl).toMatchObject({ code: 2, stderr: expect.stringContaining('must be like https://') })
    expect(inUrl.stderr).not.toContain(operator)
  })
})

describe('a server that cannot be used answers 5', () => {
  const other = async (answer: RequestListener): Promise<string> => {
    const stranger = createServer(answer)
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void stranger.close())
    return `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
  }

  test('connection refused', async () => {
    const { code, stderr } = await redress(['jobs', '--server', 'http://127.0.0.1:1'])
    expect({ code, stderr }).toEqual({
      code: 5,
      stderr: expect.stringMatching(/^SERVER_UNREACHABLE: .*127\.0\.0\.1:1 /),
    })
  })

  test.each<[string, RequestListener]>([
    ['another program', (_, answer) => void answer.writeHead(200, { 'content-type': 'text/html' }).end('<p>Hello')],
    ['one that sends its callers elsewhere', (_, answer) => void answer.writeHead(302, { location: '/login' }).end()],
    ['a proxy without its server', (_, answer) => void answer.writeHead(502).end('Bad Gateway')],
    ['one that hangs up', (request) => void request.socket.destroy()],
    ['one that says JSON and means something else', (_, answer) => void jsonOf(answer, '[]')],
    ['one that says JSON and has another answer', (_, answer) => void jsonOf(answer, '{"hello":1}')],
    ['one that says JSON and has none', (_, answer) => void jsonOf(answer, '{not json')],
  ])('%s', async (_, listener) => {
    const url = await other(listener)
    const answer = await redress(['jobs', '--server', url], { env: { REDRESS_TOKEN: operator } })
    expect(answer).toMatchObject({ code: 5, stdout: '', stderr: expect.stringMatching(/^SERVER_UNREACHABLE: /) })
    expect(answer.stderr).not.toContain(operator)
  })
})

describe('a server that disappears during a request', () => {
  test('only an unanswered mutating request is reported as possibly done', async () => {
    const hangsUp = createServer((request) => void request.socket.destroy())
    await new Promise<void>((resolve) => hangsUp.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void hangsUp.close())
    const url = `http://127.0.0.1:${(hangsUp.address() as AddressInfo).port}`
    const acted = await redress(['queues', 'pause', 'default', '--reason', 'x', '--server', url])
    expect(acted).toMatchObject({
      code: 5,
      stderr: expect.stringContaining('It may have been done: check before you repeat it.'),
    })
    const looked = await redress(['queues', '--server', url])
    expect(looked).toMatchObject({ code: 5, stderr: expect.not.stringContaining('may have been done') })
    const refused = await redress(['queues', 'pause', 'default', '--reason', 'x', '--server', 'http://127.0.0.1:1'])
    expect(refused).toMatchObject({ code: 5, stderr: expect.not.stringContaining('may have been done') })
  })
})

test('control characters of a server do not reach the terminal', async () => {
  const said = { code: 'JOB_NOT_FOUND', message: '\u001b[2J\u001b]0;owned\u0007gone\u202e', action: '\u001b[31mlook' }
  const rude = createServer((_, answer) => {
    answer.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify({ error: said }))
  })
  await new Promise<void>((resolve) => rude.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void rude.close())
  const { code, stderr } = await redress([
    'jobs',
    '--server',
    `http://127.0.0.1:${(rude.address() as AddressInfo).port}`,
  ])
  expect(code).toBe(3)
  expect(stderr).toMatch(/gone.*\nlook\n$/)
  expect(stderr).not.toMatch(/[^\P{Cc}\n]|\u202e/u)
})

function jsonOf(answer: ServerResponse, text: string): void {
  answer.writeHead(200, { 'content-type': 'application/json' }).end(text)
}

test('an input cannot change the path of its route', () => {
  expect(requestOf('jobs.show', { id: 'a/b?c' })).toMatchObject({ method: 'GET', path: '/api/jobs/a%2Fb%3Fc' })
  expect(() => requestOf('jobs.retry', { id: '..', reason: 'x' })).toThrow(/The input of jobs.retry is invalid/)
  expect(requestOf('dead-letters.purge', { offset: '3', actor: 'ann', reason: 'x' })).toEqual({
    method: 'POST',
    path: '/api/dead-letters/purge',
    body: '{"offset":"3","reason":"x"}',
  })
})
