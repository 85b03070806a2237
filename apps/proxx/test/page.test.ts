import { existsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import type { Caller } from '../../../packages/redress/src/http/index.ts'
import { visitor } from '../../../packages/redress/test/browser/visitor.ts'
import { expectAccessible } from '../../../test/support/browser/axe.ts'
import { until } from '../../../test/support/until.ts'
import { listOrphans, retryJob, submitSpec } from '../src/operations.ts'
import { positionByProgress } from '../src/page/reader.ts'
import { Trace } from '../src/trace.ts'
import type { ProxxJob } from '../src/view.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from './clips.ts'
import { Rig } from './rig.ts'

needsFfmpeg()
const rig = Rig.open({ env: { PROXX_LEASE_SEC: '3', PROXX_ROOTS: tmpdir() } })
let clip: string
let people: Awaited<ReturnType<Rig['serve']>>

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
  people = await rig.serve()
})

type Who = 'ann' | 'bob' | 'viewer' | 'operator' | 'nobody'

async function codeFor(as: Exclude<Who, 'nobody'>): Promise<string> {
  const isStaff = as === 'viewer' || as === 'operator'
  const who = isStaff ? ({ role: as, name: as } as const) : ({ role: 'owner', name: as, account: as } as const)
  return String((await rig.app.perform('sign-in-links.create', { ...who, actor: 'adam' })).code)
}

/** Somebody with a browser of their own, who has signed in as people do. */
async function visit(path: string, as: Who = 'operator', options: BrowserContextOptions = {}): Promise<Page> {
  if (as === 'nobody') return visitor(path, { baseURL: rig.url, ...options })
  const data = { code: await codeFor(as) }
  return visitor(path, {
    baseURL: rig.url,
    ...options,
    prepare: (context) => context.request.post('/sign-in', { data, headers: { origin: rig.url } }),
  })
}

const HOSTILE = {
  markup: '<img src=x onerror=alert(1)>"\'&.mov',
  turned: 'reel_\u202evom.exe',
  broken: 'two\nlines.mov',
  long: `${'ü'.repeat(98)}.mov`,
}
/** P60: what would count failures together. */
const COUNTED = /\d+ ?%|\b\d+ (failed|failures|orphans)\b|\b(rate|total|success|warnings?)\b/i
const BOB: Caller = { name: 'bob', role: 'owner', account: 'bob', scopes: null, isPerson: true }
const rowOf = (page: Page, { id }: Pick<ProxxJob, 'id'>) => page.locator(`#row-${id}`)

