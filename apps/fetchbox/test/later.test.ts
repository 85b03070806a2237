import { existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/index.ts'
import { type TestKit, testKit } from '../../../packages/redress/src/testing/index.ts'
import type { Shown } from '../../../test/support/apps/client.ts'
import { keepingLog } from '../../../test/support/scene.ts'
import { until } from '../../../test/support/until.ts'
import { FetchFailure } from '../src/failures/failure.ts'
import { fetchboxApp } from '../src/index.ts'
import { RETENTION } from '../src/policy.ts'
import type { Transfer } from '../src/transfer-port.ts'
import { FetchboxClient } from './rig.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** Fails as it is told, then succeeds: in a time that stands still, a real network would have no time to answer. */
class PlannedTransfer implements Transfer {
  readonly avoided: (string | null)[] = []
  readonly #failures: FetchFailure[]
  removed = 0
  uploads = 0

  constructor(...failures: FetchFailure[]) {
    this.#failures = failures
  }

  async download(_task: unknown, { avoidProxy }: { avoidProxy: string | null }) {
    this.avoided.push(avoidProxy)
    const failure = this.#failures.shift()
    if (failure !== undefined) throw failure
    const remove = async () => void this.removed++
    const open = () => Readable.from([Buffer.from('x')])
    return { sha256: 'ab', bytes: 1, contentType: null, contentEncoding: null, open, remove }
  }

  async upload(_spooled: unknown, { key }: { key: string }) {
    this.uploads++
    return { key, bytes: 1, sha256: 'ab' }
  }

  async close(): Promise<void> {}
}

const busy = (retryAfterMs?: number, proxy: string | null = null) =>
  new FetchFailure('DOWNLOAD_HTTP_429', 'GET https://example.org/a was answered 429', {
    context: { status: 429, proxy },
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })

async function sceneWith(transfer: Transfer, env: Record<string, string> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'redress-fetchbox-'))
  const log = keepingLog()
  const kit: TestKit = testKit({ log, startMs: Date.now() })
  const installed = await fetchboxApp({ transfer }).install(kit.app, { home: folder, env, log })
  const server = await startServer({
    app: kit.app,
    port: 0,
    auth: 'none',
    mounts: [installed.mount ?? (() => undefined)],
  })
  await server.ready
  onTestFinished(async () => {
    await server.stop({ graceMs: 0 })
    await kit.stop()
    await installed.stop?.()
    rmSync(folder, { recursive: true, force: true })
  })
  const client = new FetchboxClient(server.url, null)
  const { json } = await client.submit({ resources: [{ id: 'a', url: 'https://example.org/a' }] })
  const resource = async (): Promise<Shown> =>
    (await client.get(`/fetchbox/jobs/${json.id}/resources`)).json.resources[0]
  const snapshot = async (): Promise<Shown> => (await client.get(`/fetchbox/jobs/${json.id}`)).json
  return { kit, folder, id: json.id as string, resource, snapshot }
}

test('a Retry-After that is longer than a slot should be held gives the job back to the queue until then', async () => {
  const transfer = new PlannedTransfer(busy(10 * MINUTE_MS))
  const { kit, resource } = await sceneWith(transfer)
  await kit.tick()
  const waiting = await resource()
  expect(waiting).toMatchObject({ status: 'queued', attempts: 1, deadLetter: null })
  expect(waiting.error).toEqual({
    code: 'DOWNLOAD_HTTP_429',
    message: 'GET https://example.org/a was answered 429',
    context: { proxy: null, attempt: 1, status: 429 },
  })
  expect(Date.parse(waiting.retryAfter) - kit.clock.nowMs()).toBe(10 * MINUTE_MS)
  await kit.advance('9m')
  expect((await resource()).status).toBe('queued')
  await kit.advance('2m')
  expect(await resource()).toMatchObject({ status: 'complete', attempts: 2, error: null })
})

test('a short one is waited for in the stage, and the next try takes another way', async () => {
  const transfer = new PlannedTransfer(busy(20_000, 'eu#1'), busy(undefined, 'eu#2'))
  const { kit, resource } = await sceneWith(transfer)
  await kit.tick()
  expect((await resource()).status).toBe('processing')
  await kit.advance('19s')
  expect(transfer.avoided).toEqual([null])
  await kit.advance('2s')
  expect(await resource()).toMatchObject({ status: 'complete', attempts: 1 })
  expect(transfer.avoided).toEqual([null, 'eu#1', 'eu#2'])
  expect(transfer.removed).toBe(1)
})

test('an origin that says "later" again and again uses up the attempts, and is then a dead letter', async () => {
  const transfer = new PlannedTransfer(...Array.from({ length: 9 }, () => busy(5 * MINUTE_MS)))
  const { kit, resource, snapshot } = await sceneWith(transfer)
  await kit.drain()
  expect(await resource()).toMatchObject({ status: 'failed', attempts: 3, error: { code: 'DOWNLOAD_HTTP_429' } })
  expect(transfer.avoided).toHaveLength(3)
  expect((await snapshot()).deadLetter.offset).toBeGreaterThan(0)
})

test('stored content expires with an event, and content without a job is removed after a day', async () => {
  const { kit, folder, id, resource } = await sceneWith(new PlannedTransfer(), { FETCHBOX_KEEP_DAYS: '2' })
  await kit.tick()
  const storage = join(folder, 'storage')
  const orphan = (name: string) => `manifests/sample/${name}/metadata.json`
  const longAgo = new Date(Date.now() - 5 * DAY_MS)
  const put = (key: string, isOld: boolean) => {
    mkdirSync(join(storage, dirname(key)), { recursive: true })
    writeFileSync(join(storage, key), '{}')
    if (isOld) utimesSync(join(storage, key), longAgo, longAgo)
  }
  const own = [`resources/sample/${id}/a`, `manifests/sample/${id}/metadata.json`]
  for (const key of own) put(key, true)
  put(orphan('old'), true)
  put(orphan('new'), false)
  put('notes/readme.txt', true)
  const left = (keys: readonly string[]) => keys.map((key) => existsSync(join(storage, key)))
  const sweep = async () => {
    const { id: swept } = await kit.app.submit(RETENTION, {})
    await until('it was swept', async () => {
      await kit.tick()
      return (await kit.app.jobs.find(swept))?.status === 'complete'
    })
  }
  await sweep()
  expect(left([...own, orphan('old'), orphan('new'), 'notes/readme.txt'])).toEqual([true, true, false, true, true])
  await kit.clock.advance(2 * DAY_MS + 1)
  await sweep()
  expect(left([...own, orphan('new'), 'notes/readme.txt'])).toEqual([false, false, true, true])
  const { jobId, status } = await resource()
  expect(status).toBe('complete')
  const [told] = (await kit.app.jobs.events(jobId)).events.filter(({ kind }) => kind === 'expired')
  expect(told?.data).toMatchObject({ reason: expect.stringContaining('removed after 2 days') })
})
