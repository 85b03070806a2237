import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { backoffMs } from '../../../packages/redress/src/core/policy/backoff.ts'
import { policy } from '../../../packages/redress/src/core/policy/policy.ts'
import { convertPolicy } from '../src/policy.ts'
import { KNOB_NAMES, readSettings } from '../src/settings.ts'
import { temporary } from './rig.ts'

const read = (env: Record<string, string>) => readSettings(env, '/srv/redress')
const policyOf = (env: Record<string, string>) => policy(convertPolicy(read(env)))
/** The waits after each failure, with chance at its least and at its most. */
const waits = (env: Record<string, string>) => {
  const { retry } = policyOf(env)
  return Array.from({ length: retry.max - 1 }, (_, failures) =>
    [0, 0.999999].map((chance) => (retry.backoff === null ? 0 : backoffMs(retry.backoff, failures, chance).delayMs)),
  )
}

describe('the environment variables', () => {
  test('the defaults are 3 attempts, 5000 * 2^n + rand(0..5000) ms apart [D13 E8 E25 E29]', () => {
    expect(waits({})).toEqual([
      [5_000, 10_000],
      [10_000, 15_000],
    ])
  })

  test('RETRY_BACKOFF=table selects 5, 15 and 45 s with 20 % jitter [D12 E25]', () => {
    expect(waits({ RETRY_BACKOFF: 'table', RETRY_MAX_ATTEMPTS: '4' })).toEqual([
      [4_000, 6_000],
      [12_000, 18_000],
      [36_000, 54_000],
    ])
  })

  test('RETRY_MAX_ATTEMPTS, RETRY_BASE_DELAY_MS and RETRY_JITTER_MAX_MS set the retry policy [E29]', () => {
    const env = { RETRY_MAX_ATTEMPTS: '2', RETRY_BASE_DELAY_MS: '100', RETRY_JITTER_MAX_MS: '7' }
    expect(waits(env)).toEqual([[100, 107]])
    expect(policyOf({ RETRY_MAX_ATTEMPTS: '1' }).retry.max).toBe(1)
  })

  test('WORKER_LEASE_TTL_SEC and GATEWAY_TIMEOUT_MS set the lease and the call timeout [E29]', () => {
    expect(policyOf({ WORKER_LEASE_TTL_SEC: '7' }).lease.ttlMs).toBe(7_000)
    expect(read({ GATEWAY_TIMEOUT_MS: '1234' }).gateway.timeoutMs).toBe(1_234)
    // The call ends first, and says why.
    expect(policyOf({ GATEWAY_TIMEOUT_MS: '1234' }).timeout.attemptMs).toBeGreaterThan(1_234)
  })

  test('CIRCUIT_WINDOW, CIRCUIT_FAIL_THRESHOLD, CIRCUIT_COOLDOWN_MS and CIRCUIT_MODE set the breaker [D19 E11 E25 E29]', () => {
    expect(policyOf({}).breaker).toMatchObject({ mode: 'hold', windowCalls: 20, windowMs: 120_000, ratio: 0.5 })
    const env = { CIRCUIT_WINDOW: '50', CIRCUIT_FAIL_THRESHOLD: '0.25', CIRCUIT_COOLDOWN_MS: '900' }
    expect(policyOf(env).breaker).toMatchObject({ windowCalls: 50, ratio: 0.25, cooldownMs: 900 })
    expect(policyOf({ CIRCUIT_FAIL_THRESHOLD: '80' }).breaker?.ratio).toBe(0.8)
    expect(policyOf({ CIRCUIT_MODE: 'fail-fast' }).breaker).toMatchObject({ mode: 'fail-fast', code: 'GW_5XX' })
  })

  test('GATEWAY_URL, UPLOADS_DIR and RESULTS_DIR take a URL, a folder or an object store [E29]', () => {
    expect(read({}).gateway.url).toBeNull()
    expect(read({ GATEWAY_URL: 'https://gw.test/base/' }).gateway.url).toBe('https://gw.test/base')
    expect(() => read({ GATEWAY_URL: 'http://gw.test/?key=1' })).toThrow('GATEWAY_URL: must end with a path')
    expect(read({}).uploads.url).toBe('file:/srv/redress/uploads')
    expect(read({ UPLOADS_DIR: '/mnt/up', RESULTS_DIR: 's3://bucket/xml?region=eu-central-1' })).toMatchObject({
      uploads: { url: 'file:/mnt/up' },
      results: { url: 's3://bucket/xml?region=eu-central-1' },
    })
  })

  test('MAPPINGS_DIR adds the mappings that are there, by the names they give themselves; a broken one is not offered', () => {
    const folder = join(temporary(), 'mappings')
    mkdirSync(folder)
    const receipt = { name: 'receipt', title: 'Receipt', fields: [{ element: 'sum', find: { label: 'Sum' } }] }
    const files = {
      'receipt.json': { ...receipt, version: 1 },
      'receipt-2.json': { ...receipt, version: 2 },
      'broken.json': {},
      'README.md': {},
    }
    for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), JSON.stringify(content))
    const { mappings } = read({ MAPPINGS_DIR: folder })
    expect(mappings.map(({ name }) => name)).toEqual(['text', 'layout', 'invoice', 'receipt'])
    expect(mappings.at(-1)?.versions.toSorted()).toEqual([1, 2])
  })

  test('invalid settings are all named at once, with an action', () => {
    const bad = {
      RETRY_MAX_ATTEMPTS: 'many',
      CIRCUIT_FAIL_THRESHOLD: '0',
      GATEWAY_URL: 'ftp://x',
      SESSION_SECRET: 'short',
    }
    expect(() => read(bad)).toThrow(/RETRY_MAX_ATTEMPTS.*CIRCUIT_FAIL_THRESHOLD.*GATEWAY_URL.*SESSION_SECRET/s)
    expect(() => read({ MAPPINGS_DIR: '/nowhere' })).toThrow('MAPPINGS_DIR names /nowhere, which cannot be read.')
  })

  test('the guide lists every environment variable [E29]', () => {
    const guide = readFileSync(join(import.meta.dirname, '../../../docs/guides/systems/pdf-xml.md'), 'utf8')
    const [, table = ''] = guide.split(/^\| variable .*$/m)
    const told = [...table.matchAll(/^\| `([A-Z_]+)`/gm)].map(([, name]) => name)
    expect(told.toSorted()).toEqual([...KNOB_NAMES, 'DATABASE_URL', 'WORKER_CONCURRENCY'].toSorted())
  })

  test('an empty one is as good as none', () => {
    expect(read({ RETRY_MAX_ATTEMPTS: ' ', GATEWAY_URL: '' })).toEqual(read({}))
  })
})