test('the page shows each failure alone, with class, owner, clip, stage and next step [P9 P23 P26 P36 P49 P50 P58 P60]', async () => {
  const directory = rig.output()
  const refused = await rig.submit({
    ...rig.spec(Object.values(HOSTILE).map((name) => `/card/${name}`)),
    output: { directory: `${directory}/not-there`, naming: '{source_name}' },
  })
  const missing = await rig.submit(
    rig.spec(
      [HOSTILE.markup, HOSTILE.turned, HOSTILE.long].map((name) => rig.path(name)),
      {
        output: { directory: `${directory}/not-there`, naming: '{index}' },
      },
    ),
  )
  withFfmpeg(
    rig.folder,
    `case "$OUT" in *_002*) echo "half" > "$OUT"; echo "<b>moov atom</b> not found" >&2; exit 69 ;; *) echo made > "$OUT"; exit 0 ;; esac`,
  )
  const spec = rig.spec([clip, clip, clip])
  const failed = await rig.done(spec)
  expect(failed).toMatchObject({ status: 'failed', error: { code: 'FFMPEG_FAILED', clip: 2 } })

  const page = await visit('/proxx')
  const line = await rowOf(page, failed).innerText()
  expect(line).toContain('Execution failed at clip 2 of 3 (a.mov), while being encoded.')
  expect(line).toContain('FFMPEG_FAILED · execution_failed · accounted for by the worker node-1')
  expect(line).toContain('copy it again; then retry')
  expect(await rowOf(page, missing).innerText()).toMatch(/Refused at submission[\s\S]*submission layer · never ran/)
  expect(await rowOf(page, missing).innerText()).toContain('<img src=x onerror=alert(1)>')
  expect(await page.locator('main').innerText()).not.toMatch(COUNTED)
  expect(await page.locator('#page form.act').count()).toBe(0)

  await rowOf(page, failed).getByRole('link').click()
  const failure = await page.locator('#part-failure').innerText()
  for (const words of [
    'What to do:',
    'Exit code\n69',
    'Stage\nencode',
    'processing → failed',
    '<b>moov atom</b> not found',
  ]) {
    expect(failure).toContain(words)
  }
  const part = join(spec.output.directory, `a_002.mov.${failed.id}.partial`)
  expect(await page.locator('#part-failure .files').innerText()).toContain(part)
  expect(await page.locator('.clips > li').allInnerTexts()).toEqual([
    expect.stringContaining('a_001.mov not delivered, since the job failed'),
    expect.stringContaining('a_002.mov failed here'),
    expect.stringContaining('a_003.mov not begun'),
  ])
  expect(await page.locator('main').innerText()).not.toMatch(COUNTED)
  await expectAccessible(page)
  await page.goto(`/proxx/jobs/${missing.id}`)
  await page.getByText('This job never ran.').waitFor()
  expect(await page.locator('.problems li > strong').allInnerTexts()).toEqual([
    'clip 1',
    'clip 2',
    'clip 3',
    'directory',
  ])
  expect(await page.locator('.clips .odd').allInnerTexts()).toEqual(['U+202E'])
  await page.goto(`/proxx/jobs/${refused.id}`)
  // What is no valid spec is shown as it came.
  expect(await page.locator('#part-spec pre').innerText()).toContain('/card/two\\nlines.mov')
})

