import type { Page } from 'playwright-core'
import { describe, expect, test } from 'vitest'
import { expectAccessible } from '../../../../test/support/browser/axe.ts'
import { until } from '../../../../test/support/until.ts'
import type { Attempt } from '../../src/worker/attempt/attempt.ts'
import { act, told } from './actions.ts'
import { makeDesk } from './desk.ts'
import type { Desk } from './open-desk.ts'

const verdictOf = (page: Page) => page.getByRole('region', { name: 'Verdict' })

/** The first job that a filter of the story finds. */
async function idOf({ app }: Desk, filter: object): Promise<string> {
  const { jobs } = await app.perform('jobs.list', filter)
  return jobs[0]?.id ?? ''
}

/** A job that is new, and that has been worked on. */
async function worked({ app, kit }: Desk, type: string, input: object, options = {}): Promise<string> {
  const { id } = await app.submit(type, input, options)
  await kit.tick()
  return id
}

describe('a job that failed', () => {
  test('shows its fault, its attempts, the next step and its failure group', async () => {
    const desk = await makeDesk()
    const id = await worked(desk, 'mail.send', { does: 'unreachable' }, { owner: 'ann' })
    await worked(desk, 'mail.send', { does: 'unreachable' })
    const page = await desk.open(`/jobs/${id}`)
    const verdict = verdictOf(page)
    await verdict.getByText('GW_5XX: The converter answered 503.').waitFor()
    for (const said of ['Dependency', 'It was not the input.', 'Tried 1 of 1.', 'Nothing will happen by itself.']) {
      await verdict.getByText(said).waitFor()
    }
    await verdict.getByText('Cancel: no, only a queued or processing job can be cancelled').waitFor()
    expect(await verdict.getByRole('button').allTextContents()).toEqual([
      'Retry',
      'Edit and retry',
      'Delete with its letter',
    ])
    await page.getByText('converter.internal answered 503').first().waitFor()
    await page.getByText('retry.max, which went from 0 to 1 of 1').waitFor()
    await page.getByRole('img', { name: /^Timeline: it .*ran for/ }).waitFor()
    await page.getByText('The same in words').click()
    await page
      .getByRole('listitem')
      .filter({ hasText: /Attempt 1 ran for .* and failed\./ })
      .waitFor()
    await page.getByText('No person has done anything to this job.').waitFor()
    await expectAccessible(page)
    await verdict.getByRole('link', { name: 'One other failed the same way' }).click()
    await page.waitForURL('**/failures/*')
  })

  test('of a type without failure groups shows no comparison', async () => {
    const desk = await makeDesk()
    const id = await idOf(desk, { code: 'DISK_FULL' })
    const page = await desk.open(`/jobs/${id}`)
    await verdictOf(page).getByText('System').waitFor()
    expect(await page.getByText('failed the same way').count()).toBe(0)
  })

  test('is retried, and its page shows actor and reason', async () => {
    const desk = await makeDesk()
    const id = await idOf(desk, { type: 'thumb.render', status: 'failed' })
    const page = await desk.open(`/jobs/${id}`)
    await verdictOf(page).getByText('This failure has no code yet.').waitFor()
    const preview = await act(page, { open: 'Retry', verb: 'Retry', reason: 'the width is checked now' })
    expect(preview).toContain('sends it back to the queue with a fresh budget')
    await told(page).getByText('is back in the queue').waitFor()
    await verdictOf(page).getByText('QUEUED again by olga: the width is checked now.').waitFor()
    await verdictOf(page).getByRole('link', { name: 'Held by queue media' }).waitFor()
    const trail = page.getByRole('table', { name: 'Acts on this job, the newest first' })
    await trail.getByText('jobs.retry').waitFor()
    await trail.getByText('the width is checked now').waitFor()
    // Its attempts before and after are told apart by what a person did between them.
    await desk.app.perform('queues.resume', { name: 'media', actor: 'olga', reason: 'a test' })
    await desk.kit.tick()
    await verdictOf(page).getByText('UNKNOWN: Something went wrong').waitFor()
    await until('both attempts are told, the newest first', async () => {
      const steps = (await page.locator('.step-head').allTextContents()).map((head) => head.slice(0, 9))
      return steps.join() === 'Attempt 2,Sent back,Attempt 1,Submitted'
    })
  })

  test('is retried as a new job with another input, and both link to each other', async () => {
    const desk = await makeDesk()
    const id = await idOf(desk, { type: 'mail.send', status: 'failed' })
    const page = await desk.open(`/jobs/${id}`)
    await verdictOf(page).getByRole('button', { name: 'Edit and retry' }).click()
    const dialog = page.getByRole('dialog', { name: 'Edit the input and retry' })
    const input = dialog.getByLabel('Input')
    expect(JSON.parse(await input.inputValue())).toEqual({ does: 'refuse', host: 'example.org' })
    await input.fill('{ "does": ')
    await dialog.getByText('this is not JSON').waitFor()
    // What its type refuses is said before anything is done.
    await input.fill('{ "does": "dance" }')
    await dialog.getByText('Not possible:').waitFor()
    await input.fill('{ "does": "succeed" }')
    await dialog.getByText('This makes a new job with the given input').waitFor()
    await expectAccessible(page)
    await dialog.getByLabel('Reason').fill('it was a GIF')
    await dialog.getByRole('button', { name: 'Retry with this input' }).click()
    const made = page.getByRole('status').getByRole('link')
    await made.waitFor()
    await page.getByRole('definition').filter({ hasText: 'queued' }).getByRole('link', { name: /…/ }).waitFor()
    await made.click()
    await verdictOf(page).getByText('queued', { exact: true }).waitFor()
    await desk.kit.tick()
    await verdictOf(page).getByText('COMPLETE at the first attempt').waitFor()
    await page.getByText('"does": "succeed"').waitFor()
    await page.getByText('"pages": 12').waitFor()
    await page
      .getByRole('definition')
      .getByRole('link', { name: `${id.slice(0, 8)}…${id.slice(-4)}` })
      .click()
    await page.waitForURL(`**/jobs/${id}`)
    // It was retried once; a second retry is refused with the id of the new job.
    const [first = ''] = (await desk.app.jobs.list({ retriedFrom: id })).jobs.map((job) => job.id)
    await verdictOf(page).getByText(`It was retried as job ${first}, which is complete.`).waitFor()
    expect(await verdictOf(page).getByRole('button').allTextContents()).toEqual([
      'Retry again',
      'Edit and retry again',
      'Delete',
    ])
    await verdictOf(page).getByRole('button', { name: 'Retry again', exact: true }).click()
    const again = page.getByRole('dialog', { name: 'Retry this job once more' })
    await again.getByText('It was retried already, as job').getByRole('link', { name: first }).waitFor()
    await again.getByText('This makes a new job with the same input').waitFor()
    await expectAccessible(page)
    await again.getByLabel('Reason').fill('once more')
    await again.getByRole('button', { name: 'Retry', exact: true }).click()
    await again.waitFor({ state: 'detached' })
    expect((await desk.app.jobs.list({ retriedFrom: id })).jobs).toHaveLength(2)
  })
})

