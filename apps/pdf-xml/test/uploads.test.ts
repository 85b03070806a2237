import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { type Gateway, startGateway } from '../src/gateway/server.ts'
import { pdfSaying, Rig } from './rig.ts'

let gateway: Gateway
let hello: Uint8Array
beforeAll(async () => {
  gateway = await startGateway({ parsers: 1 })
  hello = await pdfSaying('Hello, operator')
})
afterAll(() => gateway.stop())

const rig = (more: { hasWorker?: boolean } = {}) => Rig.open({ gatewayUrl: gateway.url, ...more })

test('a file whose XML was lost or damaged is converted again when it is uploaded again [D5 D10]', async () => {
  const made = await rig()
  const visitor = made.visitor()
  const result = (id: string) => join(made.folder, `pdf-xml/results/${id}.xml`)
  const lost = await visitor.uploaded(hello)
  await made.until(lost, 'complete')
  rmSync(result(lost))
  expect((await visitor.download(lost)).json.error.code).toBe('EXPIRED')

  const damaged = await visitor.uploaded(hello)
  await made.until(damaged, 'complete')
  writeFileSync(result(damaged), readFileSync(result(damaged), 'utf8').replace('Hello', 'Hellø'))
  expect((await visitor.download(damaged)).json.error.code).toBe('ARTIFACT_CORRUPT')

  const whole = await visitor.uploaded(hello)
  await made.until(whole, 'complete')
  expect((await visitor.download(whole)).text).toContain('Hello, operator')
  expect(new Set([lost, damaged, whole]).size).toBe(3)
  expect((await visitor.upload(hello)).json.id).toBe(whole)
})

test('a name is cut between two characters, and a result with the longest name can be downloaded', async () => {
  const made = await rig()
  const visitor = made.visitor()
  const id = await visitor.uploaded(hello, { name: `x${'😀'.repeat(150)}.pdf` })
  expect((await visitor.job(id)).input.fileName).toBe(`x${'😀'.repeat(99)}`)
  await made.until(id, 'complete')
  const { status, headers } = await visitor.download(id)
  expect(status).toBe(200)
  expect(decodeURIComponent(headers.get('content-disposition') ?? '')).toMatch(/UTF-8''x😀{72}\.xml$/u)
})

test('a form that is incomplete or has no file is refused with an action', async () => {
  const made = await rig({ hasWorker: false })
  const visitor = made.visitor()
  const form = new FormData()
  form.append('mapping', 'text')
  for (const init of [
    { body: form },
    { body: '{}', headers: { 'content-type': 'application/json' } },
    { body: '--a\r\nhalf', headers: { 'content-type': 'multipart/form-data; boundary=a' } },
    { body: 'x', headers: { 'content-type': 'multipart/form-data' } },
  ]) {
    const { status, json } = await visitor.ask('/api/upload', { method: 'POST', ...init })
    expect([status >= 400 && status < 500, json.error.code]).toEqual([true, expect.any(String)])
    expect(json.error.action).not.toBe('')
  }
  // As it is, and not in a form: most who do so for the first time do it like this.
  for (const type of ['application/pdf', 'application/x-www-form-urlencoded']) {
    const init = { method: 'POST', body: Buffer.from(hello), headers: { 'content-type': type } }
    const { json } = await visitor.ask('/api/upload', init)
    expect(json.error).toMatchObject({
      code: 'REQUEST_INVALID',
      action: expect.stringContaining('multipart/form-data'),
    })
  }
  expect((await visitor.ask('/api/jobs')).json?.jobs ?? []).toEqual([])
})

test('a client that disconnects during an upload leaves nothing behind', async () => {
  const made = await rig({ hasWorker: false })
  const abort = new AbortController()
  const body = new ReadableStream({
    start(controller) {
      const head = '--x\r\ncontent-disposition: form-data; name="file"; filename="a.pdf"\r\n\r\n%PDF-1.7\n'
      controller.enqueue(Buffer.from(head))
      controller.enqueue(Buffer.alloc(3 * 2 ** 20))
    },
  })
  const asked = made.visitor().ask('/api/upload', {
    method: 'POST',
    body,
    headers: { 'content-type': 'multipart/form-data; boundary=x' },
    signal: abort.signal,
    ...({ duplex: 'half' } as object),
  })
  const folder = join(made.folder, 'pdf-xml/uploads/.tmp')
  await until('the upload is on its way', () => readdirSync(folder).length > 0)
  abort.abort()
  await expect(asked).rejects.toThrow()
  await until('it is gone', () => readdirSync(folder).length === 0)
  expect(made.files('uploads')).toEqual([])
  expect((await made.app.jobs.list({})).jobs).toEqual([])
})
