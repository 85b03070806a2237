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

type Groups = { fingerprint: string; type: string; state: string }[]

const fingerprintOf = async (type: string): Promise<string> =>
  ((await json(['failures', 'list', '--type', type, ...at])) as Groups)[0]?.fingerprint ?? ''

test('failures are listed by group, and `jobs failures` lists those of one job', async () => {
  const { code, stdout, stderr } = await redress(['failures', ...at])
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const [head, ...lines] = stdout.trimEnd().split('\n')
  expect(head).toMatch(/^FINGERPRINT +STATE +COUNT +FINAL +LAST +TYPE +CODE +FAULT +MESSAGE$/)
  expect(lines).toHaveLength(3)
  expect(stdout).toMatch(/^1:[0-9a-f]{16} +open +2 +1 +\d+ \w+ +pdf\.convert +GW_5XX +dependency +It kept failing\.$/m)
  const ofJob = await redress(['jobs', 'failures', store.ids.failed, ...at])
  expect(ofJob.stdout).toContain('502 Bad Gateway')
})

test('an empty list is reported on standard error', async () => {
  const { stdout, stderr } = await redress(['failures', 'list', '--code', 'NONE', ...at])
  expect({ stdout, stderr }).toEqual({ stdout: '', stderr: 'No failures.\n' })
})

test('one group is shown with counts, state, jobs and a sample', async () => {
  const { stdout } = await redress(['failures', 'show', await fingerprintOf('pdf.convert'), ...at])
  for (const part of [
    /^failures +2, of which 1 ended their job$/m,
    /^state +open since /m,
    /^last day +(\d+ ){24}\(per hour, the current one last\)$/m,
    new RegExp(`^${store.ids.failed} +failed +2 `, 'm'),
    /^ {4}.*502 Bad Gateway/m,
    new RegExp(`^Why: .*explain ${store.ids.failed}`, 'm'),
  ]) {
    expect(stdout).toMatch(part)
  }
})

test('a group is resolved, snoozed and reopened in the name of the user', async () => {
  const fingerprint = await fingerprintOf('pdf.archive')
  const without = await redress(['failures', 'resolve', fingerprint, ...at])
  expect(without).toMatchObject({ code: 2, stderr: expect.stringContaining('REASON_REQUIRED') })
  const acts = [['resolve'], ['reopen'], ['snooze', '--for', '8h']]
  for (const [act = '', ...options] of acts) {
    const done = await redress(['failures', act, fingerprint, '--reason', `why ${act}`, ...options, ...at])
    expect(done).toMatchObject({ code: 0, stdout: expect.stringContaining(`Failure group ${fingerprint} is `) })
  }
  const { stdout, stderr } = await redress(['audit', 'list', '--id', fingerprint, ...at])
  expect(stderr).toBe('')
  const [head, ...lines] = stdout.trimEnd().split('\n')
  expect(head).toMatch(/^AT +WHO +DID +TO +WHY$/)
  expect(lines.map((line) => line.split(/ {2,}/).slice(1))).toEqual(
    ['snooze', 'reopen', 'resolve'].map((act) => [
      'tess',
      `failures.${act}`,
      `failure-group ${fingerprint}`,
      `why ${act}`,
    ]),
  )
  expect((await redress(['failures', 'show', fingerprint, ...at])).stdout).toMatch(/^snoozed until +2/m)
})