describe('a job that waits', () => {
  test('is moved in time and in the order, gets another input, and is made due, each with its preview', async () => {
    const desk = await makeDesk()
    const job = desk.app.jobs
    const input = { does: 'refuse', host: 'example.org' }
    const { id } = await desk.app.submit('mail.send', input, { delay: '1h', owner: 'ann' })
    const page = await desk.open(`/jobs/${id}`)
    const verdict = verdictOf(page)
    await verdict.getByRole('button', { name: 'Reschedule' }).waitFor()
    expect(await verdict.getByRole('button').allTextContents()).toEqual([
      'Mark failed',
      'Cancel',
      'Reschedule',
      'Run now',
      'Priority',
      'Edit input',
    ])

    await verdict.getByRole('button', { name: 'Reschedule' }).click()
    const times = page.getByRole('dialog', { name: 'Change the time of this job' })
    await times.getByLabel('From now').fill('soon')
    await times.getByText('Not possible:').waitFor()
    await times.getByLabel('From now').fill('3h')
    await times.getByText('Not possible:').waitFor({ state: 'detached' })
    await expectAccessible(page)
    const before = (await job.find(id))?.retryAfter
    await times.getByLabel('Reason').fill('the relay is slow')
    await times.getByRole('button', { name: 'Reschedule', exact: true }).click()
    await times.waitFor({ state: 'detached' })
    expect(Date.parse((await job.find(id))?.retryAfter ?? '')).toBeGreaterThan(Date.parse(before ?? '') + 3_600_000)

    await verdict.getByRole('button', { name: 'Priority' }).click()
    const order = page.getByRole('dialog', { name: 'Change the priority of this job' })
    expect(await order.getByLabel('Priority').inputValue()).toBe('0')
    await order.getByLabel('Priority').fill('7')
    await order.getByLabel('Reason').fill('a customer waits')
    await order.getByRole('button', { name: 'Priority', exact: true }).click()
    await order.waitFor({ state: 'detached' })
    expect(await job.find(id)).toMatchObject({ priority: 7 })

    await verdict.getByRole('button', { name: 'Edit input' }).click()
    const edit = page.getByRole('dialog', { name: 'Replace the input of this job' })
    await edit.getByLabel('Input').fill('{ "does": "dance" }')
    await edit.getByText('Not possible:').waitFor()
    await edit.getByLabel('Input').fill('{ "does": "succeed" }')
    await edit.getByText('Not possible:').waitFor({ state: 'detached' })
    await edit.getByLabel('Reason').fill('it was a GIF')
    await edit.getByRole('button', { name: 'Replace the input' }).click()
    await edit.waitFor({ state: 'detached' })
    await page.getByText('"does": "succeed"').waitFor()

    await act(page, { open: 'Run now', verb: 'Run now', reason: 'it is needed' })
    const trail = page.getByRole('table', { name: 'Acts on this job, the newest first' })
    for (const name of ['jobs.reschedule', 'jobs.reprioritise', 'jobs.replace-input', 'jobs.promote']) {
      await trail.getByText(name).waitFor()
    }
    await desk.kit.tick()
    await verdict.getByText('COMPLETE at the first attempt').waitFor()
  })
})

