import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { answer } from '../../../test/support/servers/origin-server.ts'
import { until } from '../../../test/support/until.ts'
import { Rig } from './rig.ts'

let rig: Rig
beforeAll(async () => {
  rig = await Rig.open()
})

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex')

describe('a job whose resources are all there', () => {
  test('is accepted with 202 and its address, fetched, stored under its keys, and given back', async () => {
    const a = rig.origin.plan('/a.txt', answer(200, 'hello', { 'content-type': 'text/plain' }))
    const b = rig.origin.plan('/b.bin', answer(200, 'x'.repeat(300_000)))
    const ann = rig.as('ann')
    const accepted = await ann.submit({
      resources: [
        { id: 'a', url: a, headers: { 'X-Mine': 'yes' }, sha256: sha256('hello') },
        { id: 'b/ß', url: b },
      ],
      metadata: { campaign: 7 },
    })
    expect(accepted.status).toBe(202)
    const { id } = accepted.json
    expect(accepted.json).toEqual({ id, status: expect.any(String), resources: 2, location: `/fetchbox/jobs/${id}` })
    expect(accepted.headers.get('location')).toBe(`/fetchbox/jobs/${id}`)

    expect(await rig.settled(id)).toEqual({
      id,
      type: 'sample',
      tenant: 'ann',
      status: 'complete',
      resourcesTotal: 2,
      resourcesCompleted: 2,
      resourcesFailed: 0,
      resourcesPending: 0,
      resourcesCancelled: 0,
      bytes: 300_005,
      lastError: null,
      deadLetter: null,
      createdAt: expect.stringMatching(/^\d{4}-.*Z$/),
      finishedAt: expect.stringMatching(/^\d{4}-.*Z$/),
      manifest: `manifests/sample/${id}/metadata.json`,
      metadata: { campaign: 7 },
      finalize: {
        status: 'complete',
        result: { summary: '2 of 2 resources, 300005 bytes' },
        error: null,
        finishedAt: expect.any(String),
      },
      purge: null,
    })
    const [first] = await rig.resources(id)
    expect(first).toMatchObject({
      id: 'a',
      url: a,
      status: 'complete',
      attempts: 1,
      bytes: 5,
      sha256: sha256('hello'),
      key: `resources/sample/${id}/a`,
      error: null,
      deadLetter: null,
    })
    const storage = join(rig.folder, 'fetchbox/storage')
    expect(readFileSync(join(storage, `resources/sample/${id}/a`), 'utf8')).toBe('hello')
    const manifest = JSON.parse(readFileSync(join(storage, `manifests/sample/${id}/metadata.json`), 'utf8'))
    expect(manifest).toMatchObject({ version: 1, id, type: 'sample', tenant: 'ann', metadata: { campaign: 7 } })
    expect(manifest.resources).toHaveLength(2)
    expect(rig.origin.requests.find(({ path }) => path === '/a.txt')?.headers).toMatchObject({
      'x-mine': 'yes',
      accept: '*/*',
    })
    expect(readdirSync(join(rig.folder, 'fetchbox/work'))).toEqual([])

    const content = await ann.get(`/fetchbox/jobs/${id}/resources/a/content`)
    expect([content.status, content.text, content.headers.get('content-type')]).toEqual([200, 'hello', 'text/plain'])
    expect(content.headers.get('content-disposition')).toMatch(/^attachment/)
    const part = await ann.get(`/fetchbox/jobs/${id}/resources/a/content`, { range: 'bytes=1-2' })
    expect([part.status, part.text, part.headers.get('content-range')]).toEqual([206, 'el', 'bytes 1-2/5'])
    for (const [tag, status] of [
      [content.headers.get('etag'), 206],
      ['"of another"', 200],
    ] as const) {
      const headers = { range: 'bytes=1-2', 'if-range': String(tag) }
      expect((await ann.get(`/fetchbox/jobs/${id}/resources/a/content`, headers)).status).toBe(status)
    }
    const named = await ann.get(`/fetchbox/jobs/${id}/resources/${encodeURIComponent('b/ß')}/content`)
    expect([named.status, named.text.length]).toEqual([200, 300_000])
    expect((await ann.get(`/fetchbox/jobs/${id}/resources/c/content`)).status).toBe(404)
  })

  test('its resources are listed in the order of the manifest, by page, by status and as JSON lines', async () => {
    const url = rig.origin.plan('/many', answer(200, 'x'))
    const gone = rig.origin.plan('/gone', answer(404))
    const resources = Array.from({ length: 7 }, (_, i) => ({ id: `r${i}`, url: i === 3 ? gone : url }))
    const { id } = await rig.run(resources)
    const ids: string[] = []
    for (let cursor = '0'; cursor !== null; ) {
      const { json } = await rig.as('ann').get(`/fetchbox/jobs/${id}/resources?limit=3&cursor=${cursor}`)
      ids.push(...json.resources.map((resource: { id: string }) => resource.id))
      cursor = json.nextCursor
    }
    expect(ids).toEqual(resources.map((resource) => resource.id))
    expect((await rig.resources(id, '?status=failed')).map((resource) => resource.id)).toEqual(['r3'])
    const lines = await rig.as('ann').get(`/fetchbox/jobs/${id}/resources?format=jsonl`)
    expect(lines.headers.get('content-type')).toContain('application/x-ndjson')
    const read = lines.text.trimEnd().split('\n')
    expect(read.map((line) => JSON.parse(line).id)).toEqual(ids)
    expect((await rig.as('ann').get(`/fetchbox/jobs/${id}/resources?status=odd`)).status).toBe(400)
  })
})

