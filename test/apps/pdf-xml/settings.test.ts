import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { convertPolicy } from '../../../apps/pdf-xml/policy.ts'
import { KNOB_NAMES, readSettings } from '../../../apps/pdf-xml/settings.ts'
import { backoffMs } from '../../../src/core/backoff.ts'
import { policy } from '../../../src/core/policy.ts'
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

describe('E29 the knobs', () => {
  test('E8 E25 D13 without any: three attempts, 5000 * 2^n + rand(0..5000) ms apart', () => {
    expect(waits({})).toEqual([
      [5_000, 10_000],
      [10_000, 15_000],
    ])
  })

  test('D12 E25 the table of 5, 15 and 45 s, give or take 20 %, can be had instead', () => {
    expect(waits({ RETRY_BACKOFF: 'table', RETRY_MAX_ATTEMPTS: '4' })).toEqual([
      [4_000, 6_000],
      [12_000, 18_000],
      [36_000, 54_000],
    ])
  })

  test('RETRY_MAX_ATTEMPTS, RETRY_BASE_DELAY_MS and RETRY_JITTER_MAX_MS', () => {
    const env = { RETRY_MAX_ATTEMPTS: '2', RETRY_BASE_DELAY_MS: '100', RETRY_JITTER_MAX_MS: '7' }
    expect(waits(env)).toEqual([[100, 107]])
    expect(policyOf({ RETRY_MAX_ATTEMPTS: '1' }).retry.max).toBe(1)
  })

  test('WORKER_LEASE_TTL_SEC and GATEWAY_TIMEOUT_MS', () => {
    expect(policyOf({ WORKER_LEASE_TTL_SEC: '7' }).lease.ttlMs).toBe(7_000)
    expect(read({ GATEWAY_TIMEOUT_MS: '1234' }).gateway.timeoutMs).toBe(1_234)
    // The call ends first, and says why.
    expect(policyOf({ GATEWAY_TIMEOUT_MS: '1234' }).timeout.attemptMs).toBeGreaterThan(1_234)
  })

  test('D19 E11 CIRCUIT_WINDOW, CIRCUIT_FAIL_THRESHOLD (a share, or percent), CIRCUIT_COOLDOWN_MS and CIRCUIT_MODE', () => {
    expect(policyOf({}).breaker).toMatchObject({ mode: 'hold', windowCalls: 20, windowMs: 120_000, ratio: 0.5 })
    const env = { CIRCUIT_WINDOW: '50', CIRCUIT_FAIL_THRESHOLD: '0.25', CIRCUIT_COOLDOWN_MS: '900' }
    expect(policyOf(env).breaker).toMatchObject({ windowCalls: 50, ratio: 0.25, cooldownMs: 900 })
    expect(policyOf({ CIRCUIT_FAIL_THRESHOLD: '80' }).breaker?.ratio).toBe(0.8)
    expect(policyOf({ CIRCUIT_MODE: 'fail-fast' }).breaker).toMatchObject({ mode: 'fail-fast', code: 'GW_5XX' })
  })

  test('GATEWAY_URL, UPLOADS_DIR and RESULTS_DIR: folders, or object stores', () => {
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

  test('what cannot be used is named, all at once, with what to do', () => {
    const bad = {
      RETRY_MAX_ATTEMPTS: 'many',
      CIRCUIT_FAIL_THRESHOLD: '0',
      GATEWAY_URL: 'ftp://x',
      SESSION_SECRET: 'short',
    }
    expect(() => read(bad)).toThrow(/RETRY_MAX_ATTEMPTS.*CIRCUIT_FAIL_THRESHOLD.*GATEWAY_URL.*SESSION_SECRET/s)
    expect(() => read({ MAPPINGS_DIR: '/nowhere' })).toThrow('MAPPINGS_DIR names /nowhere, which cannot be read.')
  })

  test('each has its line in the guide', () => {
    const guide = readFileSync(join(import.meta.dirname, '../../../docs/guides/pdf-xml.md'), 'utf8')
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