describe('a job that has ended', () => {
  test('is deleted after a preview, and its page says that it is gone', async () => {
    const desk = await makeDesk()
    const id = await worked(desk, 'mail.send', { does: 'succeed' }, { owner: 'ann' })
    const page = await desk.open(`/jobs/${id}`)
    const preview = await act(page, { open: 'Delete', verb: 'Delete', reason: 'ann asked for it' })
    expect(preview).toContain('this removes it with its history, its files and its dead letter, if any')
    await page.getByText(`There is no job ${id}`).waitFor()
    expect(await desk.app.jobs.find(id)).toBeNull()
  })

  test('with an open dead letter is deleted only together with its letter', async () => {
    const desk = await makeDesk()
    const id = await worked(desk, 'mail.send', { does: 'unreachable' }, { owner: 'ann' })
    const page = await desk.open(`/jobs/${id}`)
    const preview = await act(page, { open: 'Delete with its letter', verb: 'Delete', reason: 'ann asked for it' })
    expect(preview).toContain('this removes it with its history, its files and its dead letter, if any')
    await page.getByText(`There is no job ${id}`).waitFor()
    expect((await desk.app.perform('dead-letters.list', {})).deadLetters.filter(({ jobId }) => jobId === id)).toEqual(
      [],
    )
  })
})

