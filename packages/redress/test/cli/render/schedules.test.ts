import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeAll, describe, expect, test } from 'vitest'
import { redress as makeApp } from '../../../src/index.ts'
import { folder, json, redress } from '../command.ts'

describe('redress schedules', () => {
  const by = ['--reason', 'a test']

  async function prepared(): Promise<string[]> {
    const data = folder()
    const app = makeApp({ store: `sqlite:${join(data, 'redress.db')}` })
    const report = app.job('report', { run: () => undefined })
    app.schedule('nightly', { cron: '0 3 * * *', timezone: 'Europe/Berlin', job: report, input: { pages: 3 } })
    app.schedule('by-code', { cron: '@hourly', job: report, input: ({ scheduledFor }) => ({ scheduledFor }) })
    await app.store()
    await app.stop()
    return ['--data', data]
  }

  let help = ''
  beforeAll(async () => {
    help = (await redress(['schedules', '--help'])).stdout
  })

  test('are listed with their next run', async () => {
    const at = await prepared()
    const { stdout } = await redress(['schedules', 'list', ...at])
    expect(stdout).toMatch(/SCHEDULE +STATE +WHEN +ZONE +JOB +NEXT/)
    expect(stdout).toMatch(/nightly +active +0 3 \* \* \* +Europe\/Berlin +report +\d{4}-\d\d-\d\dT0[12]:00:00.000Z/)
    const shown = await redress(['schedules', 'show', 'nightly', ...at])
    expect(shown.stdout).toContain('{"pages":3}')
    expect(shown.stdout).toContain('once: one run for all of them')
    for (const word of ['list', 'show', 'upsert', 'pause', 'resume', 'trigger', 'remove']) expect(help).toContain(word)
  })

  test('are paused, resumed, triggered and removed, with a reason', async () => {
    const at = await prepared()
    const refused = await redress(['schedules', 'pause', 'nightly', ...at])
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('A reason is required')])
    const paused = await redress(['schedules', 'pause', 'nightly', ...by, ...at])
    expect(paused.stdout).toBe('Schedule nightly is paused; its ticks are skipped until it is resumed.\n')
    const show = await json(['schedules', 'show', 'nightly', ...at])
    expect(show).toMatchObject({ state: 'paused', paused: { actor: 'tess', reason: 'a test' } })
    expect((await redress(['schedules', 'resume', 'nightly', ...by, ...at])).code).toBe(0)
    const triggered = (await json(['schedules', 'trigger', 'nightly', ...by, ...at])) as { jobId: string }
    expect(await json(['jobs', 'show', triggered.jobId, ...at])).toMatchObject({ type: 'report', input: { pages: 3 } })
    const elsewhere = await redress(['schedules', 'trigger', 'by-code', ...by, ...at])
    expect([elsewhere.code, elsewhere.stderr]).toEqual([2, expect.stringContaining('Only the program that declares')])
    const declared = await redress(['schedules', 'remove', 'nightly', ...by, '--yes', ...at])
    expect([declared.code, declared.stderr]).toEqual([4, expect.stringContaining('A program declares the schedule')])
    const database = new DatabaseSync(join(at[1] as string, 'redress.db'))
    database.exec('UPDATE schedules SET seen_at = seen_at - 180001')
    database.close()
    expect(await json(['schedules', 'remove', 'nightly', ...by, '--yes', ...at])).toMatchObject({
      isDone: true,
      schedule: null,
    })
    expect(await json(['schedules', 'list', ...at])).toMatchObject([{ name: 'by-code' }])
  })

  test('are stored at runtime, shown with all they have, and removed', async () => {
    const at = await prepared()
    const stored = ['schedules', 'upsert', 'report:customer-17', '--job', 'report', '--every', '90s', '--jitter', '5s']
    const more = ['--count', '3', '--until', '2999-01-01T00:00:00Z', '--input', '{"pages":1}', '--owner', 'ann']
    const made = await redress([...stored, ...more, ...by, ...at])
    expect([made.code, made.stdout]).toEqual([
      0,
      expect.stringMatching(/^Schedule report:customer-17 is created\. Its/),
    ])
    const again = await redress([...stored, ...more, ...by, ...at])
    expect(again.stdout).toMatch(/^Nothing was done: schedule report:customer-17 has this definition\./)
    const { stdout } = await redress(['schedules', 'list', '--owner', 'ann', ...at])
    expect(stdout).toMatch(/report:customer-17 +active +every 1m30s +- +report/)
    expect(stdout).not.toContain('nightly')
    const shown = await redress(['schedules', 'show', 'report:customer-17', ...at])
    for (const said of ['stored at runtime', 'up to 5s after each tick', '0 of 3 runs made', '2999-01-01']) {
      expect(shown.stdout).toContain(said)
    }
    const removed = await redress(['schedules', 'remove', 'report:customer-17', ...by, '--yes', ...at])
    expect(removed.stdout).toBe('Schedule report:customer-17 is removed.\n')
    const declared = await redress(['schedules', 'upsert', 'nightly', '--job', 'report', '--every', '1h', ...by, ...at])
    expect([declared.code, declared.stderr]).toEqual([4, expect.stringContaining('A program declares the schedule')])
    const wrong = await redress(['schedules', 'upsert', 'x', '--job', 'report', '--every', '10ms', ...by, ...at])
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('every: it must be at least 1 s')])
  })

  test('are listed in pages', async () => {
    const at = await prepared()
    const first = await redress(['schedules', 'list', '--limit', '1', ...at])
    expect(first.stderr).toContain('More: add --cursor by-code')
    const second = await redress(['schedules', 'list', '--limit', '1', '--cursor', 'by-code', ...at])
    expect(second.stdout).toContain('nightly')
  })

  test('an unknown schedule is refused with the known names', async () => {
    const at = await prepared()
    const { code, stderr } = await redress(['schedules', 'show', 'nigthly', ...at])
    expect(code).toBe(3)
    expect(stderr).toContain('There is no schedule nigthly; known schedules: by-code, nightly.')
  })
})
