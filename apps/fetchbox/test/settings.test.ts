import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { policy } from '../../../packages/redress/src/core/policy/policy.ts'
import { CODES, categoryOf } from '../src/failures/failure.ts'
import { purgePolicy, resourcePolicy } from '../src/policy.ts'
import { KNOB_NAMES, readSettings } from '../src/settings.ts'

const read = (env: Record<string, string>) => readSettings(env, '/srv/redress')
const policyOf = (env: Record<string, string>) => policy(resourcePolicy(read(env)))
const page = (path: string) => readFileSync(join(import.meta.dirname, '../../../docs', path), 'utf8')

describe('the knobs', () => {
  test('the defaults are 3 tries for each stage and a base delay of 500 ms [F8 F11]', () => {
    expect(read({})).toMatchObject({
      downloadTriesMax: 3,
      storageTriesMax: 3,
      retryBaseMs: 500,
      storageUrl: 'file:/srv/redress/storage',
      work: '/srv/redress/work',
      outbound: { allow: [], ports: [80, 443] },
      handlersDir: null,
      proxiesFile: null,
    })
  })

  test('lists, places and limits are read as they are meant', () => {
    const env = {
      FETCHBOX_ALLOW: '10.0.0.0/8, intranet.example:8443,',
      FETCHBOX_PORTS: '80, 8080',
      FETCHBOX_STORAGE: 's3://bucket/x?region=eu-central-1',
      FETCHBOX_PER_HOST: '2',
      FETCHBOX_CONCURRENCY: '9',
      FETCHBOX_LEASE_SEC: '7',
      FETCHBOX_MAX_MB: '2',
    }
    expect(read(env)).toMatchObject({
      outbound: { allow: ['10.0.0.0/8', 'intranet.example:8443'], ports: [80, 8080] },
      storageUrl: 's3://bucket/x?region=eu-central-1',
      resourceBytesMax: 2 * 2 ** 20,
    })
    expect(policyOf(env)).toMatchObject({ concurrency: { max: 9, perKey: 2 }, lease: { ttlMs: 7_000 } })
  })

  test('every policy that they can make is one: at their least and at their most', () => {
    const most = { DOWNLOAD_RETRY_LIMIT: '100', STORAGE_RETRY_LIMIT: '100', FETCHBOX_KEEP_DAYS: '3000' }
    expect(policyOf({ ...most, FETCHBOX_DOWNLOAD_TIMEOUT_MS: '86400000' }).timeout.attemptMs).toBeGreaterThan(0)
    const least = { DOWNLOAD_RETRY_LIMIT: '1', STORAGE_RETRY_LIMIT: '1', FETCHBOX_KEEP_DAYS: '1' }
    const attempt = policyOf({ ...least, FETCHBOX_DOWNLOAD_TIMEOUT_MS: '1' }).timeout.attemptMs
    // The stages end first, and say what was too slow.
    expect(attempt).toBeGreaterThan(30_000)
  })

  test('invalid settings are all named at once, and an empty variable counts as unset', () => {
    const bad = { DOWNLOAD_RETRY_LIMIT: '0', FETCHBOX_PORTS: '80,http', FETCHBOX_MAX_MB: 'much' }
    expect(() => read(bad)).toThrow(/DOWNLOAD_RETRY_LIMIT.*FETCHBOX_PORTS.*FETCHBOX_MAX_MB/s)
    expect(() => read({ FETCHBOX_STORAGE: 'https://s3.example.org/bucket' })).toThrow(/FETCHBOX_STORAGE.*s3:\/\/bucket/)
    expect(read({ FETCHBOX_STORAGE: '/srv/a:b' }).storageUrl).toBe('file:/srv/a:b')
    expect(read({ FETCHBOX_ALLOW: ' ', FETCHBOX_STORAGE: '' })).toEqual(read({}))
  })

  test('each has its line in the guide', () => {
    const [, table = ''] = page('guides/systems/fetchbox.md').split(/^\| variable .*$/m)
    const told = [...table.matchAll(/^\| `([A-Z_]+)`/gm)].map(([, name]) => name)
    expect(told.toSorted()).toEqual(KNOB_NAMES.toSorted())
  })
})

test('the requirements’ side of each contradiction is the policy of the app', () => {
  expect(policyOf({})).toMatchObject({
    retry: { max: 3, unknown: 'dead-letter' },
    manualRetry: { mode: 'new-job', budget: 'reset' },
    orphan: { action: 'requeue', budget: 'consume' },
    rollup: 'any-permanent',
    deadLetter: 'queue',
    errors: 'latest',
    reject: 'refuse',
    shutdown: 'requeue',
    deny: 'hide',
    breaker: null,
    aggregates: true,
    audit: 'transactional',
  })
})

test('a removal that was asked for is not cancelled half way', () => {
  expect(policy(purgePolicy(read({}))).cancel).toBe(false)
})

test('docs/failures.md lists every code once with category, class, status and remediation [F25]', () => {
  const text = page('failures.md')
  const rows = [...text.matchAll(/^\| `([A-Z_0-9]+)` \| `([a-z-]+)` \| (\d*) ?\| (.*) \|$/gm)]
  const told = rows.map(([, code = '', retry, http = '']) => [code, retry, http === '' ? undefined : Number(http)])
  expect(told.toSorted()).toEqual(
    Object.entries(CODES)
      .map(([code, { retry, http }]) => [code, retry, http])
      .toSorted(),
  )
  expect(rows.filter(([, , , , todo = '']) => todo.length < 15)).toEqual([])
  for (const code of Object.keys(CODES)) {
    const prefix = `${code.split('_')[0]}_`
    expect(text).toContain(`| ${categoryOf(code)} | \`${prefix}\` |`)
  }
})
