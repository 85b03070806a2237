import { statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { policy } from '../../../packages/redress/src/index.ts'
import { GuideTables } from '../../../test/support/apps/guide-tables.ts'
import { temporaryFolder } from '../../../test/support/stores/sqlite.ts'
import { secretIn } from '../../shared/src/secret.ts'
import { CODES } from '../src/codes.ts'
import { openLinks } from '../src/copies/links.ts'
import { channelsOf, detectPolicy, markPolicy } from '../src/policy.ts'
import { KNOB_NAMES, readSettings } from '../src/settings.ts'

test('the default policy has 3 retries after 1, 5 and 15 minutes, free reclaims and no retry of detect jobs [W12 W53]', () => {
  const settings = readSettings({}, '/srv/watermark')
  expect(policy(markPolicy(settings))).toMatchObject({
    retry: { max: 4, backoff: { kind: 'table', delaysMs: [60_000, 300_000, 900_000] }, unknown: 'transient' },
    manualRetry: { mode: 'in-place', budget: 'reset' },
    orphan: { action: 'requeue', budget: 'free', maxReclaims: 5 },
    errors: 'latest',
    reject: 'refuse',
    shutdown: 'requeue',
    deny: 'hide',
    aggregates: true,
    rollup: 'partial',
    deadLetter: 'none',
    audit: 'transactional',
    breaker: null,
    notify: { failed: [] },
  })
  expect(policy(detectPolicy(settings))).toMatchObject({ retry: { max: 1 }, manualRetry: { mode: 'off' } })
})

test('the number of retries is one setting for the whole system and can be 0 [W4]', () => {
  const max = (retries: string) =>
    policy(markPolicy(readSettings({ WATERMARK_MAX_RETRIES: retries }, '/srv/watermark'))).retry.max
  expect([max('0'), max('5')]).toEqual([1, 6])
})

test('the waits between retries, the lease and the folder for work are settings, too', () => {
  const env = { WATERMARK_RETRY_DELAYS: '10s, 2m', WATERMARK_LEASE_SEC: '5', WATERMARK_WORK_DIR: '/fast/work' }
  const settings = readSettings(env, '/srv/watermark')
  expect(policy(markPolicy(settings))).toMatchObject({
    retry: { max: 4, backoff: { delaysMs: [10_000, 120_000] } },
    lease: { ttlMs: 5_000 },
  })
  expect(policy(detectPolicy(settings)).lease.ttlMs).toBe(5_000)
  expect([settings.work, readSettings({}, '/srv/watermark').work]).toEqual(['/fast/work', '/srv/watermark/work'])
  for (const wrong of ['soon', '1m,', '1m;5m', '-1s']) {
    expect(() => readSettings({ WATERMARK_RETRY_DELAYS: wrong }, '/srv')).toThrow('WATERMARK_RETRY_DELAYS: must be')
  }
})

test('mail and webhook are off unless they are configured [W36]', () => {
  expect(channelsOf(readSettings({}, '/srv'))).toEqual({ failed: [], settled: [] })
  const mail = { SMTP_URL: 'smtps://me:p%40ss@mail.example.org:465', MAIL_FROM: 'me@example.org' }
  const hook = { WEBHOOK_URL: 'https://hooks.example.org/x', WEBHOOK_SECRET: 'whsec_x' }
  const settings = readSettings({ ...mail, ...hook }, '/srv')
  expect(channelsOf(settings)).toEqual({ failed: ['watermark-mail'], settled: ['watermark-mail', 'watermark-webhook'] })
  expect(settings.mail?.smtp).toEqual({
    host: 'mail.example.org',
    port: 465,
    secure: true,
    auth: { user: 'me', pass: 'p@ss' },
  })
})

test('everything that is wrong with the environment is said at once, by its name', () => {
  const env = {
    WATERMARK_MAX_RETRIES: 'many',
    WATERMARK_SECRET: 'short',
    SMTP_URL: 'https://mail.example.org',
    WATERMARK_UPLOAD_MB: '0',
  }
  expect(() => readSettings(env, '/srv')).toThrow(
    /WATERMARK_MAX_RETRIES.*WATERMARK_UPLOAD_MB.*WATERMARK_SECRET.*SMTP_URL/,
  )
  const elsewhere = { WATERMARK_COPIES_DIR: 'https://bucket.example/copies' }
  expect(() => readSettings(elsewhere, '/srv')).toThrow('WATERMARK_COPIES_DIR: must be a folder, or s3://bucket/prefix')
  expect(() => readSettings({ SMTP_URL: 'smtp://mail.example.org' }, '/srv')).toThrow('MAIL_FROM: must be given')
  expect(() => readSettings({ WEBHOOK_URL: 'https://a.example' }, '/srv')).toThrow('WEBHOOK_SECRET: must be given')
})

test('the secret is made once, for the eyes of its user only; links made with it are good in every process', () => {
  const folder = temporaryFolder()
  const use = { what: 'the key', knob: 'WATERMARK_SECRET', loss: 'Links would be lost.' }
  const [first, second] = [secretIn(folder, 'watermark.key', use), secretIn(folder, 'watermark.key', use)]
  expect(second).toBe(first)
  expect(statSync(join(folder, 'watermark.key')).mode & 0o777).toBe(0o600)
  const path = openLinks(first).pathOf('abc')
  expect(openLinks(second).tokenOf(path.slice('/d/'.length))).toBe('abc')
  expect(openLinks(`${second}x`).tokenOf(path.slice('/d/'.length))).toBeNull()
  // What signs links says nothing about what is hidden in pictures.
  expect(path).not.toContain(openLinks(first).markKey)
})

describe('the guide', () => {
  const guide = new GuideTables('watermark.md')

  test('has a line for each knob, with its default', () => {
    const told = guide.expectKnobs(KNOB_NAMES, ['FFMPEG_PATH', 'FFPROBE_PATH', 'WORKER_CONCURRENCY'])
    // With every default written out, the settings are the same: none of them is told wrong.
    expect(Object.keys(told).length).toBeGreaterThanOrEqual(7)
    expect(readSettings(told, '/srv')).toEqual(readSettings({}, '/srv'))
  })

  test('has each failure with its words', () => {
    expect(guide.rows('code')).toEqual(
      Object.entries(CODES).map(([code, { retry, waiting = '', message }]) => [
        '',
        code,
        retry === 'never' ? 'no' : 'yes',
        waiting,
        message,
        '',
      ]),
    )
  })
})
