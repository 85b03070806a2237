import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { redress } from '../../../packages/redress/src/index.ts'
import { openSessions } from '../src/session.ts'
import { readSettings } from '../src/settings.ts'
import { pdfSaying, Rig, temporary } from './rig.ts'

/** Nobody listens there, and nobody works: only who may come in is asked here. */
const rig = (folder?: string) =>
  Rig.open({ gatewayUrl: 'http://127.0.0.1:1', hasWorker: false, ...(folder !== undefined && { folder }) })

test('a visitor gets a signed HttpOnly cookie with the first upload and sees only their own files', async () => {
  const made = await rig()
  const [ann, bob] = [made.visitor(), made.visitor()]
  const { headers, json } = await ann.upload(await pdfSaying('ann'))
  expect(headers.getSetCookie()[0]).toMatch(
    /^pdf-xml=anon-[\w-]{22}\.[\w-]{43}; Max-Age=2592000; Path=\/; HttpOnly; SameSite=Lax$/,
  )
  await bob.uploaded(await pdfSaying('bob'))
  const seen = (await ann.ask('/api/jobs')).json.jobs
  expect(seen.map(({ id }: { id: string }) => id)).toEqual([json.id])
  expect((await ann.ask('/api/jobs?owner=anybody')).json.jobs).toHaveLength(1)
})

test('a cookie with a wrong signature is ignored', async () => {
  const made = await rig()
  const visitor = made.visitor()
  await visitor.uploaded(await pdfSaying('mine'))
  const [name = '', signature = ''] = visitor.cookie.replace('pdf-xml=', '').split('.')
  for (const forged of [
    `${name}.${signature.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'))}`,
    `anon-AAAAAAAAAAAAAAAAAAAAAA.${signature}`,
    `${name}`,
    `${name}.`,
    `admin.${signature}`,
    '.',
  ]) {
    visitor.cookie = `pdf-xml=${forged}`
    expect((await visitor.ask('/api/jobs')).status, forged).toBe(401)
  }
})

test('a visitor can act on their own conversions and nothing else', async () => {
  const made = await rig()
  const visitor = made.visitor()
  const id = await visitor.uploaded(await pdfSaying('mine'))
  for (const path of ['', '/events', '/failures', '/explain']) {
    expect((await visitor.ask(`/api/jobs/${id}${path}`)).status).toBe(200)
  }
  const post = { method: 'POST', headers: { 'content-type': 'application/json' } }
  const submit = { type: 'pdf.convert', input: { fileName: 'x', mapping: 'text', bytes: 1, sha256: null } }
  const asked = [
    ['/api/jobs', { ...post, body: JSON.stringify(submit) }],
    [`/api/jobs/${id}/mark-failed`, { ...post, body: '{"reason":"x"}' }],
    ['/api/queues', {}],
    ['/api/failures', {}],
    ['/api/audit', {}],
    ['/api/tokens', {}],
    ['/metrics', {}],
  ] as const
  for (const [path, init] of asked) expect((await visitor.ask(path, init)).status, path).toBe(403)
  expect((await visitor.ask('/api/events?topic=all')).status).toBe(403)
})

test('sessions outlive the server, and the key that signs them is for its eyes only', async () => {
  const first = await rig()
  const visitor = first.visitor()
  const id = await visitor.uploaded(await pdfSaying('mine'))
  const { cookie } = visitor
  const again = await rig(first.folder)
  const later = again.visitor()
  later.cookie = cookie
  expect((await later.job(id)).id).toBe(id)
  const key = join(first.folder, 'pdf-xml/session.key')
  expect(statSync(key).mode & 0o777).toBe(0o600)
  expect(readFileSync(key, 'utf8')).toMatch(/^[0-9a-f]{64}$/)
})

test('an unreadable or invalid key stops the start of the server with an action', () => {
  const [folder, short] = [temporary(), temporary()]
  mkdirSync(join(folder, 'session.key'))
  writeFileSync(join(short, 'session.key'), 'x')
  const open = (home: string) => openSessions(readSettings({}, home), false)
  expect(() => open(folder)).toThrow('session.key, the key that signs sessions, cannot be read (EISDIR).')
  expect(() => open(short)).toThrow('session.key, the key that signs sessions, is too short.')
})

test('SESSION_SECRET makes machines know each other’s sessions', () => {
  const env = { SESSION_SECRET: 'a secret that both machines have been given' }
  const open = () => openSessions(readSettings(env, temporary()), false)
  const set: string[] = []
  open().begin({ setCookie: (...given: string[]) => void set.push(...given) } as never)
  const [, cookie = ''] = set
  const found = open().find({ cookies: { 'pdf-xml': cookie } } as never)
  expect(found).toMatchObject({ role: 'owner', name: cookie.split('.')[0] })
})

test('behind https the cookie belongs to this one host', () => {
  const sessions = openSessions(readSettings({}, temporary()), true)
  const set: unknown[] = []
  sessions.begin({ setCookie: (...given: unknown[]) => void set.push(...given) } as never)
  expect(set[0]).toBe('__Host-pdf-xml')
  expect(set[2]).toMatchObject({ secure: true, httpOnly: true, path: '/' })
})

test('an app cannot admit a caller with more rights than an owner with scopes', async () => {
  const app = redress({ store: 'sqlite::memory:' })
  const bad = { name: 'eve', role: 'admin', account: null, scopes: null, isPerson: true } as const
  const server = await startServer({ app, port: 0, mounts: [(_, tools) => tools.letIn(async () => bad)] })
  onTestFinished(async () => {
    await server.stop({ graceMs: 0 })
    await app.stop()
  })
  await server.ready
  expect((await fetch(`${server.url}/api/jobs`)).status).toBe(500)
})
