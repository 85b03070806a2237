import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { GatewayProcess, pdfSaying, Rig, type Shown } from './rig.ts'

/** There is no worker, so the gateway is never called. */
const NO_GATEWAY = 'http://127.0.0.1:1'
const idle = (env: Record<string, string>) => Rig.open({ gatewayUrl: NO_GATEWAY, hasWorker: false, env })

const pdf = (bytes: number, mark = 'x'): Buffer => Buffer.from(`%PDF-1.7\n${mark}`.padEnd(bytes, '.'))

async function tokenOf(rig: Rig, name: string): Promise<string> {
  await rig.app.perform('accounts.create', { name, email: `${name}@example.org`, actor: 'olga' })
  const made = await rig.app.perform('tokens.create', { name, role: 'owner', account: name, actor: 'olga' })
  return String(made.token)
}

/** One upload with a token. */
const uploadAs = (rig: Rig, token: string, content: Uint8Array): Promise<Response> => {
  const form = new FormData()
  form.set('file', new File([Buffer.from(content)], 'a.pdf'))
  return fetch(`${rig.url}/api/upload`, { method: 'POST', body: form, headers: { authorization: `Bearer ${token}` } })
}

test('a visitor has a limit of files per hour and gets Retry-After; accounts have no such limit [E24]', async () => {
  const rig = await idle({ VISITOR_UPLOADS_PER_HOUR: '3' })
  const visitor = rig.visitor()
  for (const mark of ['a', 'b', 'c']) expect((await visitor.upload(pdf(100, mark))).status).toBe(201)
  const { status, headers, json } = await visitor.upload(pdf(100, 'd'))
  expect([status, json.error.code]).toEqual([429, 'TOO_MANY_REQUESTS'])
  expect(json.error.message).toContain('3 files in an hour')
  expect(json.error.action).toContain('sign in')
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(3_500)
  expect(rig.files('uploads')).toHaveLength(3)
  expect((await rig.visitor().upload(pdf(100, 'd'))).status).toBe(201)
  const token = await tokenOf(rig, 'ann')
  for (const mark of ['a', 'b', 'c', 'd', 'e']) expect((await uploadAs(rig, token, pdf(100, mark))).status).toBe(201)
})

test('visitors without a cookie are counted by their address, also many at once', async () => {
  const rig = await idle({ ADDRESS_UPLOADS_PER_HOUR: '5' })
  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => rig.visitor().upload(pdf(100, String(i)))))
  const statuses = answers.map(({ status }) => status)
  expect(statuses.filter((status) => status === 201)).toHaveLength(5)
  expect(statuses.filter((status) => status === 429)).toHaveLength(7)
  expect(rig.files('uploads')).toHaveLength(5)
  // The page says it, too, without script.
  const form = new FormData()
  form.set('file', new File([pdf(100)], 'a.pdf'))
  const page = await rig.visitor().ask('/convert', { method: 'POST', body: form })
  expect([page.status, page.headers.get('location')]).toEqual([303, '/convert?said=too-many'])
  expect((await rig.visitor().ask('/convert?said=too-many')).text).toContain('Too many files came from you')
})

test('the files of one visitor are converted one after another [E24]', async () => {
  const rig = await idle({ VISITOR_UPLOADS_PER_HOUR: '4', VISITOR_KEPT_MB: '1' })
  const statusesOf = async (bytes: number, sending: ReturnType<Rig['visitor']>) => {
    // The first answer sets the cookie.
    expect((await sending.upload(pdf(bytes, 'first'))).status).toBe(201)
    const answers = await Promise.all(Array.from({ length: 8 }, (_, i) => sending.upload(pdf(bytes, `many ${i}`))))
    return answers.map(({ status }) => status).sort()
  }
  expect(await statusesOf(100, rig.visitor())).toEqual([201, 201, 201, 429, 429, 429, 429, 429])
  const large = await statusesOf(400_000, rig.visitor())
  expect(large.filter((status) => status === 201)).toHaveLength(1)
})

