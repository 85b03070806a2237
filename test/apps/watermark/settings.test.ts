import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { secretIn } from '../../../apps/shared/secret.ts'
import { openLinks } from '../../../apps/watermark/links.ts'
import { channelsOf, detectPolicy, markPolicy } from '../../../apps/watermark/policy.ts'
import { readSettings } from '../../../apps/watermark/settings.ts'
import { policy } from '../../../src/index.ts'
import { temporaryFolder } from '../../support/sqlite.ts'

test('W12 W53 the policy is what campaigns were promised: three retries after 1, 5 and 15 minutes, and requeued for free', () => {
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

test('W4 the number of retries is a setting of the whole system, and may be none', () => {
  const max = (retries: string) =>
    policy(markPolicy(readSettings({ WATERMARK_MAX_RETRIES: retries }, '/srv/watermark'))).retry.max
  expect([max('0'), max('5')]).toEqual([1, 6])
})

test('W36 nobody is mailed and no webhook is called unless the settings say where', () => {
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
  expect(() => readSettings({ SMTP_URL: 'smtp://mail.example.org' }, '/srv')).toThrow('MAIL_FROM: must be given')
  expect(() => readSettings({ WEBHOOK_URL: 'https://a.example' }, '/srv')).toThrow('WEBHOOK_SECRET: must be given')
})

test('the secret is made once, for the eyes of its user only; links made with it are good in every process', () => {
  const folder = temporaryFolder()
  const [first, second] = [secretIn(folder, 'watermark.key'), secretIn(folder, 'watermark.key')]
  expect(second).toBe(first)
  expect(statSync(join(folder, 'watermark.key')).mode & 0o777).toBe(0o600)
  const path = openLinks(first).pathOf('abc')
  expect(openLinks(second).tokenOf(path.slice('/d/'.length))).toBe('abc')
  expect(openLinks(`${second}x`).tokenOf(path.slice('/d/'.length))).toBeNull()
  // What signs links says nothing about what is hidden in pictures.
  expect(path).not.toContain(openLinks(first).markKey)
})