test('the requirements’ side of each contradiction is the policy of the app', () => {
  expect(policyOf({})).toMatchObject({
    retry: { max: 3, perCode: { IO_ERROR: 2 }, unknown: 'transient' },
    manualRetry: { mode: 'in-place', budget: 'reset' },
    orphan: { action: 'requeue', budget: 'consume' },
    errors: 'terminal',
    reject: 'record',
    shutdown: 'requeue',
    deny: 'forbid',
    deadLetter: 'flag',
    aggregates: true,
    audit: 'transactional',
  })
})

test('the runbook covers gateway failures, refusals, IO_ERROR with paused uploads, and stuck leases [D34]', () => {
  const runbook = readFileSync(join(import.meta.dirname, '../../../docs/runbooks/pdf-xml.md'), 'utf8')
  const cases = runbook.split(/^## /m).slice(1)
  const covered = (title: string, ...words: string[]) => {
    const found = cases.find((text) => text.startsWith(title)) ?? expect.fail(`the runbook has no case "${title}"`)
    for (const word of ['**How you notice.**', '**What it means.**', '**What to type.**', ...words]) {
      expect(found, title).toContain(word)
    }
  }
  covered('Many GW_5XX or GW_TIMEOUT', 'breaker', 'redress breakers')
  covered('Mostly GW_4XX', 'mapping')
  covered('IO_ERROR spikes', 'redress queues pause', 'Uploads are paused')
  covered('Stuck leases', 'WORKER_LEASE_TTL_SEC', 'clock')
})