describe('hostile job data', () => {
  const HOSTILE = `<img src=x onerror="alert(1)"><script>alert(2)</script>`
  const ARABIC = '\u202eفشل التحويل: الملف تالف'

  test('is shown as text, and a megabyte does not block the page', async () => {
    const desk = await makeDesk()
    const long = `${'a line of a log\n'.repeat(10)}${'x'.repeat(1_000_000)}THE END`
    const note = { HOSTILE, ARABIC, long }
    const id = await worked(desk, 'mail.send', { does: 'unreachable', host: `${HOSTILE} ${ARABIC}`, note })
    const page = await desk.open('/jobs')
    const opened: string[] = []
    page.on('dialog', async (dialog) => {
      opened.push(dialog.message())
      await dialog.dismiss()
    })
    await page.goto(`/jobs/${id}`)
    await page.getByText(`AttemptFailed: ${HOSTILE}`).waitFor()
    await page.getByText(ARABIC.slice(1)).first().waitFor()
    const input = page.getByRole('group', { name: 'the input' })
    expect(((await input.textContent()) ?? '').length).toBeLessThan(20_000)
    const beganMs = performance.now()
    await page.getByRole('button', { name: 'Show all, 1 million characters' }).click()
    await until('all of it is there', async () => (await input.textContent())?.includes('THE END'))
    // Generous, for a machine that is busy: the page must not freeze, which takes much longer.
    expect(performance.now() - beganMs).toBeLessThan(10_000)
    await page.getByRole('button', { name: 'Show less' }).click()
    expect(await page.locator('main img, main script').count()).toBe(0)
    expect(opened).toEqual([])
    await expectAccessible(page)
  })

  test('includes the end of the stderr of a failed program', async () => {
    const desk = await makeDesk({
      story: async (kit) => {
        const job = kit.app.job('ffmpeg.cut', {
          run: () => {
            throw Object.assign(new Error('ffmpeg ended with 1', { cause: new Error('no such codec') }), {
              exitCode: 1,
              stderrTail: `line 1\n${HOSTILE}\nUnknown encoder 'x265'`,
            })
          },
        })
        await job.submit({})
        await kit.tick()
      },
    })
    const page = await desk.open(`/jobs/${await idOf(desk, {})}`)
    await page.getByText('Error: no such codec').waitFor()
    await page.getByText('"exitCode": 1').waitFor()
    const tail = page.getByRole('group', { name: 'the end of stderr' })
    expect(await tail.textContent()).toContain(HOSTILE)
    await expectAccessible(page)
  })
})

describe('visitors of a job page', () => {
  test("two visitors see each other's actions, and a late action is refused with the reason", async () => {
    const desk = await makeDesk()
    const id = await idOf(desk, { type: 'thumb.render', status: 'failed' })
    const olga = await desk.open(`/jobs/${id}`)
    const otto = await desk.open(`/jobs/${id}`, { name: 'otto' })
    await verdictOf(otto).getByRole('button', { name: 'Retry' }).click()
    const dialog = otto.getByRole('dialog')
    await dialog.getByText('sends it back to the queue').waitFor()
    await act(olga, { open: 'Retry', verb: 'Retry', reason: 'mine' })
    await told(olga).getByText('is back in the queue').waitFor()
    // Behind his dialog, the page of the other has followed without being asked.
    await otto.getByText('QUEUED again by olga: mine.').waitFor()
    await dialog.getByRole('status').getByText('only a failed job can be retried; this one is queued').waitFor()
    await dialog.getByLabel('Reason').fill('mine, too')
    await dialog.getByRole('button', { name: 'Retry', exact: true }).click()
    await dialog.getByRole('alert').getByText('only a failed job can be retried; this one is queued').waitFor()
    await dialog.getByRole('button', { name: 'Leave it' }).click()
    await verdictOf(otto).getByText('Retry: no, only a failed job can be retried').waitFor()
    // Who has closed the dialog before the answer came is told it all the same.
    const held = Promise.withResolvers<void>()
    await olga.route('**/mark-failed', async (route) => {
      if (!route.request().postData()?.includes('dryRun')) await held.promise
      await route.continue()
    })
    await act(olga, { open: 'Mark failed', verb: 'Mark failed', reason: 'too slow' })
    await olga.getByRole('button', { name: 'Working …' }).waitFor()
    await olga.keyboard.press('Escape')
    await act(otto, { open: 'Cancel', verb: 'Cancel', reason: 'not needed' })
    await verdictOf(olga).getByText('CANCELLED by otto: not needed.').waitFor()
    held.resolve()
    await told(olga)
      .getByText(/^Mark this job as failed: .* this one is cancelled/)
      .waitFor()
  })

  test('a viewer cannot act and sees the reason', async () => {
    const desk = await makeDesk()
    const page = await desk.open(`/jobs/${await idOf(desk, { type: 'mail.send', status: 'failed' })}`, { as: 'viewer' })
    await verdictOf(page).getByText('This needs the role operator; vera has viewer.').last().waitFor()
    const retry = verdictOf(page).getByRole('button', { name: /^Retry/ })
    expect(await retry.getAttribute('aria-disabled')).toBe('true')
    await retry.click({ force: true })
    expect(await page.getByRole('dialog').count()).toBe(0)
    await expectAccessible(page)
  })

  test('an owner sees and retries only their own jobs, without details for operators', async () => {
    const desk = await makeDesk()
    const id = await idOf(desk, { type: 'mail.send', status: 'failed', owner: 'ann' })
    const page = await desk.open(`/jobs/${id}`, { as: 'owner' })
    await verdictOf(page).getByText('NOT_PDF: This file is not a PDF.').waitFor()
    expect(await page.getByRole('heading', { name: 'Who did what to it' }).count()).toBe(0)
    expect(await page.getByText('failed the same way').count()).toBe(0)
    expect(await page.getByText('GIF89a').count()).toBe(0)
    expect(await page.getByText('worker-1').count()).toBe(0)
    await expectAccessible(page)
    await act(page, { open: 'Retry', verb: 'Retry', reason: 'please' })
    await told(page).getByText('Made job').waitFor()
    await page.goto(`/jobs/${await idOf(desk, { owner: 'bob' })}`)
    await page.getByText('or the job belongs to another owner').waitFor()
  })

  test('the page of a missing job explains it and links to the list', async () => {
    const desk = await makeDesk()
    const page = await desk.open('/jobs/01a00000-0000-7000-8000-000000000000')
    await page.getByRole('alert').getByText('There is no job 01a00000').waitFor()
    await page.getByText('kept as long as the retention of its type says').waitFor()
    await expectAccessible(page)
    await page.getByRole('link', { name: 'Look for it among the jobs' }).click()
    await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor()
  })
})