test('content that the origin sent as gzip is returned as gzip, byte for byte, whole and in ranges', async () => {
  const packed = gzipSync('a page of text '.repeat(100))
  const encoded = { 'content-type': 'text/plain', 'content-encoding': 'gzip' }
  const { id } = await rig.run([{ id: 'a', url: rig.origin.plan('/packed', answer(200, packed, encoded)) }])
  const path = `/fetchbox/jobs/${id}/resources/a/content`
  const whole = await rig.as('ann').raw(path)
  expect(whole.headers).toMatchObject({
    ...{ 'content-type': 'text/plain', 'content-encoding': 'gzip', 'content-length': String(packed.byteLength) },
    etag: `"${sha256(packed)}"`,
  })
  expect(packed.equals(whole.body)).toBe(true)
  const part = await rig.as('ann').raw(path, { range: 'bytes=-7' })
  expect([part.status, part.headers['content-encoding']]).toEqual([206, 'gzip'])
  expect(packed.subarray(-7).equals(part.body)).toBe(true)
  // A client that knows the encoding reads the text.
  expect((await rig.as('ann').get(path)).text).toBe('a page of text '.repeat(100))
})

test('a page that a stranger’s server sent is saved, and never runs as a page of ours', async () => {
  const url = rig.origin.plan('/page', answer(200, '<script>alert(1)</script>', { 'content-type': 'text/html' }))
  const { id } = await rig.run([{ id: 'x";y\u202e.html', url }])
  const path = `/fetchbox/jobs/${id}/resources/${encodeURIComponent('x";y\u202e.html')}/content`
  const { status, headers } = await rig.as('ann').get(path)
  expect([status, headers.get('x-content-type-options')]).toEqual([200, 'nosniff'])
  expect(headers.get('content-disposition')).toBe(
    `attachment; filename="x__y_.html"; filename*=UTF-8''x%22%3By%E2%80%AE.html`,
  )
  expect(headers.get('content-security-policy')).toContain("default-src 'none'")
})

describe('tenants', () => {
  test('do not see each other’s jobs: they are not there', async () => {
    const { id } = await rig.run([{ id: 'a', url: rig.origin.plan('/mine', answer(200, 'mine')) }])
    const bob = rig.as('bob')
    for (const path of ['', '/resources', '/resources/a/content']) {
      const { status, json } = await bob.get(`/fetchbox/jobs/${id}${path}`)
      expect([status, json.error.code]).toEqual([404, 'JOB_NOT_FOUND'])
    }
    expect((await bob.delete(`/fetchbox/jobs/${id}`)).status).toBe(404)
    expect((await bob.get('/fetchbox/jobs')).json.jobs).toEqual([])
    const mine = (await rig.as('ann').get('/fetchbox/jobs?limit=1000')).json.jobs
    expect(mine.map((job: { tenant: string }) => job.tenant)).toContain('ann')
    expect(new Set(mine.map((job: { tenant: string }) => job.tenant)).size).toBe(1)
  })

  test('cannot write into each other’s jobs by a retry with another input', async () => {
    const bobs = (
      await rig.as('bob').submit({ resources: [{ id: 'a', url: rig.origin.plan('/bobs', answer(200, 'his')) }] })
    ).json.id
    await rig.settled(bobs)
    const { id } = await rig.run([{ id: 'a', url: rig.origin.plan('/anns', answer(404)) }])
    const [own] = await rig.resources(id)
    const input = {
      job: bobs,
      jobType: 'sample',
      resource: 'a',
      position: 0,
      url: rig.origin.plan('/hers', answer(200)),
    }
    const retried = await rig.as('ann').post(`/api/jobs/${own.jobId}/retry`, { reason: 'mine now', input })
    expect([retried.status, retried.json.error.code]).toEqual([403, 'ROLE_TOO_LOW'])
    expect((await rig.as('bob').get(`/fetchbox/jobs/${bobs}/resources/a/content`)).text).toBe('his')
  })

  test('a client submits for itself, an operator for any tenant, and a viewer for none', async () => {
    const body = { resources: [{ id: 'a', url: rig.origin.plan('/t', answer(200)) }] }
    const other = await rig.as('ann').submit(body, { 'x-fetchbox-tenant': 'bob' })
    expect([other.status, other.json.error.code]).toEqual([403, 'AUTH_TENANT'])
    expect((await rig.as('ann').submit(body, { 'x-fetchbox-tenant': 'ann' })).status).toBe(202)
    const forBob = await rig.as('operator').submit(body, { 'x-fetchbox-tenant': 'bob' })
    expect((await rig.as('bob').get(forBob.json.location)).json.tenant).toBe('bob')
    const odd = await rig.as('operator').submit(body, { 'x-fetchbox-tenant': 'M\u00fcller' })
    expect([odd.status, odd.json.error.code]).toEqual([400, 'VALIDATION_INVALID_FIELD'])
    const viewer = await rig.as('viewer').submit(body)
    expect([viewer.status, viewer.json.error.code]).toEqual([403, 'AUTH_ROLE'])
    const nobody = await rig.as('nobody').submit(body)
    expect([nobody.status, nobody.json.error.code]).toEqual([401, 'AUTH_MISSING'])
    expect(nobody.headers.get('www-authenticate')).toContain('Bearer')
  })
})

