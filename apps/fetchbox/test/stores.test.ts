import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { redress } from '../../../packages/redress/src/index.ts'
import { derivedId } from '../../../packages/redress/src/store/scripts/derived-id.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { answer, OriginServer } from '../../../test/support/servers/origin-server.ts'
import { ownDatabase } from '../../../test/support/stores/databases.ts'
import { startPostgres, type TestPostgres } from '../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { until } from '../../../test/support/until.ts'
import { fetchboxApp } from '../src/index.ts'
import { FetchboxClient } from './rig.ts'

let postgres: TestPostgres
let origin: OriginServer
beforeAll(async () => {
  const started = await Promise.all([startPostgres(), OriginServer.start()])
  postgres = started[0]
  origin = started[1]
})
afterAll(() => Promise.all([postgres.stop(), origin.stop()]))

/** Fetchbox on a store, open to everybody on this machine. */
async function serve(
  store: string,
  folder: string,
): Promise<{ client: FetchboxClient; settled(id: string): Promise<Shown> }> {
  const app = redress({ store })
  const env = { FETCHBOX_ALLOW: origin.address, FETCHBOX_RETRY_BASE_MS: '1', FETCHBOX_LEASE_SEC: '1' }
  const installContext = { home: join(folder, 'fetchbox'), env, log: keepingLog() }
  const installed = await fetchboxApp().install(app, installContext)
  const server = await startServer({ app, port: 0, auth: 'none', mounts: [installed.mount ?? (() => undefined)] })
  onTestFinished(async () => {
    await server.stop({ graceMs: 0 })
    await app.stop({ graceMs: 5_000 })
    await installed.stop?.()
  })
  await server.ready
  await app.work({ pollMs: 20 })
  const client = new FetchboxClient(server.url, null)
  const settled = (id: string) =>
    until('the job is over', async () => {
      const { json } = await client.get(`/fetchbox/jobs/${id}`)
      return ['queued', 'processing'].includes(json.status) ? null : json
    })
  return { client, settled }
}

test('on PostgreSQL a job is accepted once, fails, is replayed from its dead letter, listed and purged', async () => {
  const { client, settled } = await serve(await ownDatabase(postgres.url), temporaryFolder())
  const url = origin.plan('/pg', answer(500))
  const body = {
    resources: [
      { id: 'a', url: origin.plan('/pg-fine', answer(200, 'fine')) },
      { id: 'b', url },
    ],
  }
  const answers = await Promise.all(Array.from({ length: 20 }, () => client.submit(body, { 'idempotency-key': 'pg' })))
  expect(answers.map(({ status }) => status).toSorted()).toEqual([...Array(19).fill(200), 202])
  expect((await client.submit({ resources: [body.resources[1]] }, { 'idempotency-key': 'pg' })).status).toBe(409)
  const { id } = answers[0]?.json ?? {}
  const shown = await settled(id)
  expect(shown).toMatchObject({ status: 'partial', lastError: { code: 'DOWNLOAD_HTTP_5XX' }, bytes: 4 })
  const letter = (await client.get(`/api/dead-letters/${shown.deadLetter.offset}`)).json
  expect(letter).toMatchObject({ queue: 'fetchbox', batchId: id, input: { resource: 'b' } })

  origin.plan('/pg', answer(200, 'healed'))
  await client.post(`/api/dead-letters/${letter.offset}/replay`, { reason: 'it is back' })
  expect(await settled(id)).toMatchObject({ status: 'complete', bytes: 10 })
  const { resources } = (await client.get(`/fetchbox/jobs/${id}/resources`)).json
  expect(resources.map((one: Shown) => [one.id, one.status])).toEqual([
    ['a', 'complete'],
    ['b', 'complete'],
  ])
  expect((await client.get('/fetchbox/jobs?status=complete')).json.jobs).toHaveLength(1)
  expect((await client.delete(`/fetchbox/jobs/${id}`)).status).toBe(202)
  await until('it is purged', async () => (await client.delete(`/fetchbox/jobs/${id}`)).status === 200)
})

/** The process is killed by itself, and by nobody's leave. */
async function killed(folder: string, dieAt: string, url: string): Promise<void> {
  const fixture = join(import.meta.dirname, 'fixtures/dying-fetchbox.ts')
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...options, fixture, folder, dieAt, origin.address, url], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL'])
}

test('a submission whose server is killed between manifest and batch is accepted once when it is sent again', async () => {
  const folder = temporaryFolder()
  const url = origin.plan('/before-batch', answer(200, 'x'))
  await killed(folder, 'before-batch', url)
  const { client, settled } = await serve(`sqlite:${join(folder, 'redress.db')}`, folder)
  expect((await client.get('/fetchbox/jobs')).json.jobs).toEqual([])
  const key = { 'idempotency-key': 'once' }
  expect((await client.submit({ resources: [{ id: 'other', url }] }, key)).status).toBe(409)
  const again = await client.submit({ resources: [{ id: 'a', url }] }, key)
  expect([again.status, again.json.id]).toEqual([202, derivedId('fetchbox', 'local', 'once')])
  expect(await settled(again.json.id)).toMatchObject({ status: 'complete', resourcesTotal: 1 })
  expect(origin.asked('/before-batch')).toBe(1)
})

test.each(['before-upload', 'after-upload'])(
  'a resource whose worker is killed %s is fetched by the next one, and stored once',
  async (dieAt) => {
    const folder = temporaryFolder()
    const url = origin.plan(`/${dieAt}`, answer(200, 'x'.repeat(400_000)))
    await killed(folder, dieAt, url)
    const { client, settled } = await serve(`sqlite:${join(folder, 'redress.db')}`, folder)
    const id = derivedId('fetchbox', 'local', 'once')
    expect(await settled(id)).toMatchObject({ status: 'complete', bytes: 400_000 })
    const { resources } = (await client.get(`/fetchbox/jobs/${id}/resources`)).json
    expect(resources).toMatchObject([{ attempts: 2, bytes: 400_000 }])
    const stored = readdirSync(join(folder, `fetchbox/storage/resources/sample/${id}`))
    expect(stored.filter((name) => !name.startsWith('.'))).toEqual(['a'])
    expect(readdirSync(join(folder, 'fetchbox/work'))).toEqual([])
    expect(readdirSync(folder).filter((name) => name.startsWith('spool'))).toEqual([])
  },
)