test('the page shows an orphan without a reload, and an operator marks and retries it there [P40 P41 P44 P53 P54 P55 P56 P57 P59]', async () => {
  const [held, go] = [rig.path('held'), rig.path('go')]
  withFfmpeg(
    rig.folder,
    `if [ $STAGE = encode ] && [ ! -e '${go}' ]; then echo half > "$OUT"; touch '${held}'; while [ ! -e '${go}' ]; do sleep 0.05; done; exit 1; fi`,
  )
  const spec = rig.spec([clip])
  const { job } = await submitSpec(rig.proxx, spec, { caller: BOB })
  const page = await visit('/proxx')
  await rowOf(page, job).getByText('pending').waitFor()
  // This worker claims it, begins, and is never heard of again.
  const node2 = await rig.app.makeWorker({ id: 'node-2', log: rig.log, pollMs: 600_000 })
  await node2.tick()
  await until('ffmpeg runs', () => existsSync(held))
  await rowOf(page, job).getByText('At clip 1 of 1, being encoded').waitFor()
  const node1 = await rig.worker()
  await node1.enlist()
  await until('the silence was noticed', async () => {
    await node1.maintain()
    return (await listOrphans(rig.proxx)).some(({ orphanedAt }) => orphanedAt !== null)
  })
  const orphan = page.locator(`#orphan-${job.id}`)
  await orphan.getByText('Its worker node-2 is silent').waitFor()
  expect(await orphan.innerText()).toContain('It was at clip 1 of 1, being encoded.')
  expect(await rowOf(page, job).count()).toBe(0)
  for (const [who, worker] of [
    [people.viewer, 'node-2'],
    [people.bob, null],
  ] as const) {
    const { json } = await who.get('/proxx?status=orphaned')
    expect(json).toMatchObject({ orphans: [{ id: job.id, worker }], jobs: [], nextCursor: null })
  }
  expect((await people.ann.get('/proxx')).json.orphans).toEqual([])
  expect(await page.locator('main').innerText()).not.toMatch(COUNTED)
  await expectAccessible(page)
  await page.goto(`/proxx/jobs/${job.id}`)
  await page.getByText('its worker may still write to them').waitFor()
  await expectAccessible(page)
  await page.goto('/proxx')

  // What is heard of meanwhile takes nothing away from whoever is typing.
  await orphan.getByLabel('Reason').pressSequentially('node-2 was <b>un')
  await new Trace(rig.proxx.settings.jobs, job.id).say(Date.now(), 'clip 1 of 1, verify: its last word')
  const other = await rig.submit(rig.spec([rig.path('gone.mov')]))
  await rowOf(page, other).waitFor()
  await orphan.getByText('It was at clip 1 of 1, being verified.').waitFor()
  await page.keyboard.type('plugged</b>')
  await orphan.getByRole('button', { name: 'Mark as failed' }).click()
  await page.waitForURL(`**/proxx/jobs/${job.id}`)
  expect(await page.locator('#part-failure').innerText()).toContain('A person ended it; the reason is below.')
  await page.locator('#part-head').getByText('It was at clip 1 of 1, being verified.').waitFor()
  const history = await page.locator('.history').innerText()
  expect(history).toMatch(/an orphan[\s\S]*failed MARKED_FAILED .*by operator · node-2 was <b>unplugged<\/b>/)
  expect(rig.lines(job.id)).toContainEqual(expect.objectContaining({ event: 'mark-failed', actor: 'operator' }))
  const before = rig.file(job.id)

  // The part of the job is in nobody's way; a directory that is not there is.
  const field = page.getByLabel('Spec as JSON')
  await page.getByText('Change the spec first').click()
  const nowhere = rig.path('not/there')
  const typed = (await field.inputValue()).replace(spec.output.directory, nowhere).replace('a.mov', 'b.mov')
  await field.fill(typed)
  await page.getByLabel('Reason').fill('another disk')
  const answered = page.waitForResponse((response) => response.request().method() === 'POST')
  await page.getByRole('button', { name: 'Retry' }).click()
  expect((await answered).status()).toBe(422)
  const alert = page.getByRole('alert')
  expect(await alert.locator('li').allInnerTexts()).toEqual([
    expect.stringMatching(/^clip 1: .*b\.mov is not there INPUT_MISSING$/),
    `directory: ${nowhere} is not there OUTPUT_NOT_WRITABLE`,
  ])
  expect([await page.getByLabel('Reason').inputValue(), await field.inputValue()]).toEqual(['another disk', typed])
  await expectAccessible(page)
  await field.fill('{ "version": 1,')
  await page.getByRole('button', { name: 'Retry' }).click()
  await alert.getByText('The spec is not JSON').waitFor()
  expect(await field.inputValue()).toBe('{ "version": 1,')
  await field.fill(JSON.stringify(spec))
  await page.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('Waits for a worker.').waitFor()

  // The new job is seen to its end without a reload, and the old one is as it was.
  const retried = await rig.job(page.url().split('/').at(-1) ?? '')
  expect(retried).toMatchObject({ retriedFrom: job.id, profile: job.profile, spec })
  writeFileSync(go, '')
  // Its process lives in truth, and is the one that has the lock until its program has ended.
  await until('node-2 has let go', () => !existsSync(join(spec.output.directory, '.proxx.lock')))
  const complete = await rig.ended(retried.id)
  expect(complete).toMatchObject({ status: 'complete' })
  await page.locator('#part-head .badge.complete').waitFor()
  const clips = await page.locator('#part-clips').innerText()
  for (const words of [
    complete.fingerprint,
    complete.outputs[0]?.path,
    complete.ffmpeg,
    'Verified: 64 × 48, 6 frames',
  ]) {
    expect(clips).toContain(words)
  }
  await expectAccessible(page)
  await page.getByRole('link', { name: job.id }).click()
  await page.locator('#part-head').getByRole('link', { name: retried.id }).waitFor()
  expect(rig.file(job.id)).toEqual(before)
})