test('a held job names its hold, and an orphan asks for a decision', async () => {
  const desk = await makeDesk()
  const id = await idOf(desk, { type: 'pdf.convert', status: 'queued', owner: 'ann' })
  const page = await desk.open(`/jobs/${id}`)
  await verdictOf(page).getByRole('link', { name: 'Held by breaker converter' }).waitFor()
  await verdictOf(page).getByText('QUEUED again: it was released.').waitFor()
  await act(page, { open: 'Mark failed', verb: 'Mark failed', reason: 'the file is gone' })
  await verdictOf(page).getByText('olga marked it as failed: the file is gone').first().waitFor()
  await page.goto(`/jobs/${(await desk.app.perform('orphans.list', {})).jobs[0]?.id}`)
  await verdictOf(page).getByText('ORPHANED.').waitFor()
  await verdictOf(page).getByText('Cancel: no, its policy has cancel: false.').waitFor()
  await page.getByText('Its progress is unknown.').waitFor()
  // What held a job that was never begun until then is still known when it has gone on.
  const bobs = await idOf(desk, { type: 'pdf.convert', status: 'queued', owner: 'bob' })
  await desk.kit.advance('20s')
  await desk.app.perform('breakers.close', { name: 'converter', actor: 'olga', reason: 'a test' })
  await desk.kit.tick()
  await page.goto(`/jobs/${bobs}`)
  await verdictOf(page).getByText('COMPLETE at the first attempt').waitFor()
  await page.getByText('The same in words').click()
  await page.getByRole('listitem').getByText('It was held back by breaker converter for 20 s.').waitFor()
})

test('a running job shows its progress and its log lines while they come, and an owner sees no lines', async () => {
  const desk = await makeDesk()
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()
  const attempts: Attempt[] = []
  desk.app.job('reports', {
    run: async (_: object, attempt) => {
      attempts.push(attempt as Attempt)
      attempt.log('first line', { page: 1 })
      attempt.progress({ done: 1, total: 4, note: 'page 1' })
      await ended
    },
  })
  const id = await worked(desk, 'reports', {}, { owner: 'ann' })
  await desk.kit.advance('1s')
  const page = await desk.open(`/jobs/${id}`)
  await page.getByText('25 %, 1 of 4').waitFor()
  await page.getByRole('progressbar', { name: 'Progress' }).waitFor()
  const log = page.getByRole('region', { name: 'Log' })
  await log.getByText('first line').waitFor()
  await log.getByText('page=1').waitFor()
  await expectAccessible(page)
  attempts[0]?.log('second line')
  attempts[0]?.progress({ done: 3, total: 4, note: 'page 3' })
  await desk.kit.advance('2s')
  await log.getByText('second line').waitFor()
  await page.getByText('75 %, 3 of 4').waitFor()
  const owners = await desk.open(`/jobs/${id}`, { as: 'owner', name: 'ann' })
  await owners.getByText('75 %, 3 of 4').waitFor()
  expect(await owners.getByText('first line').count()).toBe(0)
  end()
})
