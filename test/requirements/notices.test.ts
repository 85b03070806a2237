import { describe, expect, onTestFinished, test } from 'vitest'
import type { Notice } from '../../src/core/notices.ts'
import type { PolicyInput } from '../../src/core/policy.ts'
import { type EmailOptions, email } from '../../src/notify/email.ts'
import { type TestKit, testKit } from '../../src/testing/kit.ts'
import { type MailServer, mailServer } from '../support/smtp.ts'
import { until } from '../support/until.ts'
import { proxx } from './proxx-policy.ts'

/** A campaign is a batch, a token a job of it; names and addresses are the app's own and looked up when mails are made. */
const ACCOUNTS: Record<string, { name: string; address: string }> = {
  'account-7': { name: 'Ann Müller', address: 'ann@example.com' },
}

const WATERMARK: PolicyInput = {
  retry: { max: 4, backoff: { table: ['1m', '5m', '15m'] }, unknown: 'transient' },
  manualRetry: 'in-place',
  orphan: 'requeue',
  rollup: 'partial',
  notify: { failed: ['owner'], settled: ['owner'], window: 0 },
}

function watermarkKit(): TestKit {
  const kit = testKit()
  onTestFinished(() => kit.stop())
  kit.app.job('token_watermark', {
    policy: WATERMARK,
    run: ({ fails }: { recipient: string; fails?: boolean }) => {
      if (fails) throw new Error('ffmpeg exited with 137')
    },
  })
  return kit
}

/** The three mails of the document (W35, W36), made from what a notice brings and what the app knows. */
function mails(kit: TestKit, { port }: MailServer, more: Partial<EmailOptions> = {}) {
  const ownerOf = (notice: Notice) => {
    if (notice.kind === 'settled') return ACCOUNTS[notice.batch.owner ?? '']
    return notice.kind === 'failed' ? ACCOUNTS[notice.job.owner ?? ''] : undefined
  }
  const render = async (notice: Notice) => {
    const ownerName = ownerOf(notice)?.name
    if (notice.kind === 'failed') {
      const job = await kit.app.find(notice.job.id)
      const { recipient } = (job?.input ?? {}) as { recipient?: string }
      const text = `${ownerName}|${notice.job.batch?.name}|${recipient}|${notice.failure.message}`
      return { subject: 'job failed', text }
    }
    if (notice.kind !== 'settled') throw new Error('no mail for this')
    const { name, state, complete, failed } = notice.batch
    return { subject: `campaign ${state}`, text: `${ownerName}|${name}|${complete}|${failed}` }
  }
  const smtp = { host: '127.0.0.1', port }
  return email({ smtp, from: 'studio@example.org', to: (notice) => ownerOf(notice) ?? null, render, ...more })
}

const campaign = (kit: TestKit, fails: boolean[]) =>
  kit.app.batches.create('Spring Sale', {
    owner: 'account-7',
    jobs: fails.map((isBad, i) => ({ type: 'token_watermark', input: { recipient: `Recipient ${i}`, fails: isBad } })),
  })

const settled = (kit: TestKit, id: string) =>
  kit.until('it is settled', async () => (await kit.app.batches.find(id))?.state !== 'open')

async function tries(kit: TestKit, batch: string): Promise<number[]> {
  const jobs = await (await kit.app.store()).jobs({ batch, limit: 10 })
  return jobs.map(({ attempt }) => attempt)
}

async function received(kit: TestKit, server: MailServer, count: number): Promise<[string, string][]> {
  await until(`${count} mails came`, async () => {
    await kit.tick()
    return server.mails.length >= count
  })
  return server.mails.map(({ parsed }): [string, string] => [String(parsed.subject), String(parsed.text).trim()]).sort()
}

