import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { GuideTables } from '../../../test/support/apps/guide-tables.ts'
import { CHECKS, CODES, codeOfCheck } from '../src/codes.ts'
import { KNOB_NAMES, readSettings } from '../src/settings.ts'
import { PROFILES } from '../src/spec/profiles.ts'

test('everything that is wrong with the environment is said at once, by its name', () => {
  const env = { PROXX_ROOTS: 'relative', PROXX_FREE_MB: 'much', PROXX_CLIP_MINUTES: '0', PROXX_SCRIPTS: 'here' }
  expect(() => readSettings(env, '/srv')).toThrow(/PROXX_ROOTS.*PROXX_SCRIPTS.*PROXX_FREE_MB.*PROXX_CLIP_MINUTES/)
  expect(() => readSettings({ PROXX_MAIL_TO: 'ops@example.org' }, '/srv')).toThrow('PROXX_MAIL_TO: needs SMTP_URL')
  expect(() => readSettings({ PROXX_WEBHOOK_URL: 'https://a.example' }, '/srv')).toThrow('PROXX_WEBHOOK_SECRET')
})

test('roots are folders with colons between them', () => {
  expect(readSettings({ PROXX_ROOTS: '/media:/proxies:' }, '/srv').roots).toEqual(['/media', '/proxies'])
  expect(readSettings({}, '/srv').roots).toBeNull()
})

describe('the guide', () => {
  const guide = new GuideTables('proxx.md')

  test('has a line for each knob, with its default', () => {
    const told = guide.expectKnobs(KNOB_NAMES, ['FFMPEG_PATH', 'FFPROBE_PATH', 'WORKER_CONCURRENCY'])
    // With every default written out, the settings are the same: none of them is told wrong.
    expect(Object.keys(told)).toHaveLength(4)
    expect(readSettings(told, '/srv')).toEqual(readSettings({}, '/srv'))
  })

  test('the guide lists every failure code with its text, every check and every profile argument [P62]', () => {
    expect(guide.rows('code').map(([, code, , message]) => [code, message])).toEqual(
      Object.entries(CODES).map(([code, { message }]) => [code, message]),
    )
    expect(guide.rows('check').map(([, check]) => check)).toEqual([...CHECKS])
    for (const check of CHECKS) expect(CODES).toHaveProperty(codeOfCheck(check))
    expect(guide.rows('profile')).toEqual(
      [...PROFILES.values()].map(({ name, version, title, arguments: args }) => [
        '',
        name,
        String(version),
        title,
        args.join(' '),
        '',
      ]),
    )
  })

  test('the runbook covers every failure code and no other', () => {
    const runbook = readFileSync(join(import.meta.dirname, '../../../docs/runbooks/proxx.md'), 'utf8')
    const [table = ''] = /^\| code \|.*?\n\n/ms.exec(runbook) ?? []
    const told = [...table.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) => cell.match(/[A-Z_]{3,}/g) ?? [])
    const engine = ['NEVER_STARTED', 'SHUTDOWN', 'MARKED_FAILED', 'LOG_FAILED']
    expect(told.toSorted()).toEqual([...Object.keys(CODES), ...engine].toSorted())
    const headings = [...runbook.matchAll(/^## (.*)$/gm)].map(([, text = '']) =>
      text
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    )
    for (const [, anchor] of runbook.matchAll(/\]\(#([^)]+)\)/g)) expect(headings).toContain(anchor)
  })

  test('no proxx failure code is ever retried automatically [P38]', () => {
    expect(new Set(Object.values(CODES).map(({ retry }) => retry))).toEqual(new Set(['never']))
  })
})
