import { failureCodes } from 'redress'
import type { TestKit } from 'redress/testing'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import { act, told } from './actions.ts'
import { numbers } from './bars.ts'
import { makeDesk } from './desk.ts'

const BY = { actor: 'olga', reason: 'a test' }

const codes = failureCodes({
  BOUNCED: { fault: 'dependency', retry: 'never', message: 'The mail server did not take it.' },
})

/** Mails that bounced while the server was down; whether it is up again is for the test to say. */
function bounced(count: number) {
  const world = { isUp: false }
  const story = async (kit: TestKit) => {
    kit.app.job('mail.send', {
      input: z.object({ nr: z.number(), via: z.string().default('old') }),
      codes,
      policy: { deadLetter: 'queue' },
      run: ({ via }, attempt) => (world.isUp || via === 'new' ? undefined : attempt.fail('BOUNCED')),
    })
    for (let nr = 1; nr <= count; nr++) await kit.app.submit('mail.send', { nr })
    await kit.tick()
    await kit.advance('1h')
  }
  return { world, story }
}

const LETTERS = 'Letters of this replay'
const JOBS = 'Jobs of this replay'

async function plan(kit: TestKit, how: object): Promise<string> {
  const { replay } = await kit.app.perform('replays.plan', { type: 'mail.send', ...BY, ...how })
  return String(replay?.id)
}

test('a replay is previewed with reasons and planned, and a reload keeps the form', async () => {
  const { story } = bounced(5)
  const desk = await makeDesk({ story })
  const { kit } = desk
  await kit.app.perform('dead-letters.replay', { offset: 2, ...BY })
  await kit.tick()
  const page = await desk.open('/dead-letters?type=mail.send&code=BOUNCED')
  await page.getByRole('link', { name: 'Replay all that match' }).click()
  expect(await page.getByLabel('Type').inputValue()).toBe('mail.send')
  await page.getByText('5 will run').waitFor()
  const skipped = page.getByRole('table', { name: 'What will be skipped, and why' })
  expect(await skipped.innerText()).toMatch(/already-replayed.*letter 2: it was replayed already, as job/s)
  expect(await numbers(page, 'What would become of the letters')).toEqual({ 'will run': 5, 'will be skipped': 1 })
  await expectAccessible(page)

  await page.getByLabel('Also letters that were replayed already').check()
  await page.getByText('6 will run').waitFor()
  await page.getByLabel('Canary').fill('2')
  await page.getByLabel('Of these may fail').fill('2')
  await page.getByLabel('Of these may fail').blur()
  await page.getByRole('alert').getByText('must be less than canary (2)').waitFor()
  await page.getByLabel('Of these may fail').fill('1')
  await page.getByLabel('Rate').fill('fast')
  await page.getByLabel('Rate').blur()
  await page.getByRole('alert').getByText("write '5/s'").waitFor()
  await page.getByLabel('Rate').fill('100/s')
  await page.getByLabel('Change each input').fill('{"via": ')
  await page.getByLabel('Change each input').blur()
  await page.getByRole('alert').getByText('this is not JSON').waitFor()
  await page.getByLabel('Change each input').fill('{"via": 7}')
  await page.getByLabel('Change each input').blur()
  await page.getByText('6 will be skipped').waitFor()
  await page.getByText('No letter would run.').first().waitFor()
  await page.getByLabel('Change each input').fill('{"via": "new"}')
  await page.getByLabel('Change each input').blur()
  await page.getByText('6 will run').waitFor()
  await page.reload()
  await page.getByText('6 will run').waitFor()
  const preview = await act(page, { open: 'Plan this replay', verb: 'Plan', reason: 'the new server is there' })
  expect(preview).toContain('Of 6, 6 will run, 0 will be skipped')

  await page.getByText('The replay runs when a person starts it.').waitFor()
  await page.reload()
  await page.getByText('the first 2 letters; at most 1 of their jobs may fail').waitFor()
  await page.getByText('at most 100 a second').waitFor()
  expect(await page.getByLabel('the merge patch').innerText()).toContain('"via": "new"')
  expect(await numbers(page, LETTERS)).toEqual({ submitted: 0, skipped: 0, waiting: 6 })
})