describe('the owner of a campaign', () => {
  test('W8, W35, W52: gets a mail when a job has used up its attempts, with all that the mail needs', async () => {
    const server = await mailServer()
    const kit = watermarkKit()
    kit.app.channel('owner', mails(kit, server))
    const { id } = await campaign(kit, [true, false])
    await kit.until('it was tried three times', async () => (await tries(kit, id)).includes(3))
    expect((await kit.app.perform('notices.list', {})).notices).toEqual([])
    await settled(kit, id)
    const all = await received(kit, server, 2)
    expect(all).toContainEqual([
      'job failed',
      'Ann Müller|Spring Sale|Recipient 0|Something went wrong that we did not foresee.',
    ])
    expect(server.mails.every(({ to }) => to[0] === 'ann@example.com')).toBe(true)
  })

  test('W9, W36: gets a mail when the campaign ends in part, with what was done and what was not', async () => {
    const server = await mailServer()
    const kit = watermarkKit()
    kit.app.channel('owner', mails(kit, server))
    await settled(kit, (await campaign(kit, [true, false, false])).id)
    const all = await received(kit, server, 2)
    expect(all.filter(([subject]) => subject.startsWith('campaign'))).toEqual([
      ['campaign partial', 'Ann Müller|Spring Sale|2|1'],
    ])
  })

  test('W9, W36: and when it failed altogether; each job is told as well', async () => {
    const server = await mailServer()
    const kit = watermarkKit()
    kit.app.channel('owner', mails(kit, server))
    await settled(kit, (await campaign(kit, [true, true])).id)
    const all = await received(kit, server, 3)
    expect(all.map(([subject]) => subject)).toEqual(['campaign failed', 'job failed', 'job failed'])
    expect(all[0]?.[1]).toBe('Ann Müller|Spring Sale|0|2')
  })

  test('W36: without a mailer nothing is sent, nothing fails, and what would be told waits', async () => {
    const kit = watermarkKit()
    const { id } = await campaign(kit, [true])
    await settled(kit, id)
    expect(await kit.app.batches.find(id)).toMatchObject({ state: 'failed' })
    await kit.advance('1h')
    const { notices } = await kit.app.perform('notices.list', { waiting: true })
    expect(notices.map(({ kind, state }) => [kind, state])).toEqual([
      ['failed', 'waiting'],
      ['settled', 'waiting'],
    ])
    expect((await kit.app.perform('notices.deliveries', {})).deliveries).toEqual([])
  })

  test('W36: a slow mail server holds up neither the job nor the campaign', async () => {
    let letGo = (): void => undefined
    const isFree = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const server = await mailServer({ onMessage: () => isFree.then(() => undefined) })
    const kit = watermarkKit()
    kit.app.channel('owner', mails(kit, server))
    const slow = await campaign(kit, [true])
    await settled(kit, slow.id)
    expect(await kit.app.batches.find(slow.id)).toMatchObject({ state: 'failed' })
    await until('the server has a mail in its hands', async () => {
      await kit.tick()
      return server.asked.length > 0
    })
    // While the mails hang, others come and go.
    const quick = await campaign(kit, [false])
    await kit.tick()
    expect(await kit.app.batches.find(quick.id)).toMatchObject({ state: 'complete' })
    expect(server.mails).toEqual([])
    letGo()
    await received(kit, server, 2)
  })
})

describe('Proxx', () => {
  const NOTIFY: PolicyInput = { notify: { failed: ['ops'], orphaned: ['ops'], window: 0 } }

  function proxxKit(): { kit: TestKit; heard: Notice[] } {
    const kit = testKit()
    onTestFinished(() => kit.stop())
    const heard: Notice[] = []
    kit.app.channel('ops', {
      kind: 'kept',
      deliver: (notice) => {
        heard.push(notice)
        return { to: ['ops'], answer: 'heard' }
      },
    })
    const told = { ...proxx, audit: 'transactional', locked: false, ...NOTIFY } as PolicyInput
    kit.app.job('encode', { policy: told, run: () => Promise.reject(new Error('exit status 1')) })
    return { kit, heard }
  }

  test('P55: an orphan is told and not touched', async () => {
    const { kit, heard } = proxxKit()
    await kit.crashingWorker({ at: 'run' })
    const { id } = await kit.app.submit('encode', {})
    await kit.advance('5m')
    expect(heard).toMatchObject([{ kind: 'orphaned', job: { id } }])
    expect(await kit.app.find(id)).toMatchObject({ status: 'processing', worker: 'crashing-worker-1' })
    expect(await kit.history(id)).toEqual(['queued', 'processing', 'orphaned'])
  })

  test('P60: each failure is told on its own, however alike they are', async () => {
    const { kit, heard } = proxxKit()
    const submitted = await kit.app.submitMany('encode', [{}, {}, {}])
    await kit.tick()
    const told = heard.map((notice) => (notice.kind === 'failed' ? notice.job.id : ''))
    expect(told.toSorted()).toEqual(submitted.map(({ id }) => id).toSorted())
    expect(heard.every(({ repeats }) => repeats === 0)).toBe(true)
  })
})