test('the stored files of a visitor are limited, and a repeated file does not count', async () => {
  const rig = await idle({ VISITOR_KEPT_MB: '1' })
  const visitor = rig.visitor()
  expect((await visitor.upload(pdf(600_000, 'a'))).status).toBe(201)
  expect((await visitor.upload(pdf(400_000, 'b'))).status).toBe(201)
  const refused = await visitor.upload(pdf(400_000, 'c'))
  expect([refused.status, refused.json.error.code]).toEqual([507, 'QUOTA_EXCEEDED'])
  expect(refused.json.error.message).toContain('1 MB')
  expect(refused.json.error.action).toContain('7 days')
  expect(rig.files('uploads')).toHaveLength(2)
  expect((await rig.visitor().upload(pdf(400_000, 'c'))).status).toBe(201)
  const small = rig.visitor()
  const first = await small.uploaded(pdf(300_000, 'twin'))
  for (let i = 0; i < 4; i++) {
    const twin = await small.upload(pdf(300_000, 'twin'))
    expect([twin.status, twin.json.id]).toEqual([200, first])
  }
  expect(rig.files('uploads')).toHaveLength(4)
})

test('the bytes that all visitors of one address send in a day have a limit', async () => {
  const rig = await idle({ ADDRESS_MB_PER_DAY: '1' })
  for (const mark of ['a', 'b']) expect((await rig.visitor().upload(pdf(600_000, mark))).status).toBe(201)
  const { status, json, headers } = await rig.visitor().upload(pdf(100))
  expect([status, json.error.message]).toEqual([429, expect.stringContaining('1 MB in a day')])
  expect(Number(headers.get('retry-after'))).toBeGreaterThan(80_000)
})

test('while too many conversions wait, visitors are asked to come back, and accounts are not', async () => {
  const rig = await idle({ VISITOR_BACKLOG: '2' })
  for (const mark of ['a', 'b']) expect((await rig.visitor().upload(pdf(100, mark))).status).toBe(201)
  const { status, json, headers } = await rig.visitor().upload(pdf(100, 'c'))
  expect([status, json.error.code, headers.get('retry-after')]).toEqual([503, 'BACKLOG_FULL', '30'])
  expect((await uploadAs(rig, await tokenOf(rig, 'ann'), pdf(100, 'c'))).status).toBe(201)
})

test('a visitor with many files does not keep the parser from others', async () => {
  const gateway = await GatewayProcess.start()
  onTestFinished(() => gateway.stop())
  const rig = await Rig.open({ gatewayUrl: gateway.url })
  // None of them comes back before the other's file is done.
  await gateway.faults({ delayMs: 60_000 })
  const hog = rig.visitor()
  const ids: string[] = []
  for (let i = 0; i < 12; i++) ids.push(await hog.uploaded(await pdfSaying(`hog ${i}`)))
  const underWay = async (): Promise<Shown[]> => {
    const jobs = await Promise.all(ids.map((id) => rig.app.jobs.find(id)))
    return jobs.filter((job) => job?.status === 'processing')
  }
  await until('as many as may be are under way', async () => (await underWay()).length === 1)
  const held = await rig.app.jobs.find(String(ids.at(-1)))
  expect(held?.held?.[0]).toMatchObject({ by: 'concurrency' })
  const token = await tokenOf(rig, 'ann')
  const other = (await (await uploadAs(rig, token, await pdfSaying('other'))).json()) as { id: string }
  await until('the other one begins at once', async () => {
    const job = await rig.app.jobs.find(other.id)
    return job?.status === 'processing' || job?.status === 'complete'
  })
  expect(await underWay()).toHaveLength(1)
})

test('the files of a visitor who sends many wait behind those of other visitors', async () => {
  const rig = await idle({})
  const hog = rig.visitor()
  const ids: string[] = []
  for (let i = 0; i < 13; i++) ids.push(await hog.uploaded(pdf(100, `hog ${i}`)))
  const priorities = await Promise.all(ids.map(async (id) => (await rig.app.jobs.find(id))?.priority))
  expect(priorities.map((priority) => Math.abs(Number(priority)))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10])
  const other = (await (await uploadAs(rig, await tokenOf(rig, 'ann'), pdf(100, 'other'))).json()) as { id: string }
  expect((await rig.app.jobs.find(other.id))?.priority).toBe(0)
})