test('without JavaScript the submit form lists every error, keeps the input and makes one job [P3 P5 P9 P40]', async () => {
  const page = await visit('/proxx', 'ann', { javaScriptEnabled: false })
  await page.getByRole('link', { name: 'New job' }).click()
  const directory = rig.output()
  const typed = `${clip}\n\n${rig.path(HOSTILE.markup)}\n/etc/passwd`
  const field = (name: string) => page.locator(`[name="${name}"]`)
  const values = async () => [
    await field('sources').inputValue(),
    await field('directory').inputValue(),
    await field('naming').inputValue(),
    await page.locator('[name=profile]:checked').inputValue(),
  ]
  await field('sources').fill(typed)
  await page.getByLabel('ProRes 422 LT').check()
  await field('directory').fill('/etc')
  await field('naming').fill('{index}')
  const problems = page.getByRole('alert').locator('li')
  for (const [button, recorded] of [
    ['Only check it', 0],
    ['Submit', 1],
  ] as const) {
    await page.getByRole('button', { name: button }).click()
    expect(await problems.allInnerTexts()).toEqual([
      expect.stringMatching(/^clip 2: .*is not there INPUT_MISSING$/),
      expect.stringMatching(/^clip 3: .*PATH_NOT_ALLOWED$/),
      expect.stringMatching(/^directory: .*PATH_NOT_ALLOWED$/),
    ])
    expect(await values()).toEqual([typed, '/etc', '{index}', 'proxy_prores_lt'])
    expect(await page.getByRole('link', { name: 'a failed job' }).count()).toBe(recorded)
  }
  const { jobs } = (await people.ann.get('/proxx')).json
  expect(jobs).toMatchObject([{ status: 'failed', executionAttempted: false, owner: 'ann' }])

  await field('sources').fill(clip)
  await field('directory').fill(directory)
  await page.getByRole('button', { name: 'Only check it' }).click()
  await page.getByText('The spec is valid.').waitFor()
  const id = await field('id').inputValue()
  await page.getByRole('button', { name: 'Submit' }).click()
  await page.getByText('Waits for a worker.').waitFor()
  expect(page.url()).toBe(`${rig.url}/proxx/jobs/${id}`)
  // The form once more, by the button that goes back.
  await page.goBack()
  await page.getByRole('button', { name: 'Submit' }).click()
  await page.getByText('Waits for a worker.').waitFor()
  expect((await people.ann.get('/proxx?status=pending')).json.jobs).toHaveLength(1)
  // Corrected there, it is another one.
  await page.goBack()
  await field('naming').fill('other_{index}')
  await page.getByRole('button', { name: 'Submit' }).click()
  await page.getByText('Waits for a worker.').waitFor()
  expect((await people.ann.get('/proxx?status=pending')).json.jobs).toHaveLength(2)

  // By state and by profile.
  await page.goto('/proxx')
  expect(await page.locator('#rows > li').count()).toBe(3)
  await page.getByLabel('State').selectOption('failed')
  await page.getByLabel('Profile').selectOption('proxy_prores_lt')
  await page.getByRole('button', { name: 'Show' }).click()
  expect(await page.locator('#rows .badge').allInnerTexts()).toEqual(['failed'])
  await page.getByLabel('Profile').selectOption('proxy_dnxhr_lb')
  await page.getByRole('button', { name: 'Show' }).click()
  await page.getByText('No job matches.').waitFor()
})

