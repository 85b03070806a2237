import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { redress } from '../../../packages/redress/src/app/app.ts'
import { answer } from '../../../test/support/servers/origin-server.ts'
import { fetchboxApp } from '../src/index.ts'
import { openSealer } from '../src/sealer.ts'
import { Rig } from './rig.ts'

const SECRETS = ['Bearer s3cr3t-of-ann', 'sid=hidden-cookie', 'hidden-api-key', 'hidden-by-any-name']
const HEADERS = { Authorization: SECRETS[0], cookie: SECRETS[1], 'X-Api-Key': SECRETS[2], 'X-Whatever': SECRETS[3] }

const folder = mkdtempSync(join(tmpdir(), 'redress-sealing-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Everything that is on the disk below a folder: databases, their logs, manifests. */
const everythingIn = (path: string): string =>
  readdirSync(path, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    .join('\n')

test('the headers that a client gives reach the origin, and are readable nowhere else, also after a replay', async () => {
  const rig = await Rig.open({ store: `sqlite:${join(folder, 'redress.db')}` })
  const url = rig.origin.plan('/private', answer(404), answer(200, 'it is there now'))
  const { id, resourcesFailed } = await rig.run([{ id: 'a', url, headers: HEADERS }])
  expect(resourcesFailed).toBe(1)
  const [{ jobId, deadLetter }] = await rig.resources(id)
  const operator = rig.as('operator')
  const paths = [
    ...['', '/events', '/failures', '/explain', '/attempts'].map((path) => `/api/jobs/${jobId}${path}`),
    ...['/api/jobs', '/api/failures', '/api/dead-letters', `/api/dead-letters/${deadLetter.offset}`],
    ...['/api/dead-letters/export', '/api/dead-letters/export?format=protobuf', '/api/audit'],
    ...[`/fetchbox/jobs/${id}`, `/fetchbox/jobs/${id}/resources`, `/api/batches/${id}`],
  ]
  const read = await Promise.all(paths.map(async (path) => (await operator.get(path)).text))
  expect(read.some((text) => text.includes('sealed:1:'))).toBe(true)

  await operator.post(`/api/dead-letters/${deadLetter.offset}/replay`, { reason: 'it is there now' })
  const settled = await rig.settled(id)
  expect(settled.resourcesCompleted).toBe(1)
  const sent = rig.origin.requests.filter(({ path }) => path === '/private')
  const lower = Object.fromEntries(Object.entries(HEADERS).map(([name, value]) => [name.toLowerCase(), value]))
  expect(sent).toHaveLength(2)
  for (const { headers } of sent) expect(headers).toMatchObject(lower)

  const kept = [...read, everythingIn(folder), everythingIn(rig.folder), JSON.stringify(rig.log.lines)].join('\n')
  for (const secret of SECRETS) expect(kept.includes(secret), secret).toBe(false)
})

test('a worker with another key fails the resource with a code, and asks the origin for nothing', async () => {
  const store = `sqlite:${join(folder, 'two-keys.db')}`
  const rig = await Rig.open({ store, isWorking: false, env: { FETCHBOX_SECRET: 'a'.repeat(32) } })
  const url = rig.origin.plan('/mine', answer(200, 'x'))
  const id = await rig.submit([{ id: 'a', url, headers: { authorization: 'Bearer x' } }])
  const app = redress({ store })
  const env = { FETCHBOX_SECRET: 'b'.repeat(32), FETCHBOX_ALLOW: rig.origin.address }
  const other = await fetchboxApp().install(app, { home: join(folder, 'other'), env, log: rig.log })
  await app.work({ pollMs: 10 })
  await rig.settled(id)
  await app.stop({ graceMs: 5_000 })
  await other.stop?.()
  const [{ error, deadLetter }] = await rig.resources(id)
  expect([error.code, deadLetter]).toEqual(['SYSTEM_KEY_MISSING', expect.anything()])
  expect(rig.origin.requests).toHaveLength(0)
  // Where the key is, it is replayed.
  await rig.work()
  await rig.as('operator').post(`/api/dead-letters/${deadLetter.offset}/replay`, { reason: 'the key is here' })
  expect((await rig.settled(id)).resourcesCompleted).toBe(1)
})

test('the same request with headers and the same key is accepted once, and another one is refused', async () => {
  const rig = await Rig.open({ isWorking: false })
  const body = (value: string) => ({ resources: [{ id: 'a', url: rig.origin.url('/x'), headers: { cookie: value } }] })
  const named = { 'idempotency-key': 'once' }
  const statuses = []
  for (const value of ['a=1', 'a=1', 'a=2']) statuses.push((await rig.as('ann').submit(body(value), named)).status)
  expect(statuses).toEqual([202, 200, 409])
})

test('a sealed text opens only unchanged, with the same secret and in the same context', () => {
  const sealer = openSealer('a'.repeat(32), 'tests')
  const sealed = sealer.seal('päss', 'job name')
  expect(sealed).not.toBe(sealer.seal('päss', 'job name'))
  expect(sealer.open(sealed, 'job name')).toBe('päss')
  const wrong = [sealed.slice(0, -2), `${sealed}AA`, 'sealed:1:', 'sealed:1:AAAA', 'päss', sealed.replace('1', '2')]
  for (const text of wrong) expect(sealer.open(text, 'job name'), text).toBeNull()
  expect(sealer.open(sealed, 'another name')).toBeNull()
  expect(openSealer('b'.repeat(32), 'tests').open(sealed, 'job name')).toBeNull()
})
