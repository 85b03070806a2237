import { PDFDocument } from '@cantoo/pdf-lib'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { GatewayProcess, pdfSaying, Rig, type Shown, type Visitor } from './rig.ts'

let rig: Rig
let visitor: Visitor
beforeEach(async () => {
  const gateway = await GatewayProcess.start()
  onTestFinished(() => gateway.stop())
  rig = await Rig.open({ gatewayUrl: gateway.url })
  visitor = rig.visitor()
})

async function encrypted(): Promise<Uint8Array> {
  const document = await PDFDocument.load(await pdfSaying('secret'))
  document.encrypt({ userPassword: 'open sesame' })
  return document.save()
}

async function blank(): Promise<Uint8Array> {
  const document = await PDFDocument.create()
  document.addPage()
  return document.save()
}

test('a file that cannot succeed is not offered a retry, by the API, the page or explain, and a retry is refused', async () => {
  const refused = (await visitor.upload(Buffer.from('a picture of a PDF'.padEnd(2_000)))).json.error.jobId
  const failed: [string, string][] = [[refused, 'NOT_PDF']]
  for (const content of [await encrypted(), await blank(), Buffer.from('%PDF-1.7 and then nothing')]) {
    const id = await visitor.uploaded(content)
    await rig.until(id, 'failed')
    failed.push([id, 'GW_4XX'])
  }
  const page = (await visitor.ask('/convert')).text
  for (const [id, code] of failed) {
    const job = await visitor.job(id)
    const explained = (await visitor.ask(`/api/jobs/${id}/explain`)).json
    for (const { actions } of [job, explained] as Shown[]) {
      const retry = actions.find(({ name }: Shown) => name === 'retry')
      expect(retry, id).toMatchObject({ allowed: false, why: expect.stringContaining(`${code}: `) })
      expect(retry.why).toContain('send another one')
    }
    const answer = await visitor.retry(id)
    expect([answer.status, answer.json.error.code]).toEqual([409, 'RETRY_REFUSED'])
    expect(answer.json.error.message).not.toContain('EXPIRED')
    expect((await visitor.job(id)).status).toBe('failed')
    expect(page).not.toContain(`action="/convert/jobs/${id}/retry"`)
  }
})

test('a file that the mapping did not fit can be retried: the mapping may be corrected', async () => {
  const id = await visitor.uploaded(await pdfSaying('no invoice at all'), { mapping: 'invoice' })
  await rig.until(id, 'failed')
  const { actions, errorCode } = await visitor.job(id)
  expect(errorCode).toBe('GW_4XX')
  expect(actions.find(({ name }: Shown) => name === 'retry')).toMatchObject({ allowed: true })
  expect((await visitor.retry(id)).status).toBe(200)
})