test('a viewer is offered nothing, an owner sees their own, a stranger is shown the door, and another site is refused', async () => {
  const { job: own } = await submitSpec(rig.proxx, rig.spec([rig.path('gone.mov')]), {
    caller: BOB,
  })
  const other = await rig.submit(rig.spec([rig.path('gone.mov')]))
  const viewer = await visit('/proxx', 'viewer')
  await rowOf(viewer, own).waitFor()
  expect(await viewer.getByRole('link', { name: 'New job' }).count()).toBe(0)
  await rowOf(viewer, own).getByRole('link').click()
  await viewer.getByRole('heading', { name: 'Refused at submission' }).waitFor()
  expect(await viewer.locator('form.act').count()).toBe(0)
  const refused = await viewer.goto('/proxx/new')
  expect(refused?.status()).toBe(403)

  const owner = await visit('/proxx', 'bob')
  expect([await rowOf(owner, own).count(), await rowOf(owner, other).count()]).toEqual([1, 0])
  for (let i = 0; i < 20; i++) await submitSpec(rig.proxx, own.spec, { caller: BOB })
  await owner.goto('/proxx?status=failed')
  expect([await owner.locator('#rows > li').count(), await rowOf(owner, own).count()]).toEqual([20, 0])
  await owner.getByRole('link', { name: 'Older' }).click()
  await rowOf(owner, own).waitFor()
  expect(await owner.locator('#rows .badge').allInnerTexts()).not.toContain('complete')
  const notTheirs = await owner.goto(`/proxx/jobs/${other.id}`)
  expect(notTheirs?.status()).toBe(403)
  await owner.goto(`/proxx/jobs/${own.id}`)
  expect(await owner.getByRole('button', { name: 'Retry' }).count()).toBe(1)
  expect(await owner.getByText('Change the spec first').count()).toBe(0)
  expect(await owner.getByRole('link', { name: 'Job file' }).count()).toBe(0)
  await owner.goto('/proxx/new')
  await expectAccessible(owner)

  const stranger = await visit(`/proxx/jobs/${own.id}`, 'nobody')
  await stranger.getByRole('heading', { name: 'Sign in' }).waitFor()
  const cookie = (await owner.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ')
  const forged = await fetch(`${rig.url}/proxx/jobs/${own.id}/retry`, {
    method: 'POST',
    body: new URLSearchParams({ reason: 'x' }),
    headers: { cookie, accept: 'text/html', origin: 'https://elsewhere.example' },
  })
  expect(forged.status).toBe(403)

  // One address, a page or JSON.
  const { json, headers } = await people.bob.get(`/proxx/jobs/${own.id}`)
  expect([json.id, headers.get('vary')]).toEqual([own.id, 'accept'])
  const { status, headers: sent } = await people.bob.get('/proxx/jobs?status=failed', { accept: 'text/html' })
  expect([status, sent.get('location')]).toEqual([303, '/proxx?status=failed'])
})

test('the page of a retried job names the new job and asks before it makes another [P10]', async () => {
  const spec = rig.spec([rig.path('late.mov')])
  const job = await rig.submit(spec)
  const corrected = { ...spec, sources: [clip] }
  const first = await retryJob(rig.proxx, job.id, { actor: 'ann', reason: 'the other file', spec: corrected })
  const page = await visit(`/proxx/jobs/${job.id}`)
  const form = page.locator('form.act')
  await page.getByRole('link', { name: first.id }).first().waitFor()
  await form.getByLabel('Reason').fill('the card is back')
  await form.getByRole('button', { name: 'Retry' }).click()
  expect((await rig.job(job.id)).retriedAs).toBe(first.id)

  // A box with the width of a text field stands far away from its words.
  const box = form.getByLabel('Make one more job from this one')
  expect((await box.boundingBox())?.width).toBeLessThan(40)
  await box.check()
  await expectAccessible(page)
  await makeClip(rig.path('late.mov'))
  await form.getByRole('button', { name: 'Retry' }).click()
  await page.getByText('Retry of').waitFor()
  const second = await rig.job(page.url().split('/').at(-1) ?? '')
  expect(second).toMatchObject({ retriedFrom: job.id, spec, error: null })
})

test('where a job is on another machine follows from how far it is', () => {
  const at = (progress: number, of: number) => Object.values(positionByProgress(progress, of)).join(' ')
  expect([at(0, 5), at((1 / 5) * 0.8, 5), at(0.79, 5)]).toEqual(['1 5 encode', '2 5 encode', '5 5 encode'])
  expect([at(0.8, 5), at(0.8 + (2 / 5) * (1 - 0.8), 5), at(1, 5)]).toEqual(['1 5 verify', '3 5 verify', '5 5 verify'])
})
