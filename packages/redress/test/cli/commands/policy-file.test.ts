import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folder, json, ROOT, redress } from '../command.ts'

function policyFile(value: unknown): string {
  const file = join(folder(), 'policy.json')
  writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value))
  return file
}

const RETRIES = { retry: { max: 3, backoff: { exponential: '5s', jitter: '5s' } } }

test('a policy file is checked and shown with its defaults', async () => {
  const { code, stdout } = await redress(['policy', 'check', policyFile(RETRIES)])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^\* retry\.backoff +exponential from 5 s, times 2, plus 0 to 5 s$/m)
  expect(stdout).toMatch(/^ {2}orphan\.action +report$/m)
})

test('a contradicting policy exits with 2 and names both fields and the reason', async () => {
  const { code, stderr } = await redress(['policy', 'check', policyFile({ ...RETRIES, forwardOnly: true })])
  expect(code).toBe(2)
  expect(stderr).toMatch(/^POLICY_INVALID: .*forwardOnly contradicts retry\.max/)
})

test.each([
  ['{', 'POLICY_INVALID', 'is not JSON'],
  ['{"retry":{"mx":3}}', 'POLICY_INVALID', 'the nearest is retry.max'],
  ['{"policy":{},"coodes":{}}', 'POLICY_INVALID', 'coodes: no such field'],
  ['{"policy":{},"codes":5}', 'TAXONOMY_INVALID', 'they must be an object'],
  ['{"policy":{"retry":{"max":3,"perCode":{"GW":2}}},"codes":{}}', 'POLICY_INVALID', 'the taxonomy has no code GW'],
])('an invalid policy file exits with 2: %s', async (text, errorCode, message) => {
  const { code, stderr } = await redress(['policy', 'check', policyFile(text)])
  expect(code).toBe(2)
  expect(stderr).toMatch(new RegExp(`^${errorCode}: `))
  expect(stderr).toContain(message)
})

test('a simulation prints the timeline that a policy would give', async () => {
  const words = ['policy', 'simulate', policyFile(RETRIES), '--failures', 'GW_5XX, GW_5XX,ok']
  const { stdout } = await redress(words)
  expect(stdout).toContain(
    '0 ms   1        GW_5XX   queued    GW_5XX is transient; failure 1 of 3; next attempt in 7.5 s',
  )
  expect(stdout).toContain('Ends complete after 3 attempts.')
  const [first, again, other] = await Promise.all(['7', '7', '8'].map((seed) => json([...words, '--seed', seed])))
  expect(first).toEqual(again)
  expect(first).not.toEqual(other)
})

test('a policy file can contain failure codes, which the timeline uses', async () => {
  const codes = { GW_4XX: { fault: 'caller', retry: 'never', message: 'No.' } }
  const { stdout } = await redress([
    'policy',
    'simulate',
    policyFile({ policy: RETRIES, codes }),
    '--failures',
    'GW_4XX,ok',
  ])
  expect(stdout).toContain('GW_4XX is never retried')
})

test('the policies of an app are taken from the app itself', async () => {
  const { stdout } = await redress([
    'policy',
    'simulate',
    join(ROOT, 'examples/flaky.ts'),
    '--failures',
    'SHOP_BUSY,SOLD_OUT',
  ])
  expect(stdout).toContain('SOLD_OUT is never retried')
  expect((await redress(['policy', 'check', join(ROOT, 'examples/flaky.ts')])).stdout).toMatch(/^shop\.order\n/)
})

test('a simulation without outcomes names the missing option', async () => {
  const { code, stderr } = await redress(['policy', 'simulate', policyFile({})])
  expect(code).toBe(2)
  expect(stderr).toContain('Add --failures GW_5XX,GW_5XX,ok')
})