test('jobs are listed, the newest first, by type, status and tenant, page by page', async () => {
  const { id } = await rig.run([{ id: 'a', url: rig.origin.plan('/listed', answer(500)) }])
  const failed = (await rig.as('operator').get('/fetchbox/jobs?status=failed&tenant=ann')).json.jobs
  // Attempts that were used up are no reason to call the whole job failed, unless nothing else came of it (F19).
  expect(failed.map((job: { id: string }) => job.id)).toContain(id)
  const first = (await rig.as('ann').get('/fetchbox/jobs?limit=1')).json
  const second = (await rig.as('ann').get(`/fetchbox/jobs?limit=1&cursor=${first.nextCursor}`)).json
  expect(first.jobs[0].id).toBe(id)
  expect(second.jobs[0].id).not.toBe(id)
  expect((await rig.as('ann').get('/fetchbox/jobs?type=other')).json.jobs).toEqual([])
})

describe('DELETE', () => {
  test('a purge removes the stored content once and names who asked; the job stays readable', async () => {
    const url = rig.origin.plan('/purged', answer(200, 'secret'))
    const { id } = await rig.run([
      { id: 'a', url },
      { id: 'b', url },
    ])
    const ann = rig.as('ann')
    expect((await ann.delete(`/fetchbox/jobs/${id}`)).status).toBe(202)
    const shown = await until('it is purged', async () => {
      const { json } = await ann.get(`/fetchbox/jobs/${id}`)
      return json.purge?.status === 'complete' ? json : null
    })
    expect(shown).toMatchObject({
      status: 'complete',
      purge: { by: 'ann', removed: { resources: 2, bytes: 12 }, error: null },
    })
    const again = await ann.delete(`/fetchbox/jobs/${id}`)
    expect([again.status, again.json.purge.removed.resources]).toEqual([200, 2])
    const storage = join(rig.folder, 'fetchbox/storage')
    expect(readdirSync(storage, { recursive: true }).filter((path) => String(path).includes(id))).toEqual([])

    const [resource] = await rig.resources(id)
    expect(resource).toMatchObject({ status: 'complete', bytes: 6 })
    const content = await ann.get(`/fetchbox/jobs/${id}/resources/a/content`)
    expect([content.status, content.json.error.code]).toEqual([404, 'STORAGE_NOT_FOUND'])
    expect((await rig.app.jobs.events(resource.jobId)).events.at(-1)).toMatchObject({ kind: 'expired' })
    const { entries } = await rig.app.perform('audit.list', { by: 'ann' })
    expect(entries.map(({ act }) => act)).toEqual(['jobs.submit'])
  })

  test('is refused while the job is under way', async () => {
    const url = rig.origin.plan('/slow', { send: [], ends: 'hang' })
    const id = await rig.submit([{ id: 'a', url }])
    const { status, json } = await rig.as('ann').delete(`/fetchbox/jobs/${id}`)
    expect([status, json.error.code]).toEqual([409, 'JOB_WRONG_STATE'])
    await rig.app.batches.cancel(id, { actor: 'olga', reason: 'enough' })
    expect((await rig.settled(id)).status).toBe('cancelled')
  })
})