test('a field keeps what is typed between the moment its last value is applied and the next paint', async () => {
  const { story } = bounced(1)
  const desk = await makeDesk({ story })
  const page = await desk.open('/replays/new?type=mail.send')
  await page.getByText('1 will run').waitFor()
  const typed = await page.getByLabel('Change each input').evaluate(async (field: EventTarget & { value?: string }) => {
    const write = (text: string) => {
      field.value = text
      field.dispatchEvent(new Event('input', { bubbles: true }))
    }
    write('{"via":')
    field.dispatchEvent(new Event('change', { bubbles: true }))
    // The page is drawn anew in a microtask, so this is typed after that and before anything is painted.
    for (let turn = 0; turn < 50; turn++) await Promise.resolve()
    write('{"via": "new"}')
    const { requestAnimationFrame } = globalThis as unknown as { requestAnimationFrame(then: () => void): void }
    const frame = () => new Promise<void>((resolve) => requestAnimationFrame(resolve))
    for (let frames = 0; frames < 5; frames++) await frame()
    return field.value
  })
  expect(new URL(page.url()).searchParams.get('patch')).toBe('{"via":')
  expect(typed).toBe('{"via": "new"}')
})

test('a started replay shows its progress live until the end', async () => {
  const { story } = bounced(6)
  const desk = await makeDesk({ story })
  const { kit } = desk
  const id = await plan(kit, { canary: 2, rate: '100/s', patch: { via: 'new' } })
  const page = await desk.open(`/replays/${id}`)
  expect(await act(page, { open: 'Start', verb: 'Start' })).toContain('6 letters wait; this would start it')
  await page
    .getByText(/canary/)
    .first()
    .waitFor()

  // Workers go on.
  await kit.advance('1s')
  await until('the canary has said its word', async () => (await numbers(page, LETTERS)).submitted !== 0)
  await kit.advance('10s')
  await page.getByText('Every letter became a job or was skipped.').waitFor()
  await until('all jobs are complete', async () => (await numbers(page, JOBS)).complete === 6)
  expect(await numbers(page, LETTERS)).toEqual({ submitted: 6, skipped: 0, waiting: 0 })
  await expectAccessible(page)
  await page.getByRole('navigation', { name: 'Pages', exact: true }).getByRole('link', { name: 'Replays' }).click()
  await page.getByRole('row').filter({ hasText: 'done' }).getByText('type mail.send').waitFor()
})

