import { existsSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../../../test/support/until.ts'
import { GatewayProcess, pdfSaying, Rig, type Visitor } from './rig.ts'

let gateway: GatewayProcess
beforeAll(async () => {
  gateway = await GatewayProcess.start()
})
afterEach(() => gateway.heal())
afterAll(() => gateway.stop())

interface Case {
  rig: Rig
  visitor: Visitor
}

const WHO = { actor: 'olga', reason: 'a test' }
const LONG_AGO = new Date(Date.now() - 400 * 86_400_000)
const HANG = { delayMs: 600_000 }

const open = async (env: Record<string, string> = {}): Promise<Case> => {
  const rig = await Rig.open({ gatewayUrl: gateway.url, env: { GATEWAY_TIMEOUT_MS: '600000', ...env } })
  return { rig, visitor: rig.visitor() }
}

const pathsOf = ({ folder }: Rig, id: string): string[] =>
  [`uploads/${id}.pdf`, `results/${id}.xml`].map((path) => join(folder, 'pdf-xml', path))

/** Both files of a job are older than they are kept: its source, and a result as a lost attempt may leave one. */
function age(rig: Rig, id: string): void {
  const [source = '', result = ''] = pathsOf(rig, id)
  if (!existsSync(result)) {
    mkdirSync(join(rig.folder, 'pdf-xml/results'), { recursive: true })
    writeFileSync(result, '<document/>')
  }
  for (const path of [source, result]) utimesSync(path, LONG_AGO, LONG_AGO)
}

async function sweep(rig: Rig): Promise<unknown> {
  const { id } = await rig.app.submit('pdf-xml.retention', {}, { priority: 9 })
  await rig.until(id, 'complete')
  return (await rig.app.jobs.find(id))?.result
}

const UNDER_WAY: Record<string, (made: Case) => Promise<string>> = {
  'is queued': async ({ rig, visitor }) => {
    await gateway.faults(HANG)
    // One address has one conversion under way; the other two wait their turn.
    const ids: string[] = []
    for (const words of ['one', 'two', 'three']) ids.push(await visitor.uploaded(await pdfSaying(words)))
    await until('one is being converted', async () => {
      return (await rig.app.perform('jobs.count', { status: 'processing', type: 'pdf.convert' })).count === 1
    })
    const { jobs } = await rig.app.jobs.list({ type: 'pdf.convert', status: 'queued' })
    return jobs[0]?.id ?? ''
  },
  'is being converted': async ({ rig, visitor }) => {
    await gateway.faults(HANG)
    const id = await visitor.uploaded(await pdfSaying('slow'))
    await rig.until(id, 'processing')
    // Not before: an attempt that only begins would adopt the result that this test leaves.
    await until('the gateway has it', async () => {
      const { struck } = (await (await fetch(`${gateway.url}/faults`)).json()) as { struck: number }
      return struck === 1
    })
    return id
  },
  'waits for a retry': async ({ rig, visitor }) => {
    await gateway.faults({ status: 500 })
    const id = await visitor.uploaded(await pdfSaying('again'))
    await until('it waits for a retry', async () => (await rig.app.jobs.find(id))?.retryAfter != null)
    return id
  },
  'is held by the breaker': async ({ rig, visitor }) => {
    await rig.app.perform('breakers.open', { name: 'gateway', ...WHO })
    const id = await visitor.uploaded(await pdfSaying('held'))
    await until('it is held', async () => (await rig.app.jobs.find(id))?.held.some(({ by }) => by === 'breaker'))
    return id
  },
  'failed and was retried': async ({ rig, visitor }) => {
    await gateway.faults({ status: 400, count: 1 })
    const id = await visitor.uploaded(await pdfSaying('once more'))
    await rig.until(id, 'failed')
    await rig.app.perform('breakers.open', { name: 'gateway', ...WHO })
    expect((await visitor.retry(id)).status).toBe(200)
    return id
  },
}

describe('retention keeps the source and the result', () => {
  test.each(Object.entries(UNDER_WAY))('of a job that %s, however old they are', async (_, prepare) => {
    const made = await open({ RETRY_BASE_DELAY_MS: '600000' })
    const id = await prepare(made)
    const { status } = (await made.rig.app.jobs.find(id)) ?? {}
    age(made.rig, id)
    expect(await sweep(made.rig)).toEqual({ sources: 0, results: 0 })
    expect((await made.rig.app.jobs.find(id))?.status).toBe(status)
    for (const path of pathsOf(made.rig, id)) expect(existsSync(path), path).toBe(true)
    expect((await made.rig.app.jobs.events(id)).events.filter(({ kind }) => kind === 'expired')).toEqual([])
  })
})

const OVER: Record<string, (made: Case) => Promise<string>> = {
  complete: async ({ rig, visitor }) => {
    const id = await visitor.uploaded(await pdfSaying('done'))
    await rig.until(id, 'complete')
    return id
  },
  failed: async ({ rig, visitor }) => {
    await gateway.faults({ status: 400, count: 1 })
    const id = await visitor.uploaded(await pdfSaying('refused'))
    await rig.until(id, 'failed')
    return id
  },
  cancelled: async ({ rig, visitor }) => {
    await rig.app.perform('breakers.open', { name: 'gateway', ...WHO })
    const id = await visitor.uploaded(await pdfSaying('not wanted'))
    await rig.app.jobs.cancel(id, WHO)
    await rig.until(id, 'cancelled')
    return id
  },
}

test.each(Object.entries(OVER))(
  'retention removes both files of a %s job when they are old, and says so in its history',
  async (_, prepare) => {
    const made = await open()
    const id = await prepare(made)
    expect(await sweep(made.rig)).toEqual({ sources: 0, results: 0 })
    age(made.rig, id)
    expect(await sweep(made.rig)).toEqual({ sources: 1, results: 1 })
    for (const path of pathsOf(made.rig, id)) expect(existsSync(path), path).toBe(false)
    expect((await made.rig.app.jobs.events(id)).events.filter(({ kind }) => kind === 'expired')).toHaveLength(2)
  },
)
