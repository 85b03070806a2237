import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { failureCodes, redress as open } from '../../../src/index.ts'
import { json, redress } from '../command.ts'

const data = mkdtempSync(join(tmpdir(), 'redress-cli-batches-'))
const at = ['--data', data]
let settled: { id: string; failed: string }
let waiting: string

beforeAll(async () => {
  const app = open({ store: `sqlite:${join(data, 'redress.db')}` })
  const codes = failureCodes({ BROKEN: { fault: 'caller', retry: 'never', message: 'It is broken.' } })
  const step = app.job('step', {
    codes,
    policy: { manualRetry: 'in-place' },
    run: ({ ok }: { ok: boolean }, attempt) => (ok ? 1 : attempt.fail('BROKEN')),
  })
  app.job('fixed', { policy: { cancel: false }, run: () => undefined })
  const jobs = [step.request({ ok: true }), step.request({ ok: false })]
  const batch = await app.batches.create('spring', { owner: 'ann', jobs, expires: '7d', onSettled: { job: 'fixed' } })
  settled = { id: batch.id, failed: String(batch.jobs[1]?.id) }
  const worker = await app.makeWorker()
  for (let i = 0; i < 3; i++) await worker.tick()
  const later = [step.request({ ok: true }, { delay: '1h' }), { type: 'fixed', input: {}, options: { delay: '1h' } }]
  waiting = (await app.batches.create('summer', { jobs: later })).id
  await app.stop()
})
afterAll(() => rmSync(data, { recursive: true, force: true }))

test('batches are listed with their counts, and filtered', async () => {
  const { code, stdout, stderr } = await redress(['batches', ...at])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const [head] = stdout.split('\n')
  expect(head).toMatch(/^ID +STATE +TOTAL +QUEUED +PROCESSING +COMPLETE +FAILED +CANCELLED +AGE +NAME$/)
  expect(stdout).toMatch(new RegExp(`^${settled.id} +partial +2 +0 +0 +1 +1 +0 +\\d+ m?s +spring$`, 'm'))
  expect(await json(['batches', 'list', '--state', 'open', ...at])).toMatchObject([{ id: waiting }])
  expect((await redress(['batches', '--owner', 'nobody', ...at])).stderr).toBe('No batches.\n')
})

test('one batch is shown with its last error, its history and the command for its jobs', async () => {
  const { stdout, stderr } = await redress(['batches', 'show', settled.id, ...at])
  for (const part of [
    /^state +partial$/m,
    /^name +spring$/m,
    /^jobs +2 total, 0 queued, 0 processing, 1 complete, 1 failed, 0 cancelled$/m,
    /^last error +BROKEN: It is broken\.$/m,
    /^ +1 +1 +BROKEN +caller +It is broken\.$/m,
    /^on settled +submits fixed$/m,
    /^\S+Z +settled +partial +1 +1 +0$/m,
  ]) {
    expect(stdout).toMatch(part)
  }
  expect(stderr).toContain(`jobs list --batch ${settled.id}`)
  const jobs = await json(['jobs', '--batch', settled.id, '--status', 'failed', ...at])
  expect(jobs).toMatchObject([{ id: settled.failed, batchId: settled.id }])
  expect((await redress(['batches', 'show', 'nowhere', ...at])).code).toBe(3)
})

test('a batch with jobs that cannot be cancelled exits with 6 and names the reasons', async () => {
  expect((await redress(['batches', 'cancel', waiting, ...at])).code).toBe(2)
  const cancel = ['batches', 'cancel', waiting, '--reason', 'rained off', '--yes', ...at]
  const { code, stdout, stderr } = await redress(cancel)
  expect(stderr).toMatch(/^PARTLY_DONE: 1 of 2 jobs were refused\./m)
  expect([code, stdout]).toEqual([6, expect.stringContaining('1 of 2 were cancelled or asked to stop.')])
  expect(stdout).toMatch(/^JOB +WHY NOT$/m)
  expect(stdout).toContain('its policy has cancel: false')
  expect(await redress(cancel), 'the one that is left is refused, and nothing is done').toMatchObject({
    code: 4,
    stderr: expect.stringMatching(/^NOT_ALLOWED_BY_POLICY: Nothing was done\. /m),
  })
})

test('the failed jobs of a batch are retried', async () => {
  const dry = await redress(['batches', 'retry', settled.id, '--reason', 'mended', '--dry-run', ...at])
  expect(dry.stdout).toContain('1 of 1 would be retried')
  const { stdout } = await redress(['batches', 'retry', settled.id, '--reason', 'mended', ...at])
  expect(stdout).toBe(`In batch ${settled.id}, 1 of 1 were retried.\n`)
  expect(await json(['batches', 'show', settled.id, ...at])).toMatchObject({ state: 'open', counts: { queued: 1 } })
})
