import { afterAll, beforeAll, expect, test } from 'vitest'
import { json, redress } from '../command.ts'
import { type PreparedStore, prepareStore } from '../prepared-store.ts'

let store: PreparedStore
let at: string[]

beforeAll(async () => {
  store = await prepareStore()
  at = ['--data', store.data]
})

afterAll(() => store.remove())

test('a submission by hand is in the audit trail', async () => {
  const { job } = (await json(['submit', 'pdf.convert', '{"ok":true}', ...at])) as { job: { id: string } }
  expect(await json(['audit', '--act', 'jobs.submit', '--by', 'tess', ...at])).toMatchObject([
    { actor: 'tess', act: 'jobs.submit', target: 'job', ids: [job.id] },
  ])
  const nobody = await redress(['audit', 'list', '--by', 'nobody', ...at])
  expect(nobody).toMatchObject({ code: 0, stdout: '', stderr: expect.stringMatching(/^No matching entries/) })
})

test('control characters in reasons do not reach the terminal', async () => {
  const reason = 'one\u001b[2J\ntwo\u0007'
  const [group] = (await json(['failures', 'list', '--type', 'pdf.fetch', ...at])) as { fingerprint: string }[]
  const fingerprint = group?.fingerprint ?? ''
  await redress(['failures', 'resolve', fingerprint, '--reason', reason, '--actor', 'e\u001b[31mve', ...at])
  const { stdout } = await redress(['audit', '--id', fingerprint, ...at])
  expect(stdout).toContain('eve')
  expect(stdout).toContain('one two�')
  expect(stdout).not.toContain('\u001b')
})
