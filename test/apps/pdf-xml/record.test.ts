import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { until } from '../../support/until.ts'
import { GatewayProcess, pdfSaying, Rig, type Shown } from './rig.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = await GatewayProcess.start()
})
afterEach(() => gateway.heal())
afterAll(() => gateway.stop())

const open = (env: Record<string, string> = {}) => Rig.open({ gatewayUrl: gateway.url, env })

test('D32 E23 the record of a conversion has the events of the documents, each with the meta that they name', async () => {
  const rig = await open()
  const visitor = rig.visitor()
  await gateway.faults({ status: 502, count: 1 })
  const id = await visitor.uploaded(await pdfSaying('twice'))
  await rig.until(id, 'complete')
  const { status, json } = await visitor.ask(`/api/pdf-xml/jobs/${id}`)
  expect(status).toBe(200)
  const events: Shown[] = json.job_events
  expect(events.map(({ kind }) => kind)).toEqual(['queued', 'processing', 'retry', 'processing', 'complete'])
  for (const { meta, job_id, created_at } of events) {
    expect(Object.keys(meta).sort()).toEqual(['attempt', 'duration_ms', 'error_code', 'gateway_http_status'])
    expect([job_id, Date.parse(created_at) > 0]).toEqual([id, true])
  }
  expect(events[2]?.meta).toEqual({
    attempt: 1,
    gateway_http_status: 502,
    duration_ms: expect.any(Number),
    error_code: 'GW_5XX',
  })
  expect(events[4]?.meta).toMatchObject({ attempt: 2, gateway_http_status: 200, error_code: null })
  expect(json.job).toMatchObject({
    id,
    status: 'complete',
    original_name: 'report.pdf',
    mapping: 'text',
    attempt_count: 2,
    manual_retry_count: 0,
    retry_after: null,
    leased_by: null,
    lease_expires_at: null,
    failed_at: null,
    error_code: null,
    error_message: null,
    result_path: `${id}.xml`,
  })
})

test('E15 E9 E20 started_at is kept from the first claim on, and updated_at moves with a retry, a claim and a manual retry', async () => {
  const rig = await open({ RETRY_BASE_DELAY_MS: '600000' })
  const visitor = rig.visitor()
  const record = async (id: string): Promise<Shown> => (await visitor.ask(`/api/pdf-xml/jobs/${id}`)).json.job
  await gateway.faults({ status: 500, count: 1 })
  const id = await visitor.uploaded(await pdfSaying('again'))
  await until('it waits for a retry', async () => (await rig.app.find(id))?.retryAfter != null)
  const waiting = await record(id)
  const events = await rig.app.events(id)
  const at = (kind: string) => events.findLast((event) => event.kind === kind)?.at
  expect(waiting).toMatchObject({ status: 'queued', started_at: at('processing'), updated_at: at('retry') })
  expect(waiting).toMatchObject({ retry_after: expect.any(String), last_attempt_at: expect.any(String) })
  // D29: errors only when failed, leases only while processing.
  expect(waiting).toMatchObject({ error_code: null, error_message: null, leased_by: null, lease_expires_at: null })

  await gateway.faults({ status: 400, count: 1 })
  const other = await visitor.uploaded(await pdfSaying('refused'))
  await rig.until(other, 'failed')
  const failed = await record(other)
  expect(failed).toMatchObject({
    error_code: 'GW_4XX',
    error_message: expect.stringContaining('Couldn’t convert this file with the selected mapping.'),
    failed_at: failed.updated_at,
    result_path: null,
  })
  await visitor.retry(other)
  await rig.until(other, 'complete')
  const done = await record(other)
  expect(done.started_at).toBe(failed.started_at)
  expect(done.updated_at > failed.updated_at).toBe(true)
  expect(done).toMatchObject({ manual_retry_count: 1, error_code: null, failed_at: null })
})

test('the record is for the owner and for operators, and knows conversions only', async () => {
  const rig = await open()
  const [owner, other] = [rig.visitor(), rig.visitor()]
  const id = await owner.uploaded(await pdfSaying('mine'))
  await other.uploaded(await pdfSaying('theirs'))
  const denied = await other.ask(`/api/pdf-xml/jobs/${id}`)
  expect([denied.status, denied.json.error.code]).toEqual([403, 'FORBIDDEN'])
  expect(denied.json.error.message).toBe('This file isn’t yours.')
  expect((await rig.visitor().ask(`/api/pdf-xml/jobs/${id}`)).status).toBe(401)
  expect((await owner.ask('/api/pdf-xml/jobs/019a0000-0000-7000-8000-000000000000')).status).toBe(404)
})