test('a running replay can be paused, resumed and aborted, and shows it live', async () => {
  const { world, story } = bounced(8)
  const desk = await makeDesk({ story })
  const { kit } = desk
  world.isUp = true
  const id = await plan(kit, { rate: '1/s' })
  await kit.app.perform('replays.start', { id, ...BY })
  await kit.advance('2s')
  const page = await desk.open(`/replays/${id}`)
  await page.getByText('Letter after letter becomes a job.').waitFor()
  const before = await numbers(page, LETTERS)
  expect(before.waiting).toBeGreaterThan(0)
  await kit.advance('1s')
  await until(
    'one more is submitted',
    async () => (await numbers(page, LETTERS)).submitted === Number(before.submitted) + 1,
  )

  await act(page, { open: 'Pause', verb: 'Pause', reason: 'it is slow' })
  await page
    .getByText(/: it is slow$/)
    .first()
    .waitFor()
  const paused = await numbers(page, LETTERS)
  await kit.advance('1m')
  await page.reload()
  await page.getByText('No letter becomes a job until the replay is resumed.').waitFor()
  expect(await numbers(page, LETTERS)).toEqual(paused)
  await expectAccessible(page)

  await act(page, { open: 'Resume', verb: 'Resume' })
  await page.getByText('Letter after letter becomes a job.').waitFor()

  // While somebody thinks about it, somebody else ends it.
  await page.getByRole('button', { name: 'Pause' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('this would pause it').waitFor()
  await kit.app.perform('replays.abort', { id, actor: 'otto', reason: 'wrong selection' })
  await dialog.getByLabel('Reason').fill('wait')
  await dialog.getByRole('button', { name: 'Pause' }).click()
  await dialog.getByRole('alert').getByText('is aborted, so it cannot be paused').waitFor()
  await page.getByRole('button', { name: 'Leave it' }).click()
  await page.getByText('otto: wrong selection').waitFor()
  expect(await page.getByRole('main').getByRole('button', { name: 'Abort' }).count()).toBe(0)
  const { left = 0, ...rest } = await numbers(page, LETTERS)
  expect(left).toBe(paused.waiting)
  expect(rest).toEqual({ submitted: paused.submitted, skipped: 0 })

  await page.getByRole('link', { name: 'Plan a new one for what is left' }).click()
  await page.getByText(`${left} will run`).waitFor()
  await act(page, { open: 'Plan this replay', verb: 'Plan' })
  await act(page, { open: 'Abort', verb: 'Abort' })
  await told(page).getByText('is aborted').waitFor()
  await page.getByText('It was aborted.').waitFor()
})

test('a failed canary stops a replay, and the resume dialog explains the effect', async () => {
  const { world, story } = bounced(6)
  const desk = await makeDesk({ story })
  const { kit } = desk
  const page = await desk.open(`/replays/${await plan(kit, { canary: 2 })}`)
  await act(page, { open: 'Start', verb: 'Start' })
  await page.getByText('The first letters go').waitFor()
  await kit.advance('5s')
  await page.getByText('Its canary stopped it').first().waitFor()
  await page.getByText('of the first 2 jobs, 2 failed; none may').waitFor()
  await page.getByText('It stopped the replay.').waitFor()
  expect(await numbers(page, LETTERS)).toEqual({ submitted: 2, skipped: 0, waiting: 4 })
  await until('both failed', async () => (await numbers(page, JOBS)).failed === 2)
  await expectAccessible(page)

  await page.getByRole('button', { name: 'Resume' }).click()
  await page.getByRole('dialog').getByText('overrules the canary').waitFor()
  await page.getByRole('button', { name: 'Leave it' }).click()
  world.isUp = true
  await act(page, { open: 'Resume', verb: 'Resume', reason: 'it is up now' })
  // A replay that is not resumed yet when the time passes would never go on.
  await page.getByRole('button', { name: 'Pause', exact: true }).waitFor()
  await kit.advance('5s')
  await until('the rest is complete', async () => (await numbers(page, JOBS)).complete === 4)
  expect(await numbers(page, JOBS)).toEqual({ complete: 4, failed: 2 })
})

test('each letter shows its outcome, and types without a worker are named', async () => {
  const { world, story } = bounced(60)
  const desk = await makeDesk({ story })
  const { kit } = desk
  world.isUp = true
  const id = await plan(kit, {})
  await kit.app.perform('dead-letters.replay', { offset: 3, ...BY })
  await kit.app.perform('dead-letters.purge', { offset: 5, ...BY })
  await kit.app.perform('replays.start', { id, ...BY })
  // Nobody has been at work for longer than a worker is silent.
  await kit.clock.advance(120_000, async () => undefined)
  const page = await desk.open(`/replays/${id}`)
  await page.getByText('No worker runs mail.send:').waitFor()
  await page.getByText('60 letters wait until a worker that knows it is there').waitFor()
  await kit.advance('5s')
  await page.getByText('Every letter became a job or was skipped.').waitFor()
  const row = (position: number) => page.locator(`[data-row="${position}"]`)
  expect(await row(1).getByRole('link', { name: 'Letter 1' }).getAttribute('href')).toBe('/dead-letters/1')
  const { items } = await kit.app.perform('replays.show', { id })
  expect(await row(1).getByRole('link').nth(1).getAttribute('href')).toBe(`/jobs/${items[0]?.jobId}`)
  await row(1).getByText('complete').waitFor()
  await row(3).getByText('it was replayed already, as job').waitFor()
  await row(5).getByText('the letter is gone').waitFor()
  await page.getByText('1: it was replayed, or its job was retried; 1: the letter was purged').waitFor()
  expect(await numbers(page, LETTERS)).toEqual({ submitted: 58, skipped: 2, waiting: 0 })

  await page.getByRole('link', { name: 'Next page' }).click()
  await row(60).waitFor()
  await page.getByLabel('Only those that').selectOption('were skipped')
  await until('only the skipped are there', async () => (await page.locator('[data-row]').count()) === 2)
  expect(new URL(page.url()).search).toBe('?state=skipped')
})

test('a viewer can follow but not start replays, and an unknown replay is not found', async () => {
  const { story } = bounced(1)
  const desk = await makeDesk({ story })
  const id = await plan(desk.kit, {})
  const page = await desk.open('/replays', { as: 'viewer' })
  await page.getByText('it waits to be started').waitFor()
  await expectAccessible(page)
  await page.getByLabel('State').selectOption('done')
  await page.getByText('No replay is in this state.').waitFor()
  await page.goto(`/replays/${id}`)
  await page.getByRole('button', { name: /^Start ?: This needs the role operator/ }).click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)
  await page.goto('/replays/nothing')
  await page.getByRole('alert').getByText('There is no replay nothing.').waitFor()
  await page.goto('/replays/new')
  await page.getByText('This needs the role operator').first().waitFor()
})

test('a replay of all letters must be chosen explicitly', async () => {
  const { story } = bounced(3)
  const desk = await makeDesk({ story })
  const page = await desk.open('/replays/new')
  await page.getByText('No letters are chosen yet.').first().waitFor()
  await page.getByRole('button', { name: /^Plan this replay ?: No letters are chosen/ }).click({ force: true })
  expect(await page.getByRole('dialog').count()).toBe(0)
  await page.getByLabel('Every dead letter there is').check()
  await page.getByText('3 will run').waitFor()
  await page.getByLabel('Owner').fill('nobody')
  await page.getByLabel('Owner').blur()
  await page.getByText('No dead letter matches.').waitFor()
})
