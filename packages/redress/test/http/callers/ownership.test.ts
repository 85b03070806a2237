import { expect, onTestFinished, test } from 'vitest'
import { TABLE_ROUTES } from '../../../src/http/routes/routes.ts'
import { failureCodes } from '../../../src/index.ts'
import { CATALOG, type CatalogEntry } from '../../../src/operations/catalog.ts'
import { OPERATIONS } from '../../../src/operations/table.ts'
import { callOf } from '../calls.ts'
import { listen } from '../events/streams.ts'
import { makeWorld, NOBODY } from '../world.ts'

const ACTS = { reason: 'a test' }

test('an owner retries and cancels their own jobs under their own name [E20]', async () => {
  const { ask, jobs, app } = await makeWorld()
  expect(await ask(`/api/jobs/${jobs.ann.failed}/retry`, { as: 'owner', body: ACTS })).toMatchObject({ status: 200 })
  expect(await ask(`/api/jobs/${jobs.ann.queued}/cancel`, { as: 'owner', body: ACTS })).toMatchObject({ status: 200 })
  expect(await app.jobs.find(jobs.ann.failed)).toMatchObject({ status: 'queued' })
  expect(await app.jobs.find(jobs.ann.queued)).toMatchObject({ status: 'cancelled' })
  const { entries } = await app.perform('audit.list', { by: 'ann' })
  expect(entries.map(({ act }) => act).sort()).toEqual(['jobs.cancel', 'jobs.retry'])
})

test('an owner acts without a body, and the history names the owner [D22 E20]', async () => {
  const { ask, jobs, batches, app } = await makeWorld()
  const acts = [
    `/api/jobs/${jobs.ann.failed}/retry`,
    `/api/jobs/${jobs.ann.queued}/cancel`,
    `/api/batches/${batches.ann}/retry`,
    `/api/batches/${batches.ann}/cancel`,
  ]
  for (const path of acts) expect(await ask(path, { as: 'owner', method: 'POST' }), path).toMatchObject({ status: 200 })
  const { entries } = await app.perform('audit.list', { by: 'ann' })
  expect(entries.length).toBeGreaterThanOrEqual(2)
  expect(new Set(entries.map(({ reason }) => reason))).toEqual(new Set(['asked by its owner']))
  const retried = (await app.jobs.events(jobs.ann.failed)).events.find(({ kind }) => kind === 'manual-retry')
  expect(retried?.data).toMatchObject({ actor: 'ann', reason: 'asked by its owner' })
})

test('an empty body counts as no body, whatever its content type', async () => {
  const { ask, jobs } = await makeWorld()
  for (const type of ['application/json', 'application/x-www-form-urlencoded']) {
    const empty = { as: 'owner', method: 'POST', rawBody: '', headers: { 'content-type': type } } as const
    const { status, json } = await ask(`/api/jobs/${jobs.ann.failed}/retry`, empty)
    // The first one retries the job; after that it is queued.
    expect([status, json.error?.code], type).toEqual(
      type === 'application/json' ? [200, undefined] : [409, 'JOB_WRONG_STATE'],
    )
  }
})

test('an operator must give a reason to act on the job of another', async () => {
  const { ask, jobs } = await makeWorld()
  const refused = await ask(`/api/jobs/${jobs.ann.failed}/retry`, { as: 'operator', method: 'POST' })
  expect(refused).toMatchObject({ status: 400, json: { error: { code: 'REASON_REQUIRED' } } })
})

/** Invalid bodies; each is a 400 or a 415 to a caller who may act on an existing job. */
const WRONG_BODIES = [
  { body: {} },
  { body: { reason: 7, colour: 'red' } },
  { body: { again: 'perhaps' } },
  { body: [] },
  { rawBody: '{"reason":', headers: { 'content-type': 'application/json' } },
  { rawBody: 'reason=because', headers: { 'content-type': 'text/plain' } },
  { rawBody: 'reason=because', headers: { 'content-type': 'application/x-www-form-urlencoded' } },
]

test('a missing or foreign job is refused with 404 or 403, whatever is wrong with the body', async () => {
  const { ask, jobs, batches } = await makeWorld()
  const targets = [
    ...['retry', 'cancel'].flatMap((act) => [
      ['owner', `/api/jobs/${jobs.bob.failed}/${act}`, 404],
      ['owner', `/api/jobs/${jobs.bob.forbidden}/${act}`, 403],
      ['owner', `/api/jobs/${NOBODY}/${act}`, 404],
      ['operator', `/api/jobs/${NOBODY}/${act}`, 404],
      ['owner', `/api/batches/${batches.bob}/${act}`, 404],
      ['operator', `/api/batches/${NOBODY}/${act}`, 404],
      ['stranger', `/api/jobs/${jobs.bob.failed}/${act}`, 401],
    ]),
    ['owner', `/api/jobs/${jobs.ann.failed}/mark-failed`, 403],
    ['operator', `/api/jobs/${NOBODY}/mark-failed`, 404],
  ] as const
  for (const [as, path, status] of targets) {
    for (const wrong of WRONG_BODIES) {
      const told = `${as} ${path} ${JSON.stringify(wrong)}`
      expect((await ask(path as string, { as: as as 'owner', method: 'POST', ...wrong })).status, told).toBe(status)
    }
  }
  for (const wrong of WRONG_BODIES.slice(1)) {
    const { status } = await ask(`/api/jobs/${jobs.ann.failed}/retry`, { as: 'owner', method: 'POST', ...wrong })
    expect([400, 415], JSON.stringify(wrong)).toContain(status)
  }
})

test('an owner cannot give a retry another input, which may name what belongs to somebody else', async () => {
  const { ask, jobs, app } = await makeWorld()
  for (const dryRun of [false, true]) {
    const body = { ...ACTS, input: { file: 'of-bob.pdf' }, dryRun }
    const refused = await ask(`/api/jobs/${jobs.ann.failed}/retry`, { as: 'owner', body })
    expect(refused).toMatchObject({ status: 403, json: { error: { code: 'ROLE_TOO_LOW' } } })
    expect(refused.text).toContain('needs the role operator')
  }
  expect(await app.jobs.find(jobs.ann.failed)).toMatchObject({ status: 'failed' })
})

test('an owner can neither see nor change the jobs of another owner [E20]', async () => {
  const { ask, jobs, batches, app } = await makeWorld()
  for (const act of ['retry', 'cancel']) {
    const path = `/api/jobs/${jobs.bob[act === 'retry' ? 'failed' : 'queued']}/${act}`
    for (const body of [ACTS, { ...ACTS, owner: 'bob' }, { ...ACTS, owner: 'bob', actor: 'bob' }]) {
      expect(await ask(path, { as: 'owner', body })).toMatchObject({ status: 404 })
    }
    expect(await ask(`/api/batches/${batches.bob}/${act}`, { as: 'owner', body: ACTS })).toMatchObject({ status: 404 })
  }
  const { json: listed } = await ask('/api/jobs?owner=bob', { as: 'owner' })
  expect(new Set(listed.jobs.map((job: { owner: string }) => job.owner))).toEqual(new Set(['ann']))
  const { json: counted } = await ask('/api/jobs/count?owner=bob', { as: 'owner' })
  expect(counted.count).toBe(listed.jobs.length)
  expect((await ask(`/api/jobs?q=${jobs.bob.failed}`, { as: 'owner' })).json.jobs).toEqual([])
  expect((await ask(`/api/jobs?batch=${batches.bob}`, { as: 'owner' })).json.jobs).toEqual([])
  expect((await ask('/api/batches?owner=bob', { as: 'owner' })).json.batches).toMatchObject([{ owner: 'ann' }])
  expect(await app.jobs.find(jobs.bob.failed)).toMatchObject({ status: 'failed' })
  expect(await app.jobs.find(jobs.bob.queued)).toMatchObject({ status: 'queued', cancelRequestedAt: null })
})

test('foreign and missing jobs are refused in the same words, unless the policy says otherwise', async () => {
  const { ask, jobs } = await makeWorld()
  const missing = '00000000-0000-7000-8000-000000000001'
  for (const rest of ['', '/explain', '/events', '/failures', '/download']) {
    const hidden = await ask(`/api/jobs/${jobs.bob.failed}${rest}`, { as: 'owner' })
    const absent = await ask(`/api/jobs/${missing}${rest}`, { as: 'owner' })
    expect(hidden.status).toBe(404)
    expect(hidden.text.replaceAll(jobs.bob.failed, 'ID')).toBe(absent.text.replaceAll(missing, 'ID'))
    const forbidden = await ask(`/api/jobs/${jobs.bob.forbidden}${rest}`, { as: 'owner' })
    expect(forbidden).toMatchObject({ status: 403, json: { error: { code: 'FORBIDDEN' } } })
  }
})

test("jobs of others in an owner's batch are neither changed nor shown", async () => {
  const { ask, app } = await makeWorld()
  const worker = await app.makeWorker()
  const batch = await app.batches.create('mixed', { owner: 'ann' })
  const own = await batch.add('step', { fails: true })
  for (let i = 0; i < 4; i++) await worker.tick()
  const others = await batch.add('step', { fails: true }, { owner: 'bob' })
  for (let i = 0; i < 4; i++) await worker.tick()
  const waiting = await batch.add('step', { fails: true }, { owner: 'bob', delay: '1d' })

  const answers = [
    await ask(`/api/batches/${batch.id}`, { as: 'owner' }),
    await ask('/api/batches', { as: 'owner' }),
    await ask(`/api/jobs?batch=${batch.id}`, { as: 'owner' }),
    await ask(`/api/batches/${batch.id}/retry`, { as: 'owner', body: ACTS }),
    await ask(`/api/batches/${batch.id}/cancel`, { as: 'owner', body: ACTS }),
  ]
  for (const { status, text } of answers) {
    expect(status).toBe(200)
    expect(text).not.toContain(others.id)
    expect(text).not.toContain(waiting.id)
  }
  expect(answers[3]?.json.items).toMatchObject([{ id: own.id, isDone: true }])
  expect(await app.jobs.find(others.id)).toMatchObject({ status: 'failed' })
  expect(await app.jobs.find(waiting.id)).toMatchObject({ status: 'queued' })
  // An operator sees and does all of it.
  expect((await ask(`/api/batches/${batch.id}`, { as: 'viewer' })).json.lastError).toMatchObject({ jobId: others.id })
})

test('a caller cannot act in another name: an actor in the body is ignored, in the query it is refused', async () => {
  const world = await makeWorld()
  const { ask, app } = world
  for (const route of TABLE_ROUTES) {
    const { needsActor }: CatalogEntry = CATALOG[route.name]
    if (needsActor !== true) {
      expect(Object.keys(OPERATIONS[route.name].input.shape)).not.toContain('actor')
      continue
    }
    const { dryRun: _, ...input } = world.inputOf(route.name, 'others')
    const { path, asking } = callOf(route, { ...input, actor: 'mallory' })
    // First, because a deleted job is not there for a second request.
    expect((await ask(`${path}?actor=mallory`, { as: 'admin', ...asking })).status).toBe(400)
    const { status } = await ask(path, { as: 'admin', ...asking })
    expect(status, route.name).toBeLessThan(500)
  }
  const { entries } = await app.perform('audit.list', { limit: 1000 })
  expect(entries.filter(({ actor }) => actor === 'mallory')).toEqual([])
  expect(new Set(entries.map(({ actor }) => actor))).toEqual(new Set(['olga', 'admin']))
})

test('an owner cannot choose another account, and an owner token without an account is refused', async () => {
  const { ask } = await makeWorld()
  expect((await ask('/api/me?account=bob&role=admin', { as: 'owner' })).json).toMatchObject({
    ...{ name: 'ann', role: 'owner', account: 'ann' },
  })
  expect((await ask('/api/jobs', { as: 'owner', headers: { 'x-forwarded-user': 'bob' } })).text).not.toContain('"bob"')
})

test('an owner reads failures in public words, without traces, paths, machines or operators [D25 D26]', async () => {
  const { ask, app } = await makeWorld()
  app.job('throws', { policy: { manualRetry: 'in-place' }, run: () => Promise.reject(new Error('the disk said no')) })
  const { id } = await app.submit('throws', {}, { owner: 'ann' })
  const worker = await app.makeWorker({ id: 'machine-7:4711:x' })
  for (let i = 0; i < 4; i++) await worker.tick()
  await app.jobs.retry(id, { actor: 'olga', reason: 'she asked me to' })
  for (let i = 0; i < 4; i++) await worker.tick()
  const waits = await app.submit('throws', {}, { owner: 'ann', delay: '1d' })
  await app.jobs.markFailed(waits.id, { actor: 'olga', reason: 'nobody needs it' })
  for (const job of [id, waits.id]) {
    for (const rest of ['explain', 'events', 'failures']) {
      const { status, text } = await ask(`/api/jobs/${job}/${rest}`, { as: 'owner' })
      expect(status).toBe(200)
      expect(text).not.toMatch(/disk said|\.ts:|\.\/|node:|machine-7|olga|asked me|nobody needs/)
    }
  }
  const { text } = await ask(`/api/jobs/${id}/failures`, { as: 'viewer' })
  expect(text).toMatch(/the disk said no.*\.ts:/)
  expect(text).toContain('machine-7')
})

test('stack traces in handler messages and reclaim reasons are removed for owners [D25 D26]', async () => {
  const world = await makeWorld()
  const { ask, app, clock } = world
  const codes = failureCodes({ BROKEN: { fault: 'code', retry: 'never', message: 'It broke.' } })
  const said = () => new Error('the page has no end').stack ?? ''
  app.job('noted', {
    codes,
    policy: { errors: 'latest' },
    run: (_, attempt) => {
      if (attempt.number === 1) attempt.snooze('1s', said())
      return attempt.fail('BROKEN', { note: said(), cause: new Error('below') })
    },
  })
  app.job('taken', {
    policy: { orphan: 'requeue' },
    run: (_, attempt) => new Promise((_, no) => attempt.signal.addEventListener('abort', no)),
  })
  const batch = await app.batches.create('pages', { owner: 'ann' })
  const stream = await listen(world, 'owner')
  const noted = (await batch.add('noted', {})).id
  const taken = (await app.submit('taken', {}, { owner: 'ann' })).id
  const worker = await app.makeWorker({ id: 'machine-7:4711:x' })
  for (let i = 0; i < 3; i++) await worker.tick()
  await clock.advance(2_000)
  for (let i = 0; i < 3; i++) await worker.tick()
  expect(await app.jobs.find(noted)).toMatchObject({
    status: 'failed',
    errorMessage: 'It broke. Error: the page has no end',
  })
  worker.crash()
  await clock.advance(120_000)
  await (await app.makeWorker({ id: 'machine-8:1:x' })).maintain()
  expect((await app.jobs.events(taken)).events.map(({ kind }) => kind)).toContain('reclaimed')
  await stream.hear('job.failed')
  const answers = [JSON.stringify(stream.told)]
  for (const job of [noted, taken]) {
    for (const rest of ['', '/explain', '/events', '/failures']) {
      answers.push((await ask(`/api/jobs/${job}${rest}`, { as: 'owner' })).text)
    }
  }
  for (const path of ['/api/jobs', '/api/batches', `/api/batches/${batch.id}`]) {
    answers.push((await ask(path, { as: 'owner' })).text)
  }
  for (const text of answers) expect(text).not.toMatch(/\.ts:|file:|node:|machine-\d/)
  expect((await ask(`/api/jobs/${taken}/events`, { as: 'viewer' })).text).toContain('machine-7')
})

test("an owner's view of running, lost, held or ended jobs names no machine or operator [D25 D26]", async () => {
  const { ask, app, clock } = await makeWorld()
  const id = 'machine-7:4711:x'
  const acts = { actor: 'olga', reason: 'the secret shard is broken' }
  app.job('hangs', {
    policy: { orphan: 'report' },
    run: (_, attempt) => new Promise((_, no) => attempt.signal.addEventListener('abort', no)),
  })
  app.job('waits', { queue: 'slow', run: () => null })
  app.job('nobodys', { run: () => null })
  app.job('fragile', { policy: { breaker: { guards: 'gateway' } }, run: () => null })
  const worker = await app.makeWorker({ id, concurrency: 5 })
  onTestFinished(() => worker.crash())
  const submit = async (type: string) => (await app.submit(type, {}, { owner: 'ann' })).id
  const [runs, ended] = [await submit('hangs'), await submit('hangs')]
  await worker.tick()
  await app.jobs.markFailed(ended, acts)
  await app.perform('queues.pause', { name: 'slow', ...acts })
  await app.perform('breakers.open', { name: 'gateway', ...acts })
  const held = [await submit('waits'), await submit('fragile'), await submit('nobodys')]
  const looks = async (when: string) => {
    for (const job of [runs, ended, ...held]) {
      for (const path of [`/api/jobs/${job}`, `/api/jobs/${job}/explain`, `/api/jobs?q=${job}`]) {
        const { status, text } = await ask(path, { as: 'owner' })
        expect({ status, when, path }).toMatchObject({ status: 200 })
        expect(text, `${when}: ${path}`).not.toMatch(/machine-|olga|secret shard|4711/)
      }
    }
  }
  await looks('while it runs')
  expect((await ask(`/api/jobs/${held[0]}`, { as: 'owner' })).json.held).toMatchObject([{ by: 'queue', name: 'slow' }])
  const cancelled = await ask(`/api/jobs/${runs}/cancel`, { as: 'owner', body: ACTS })
  expect({ status: cancelled.status, worker: cancelled.json.job.worker }).toEqual({ status: 200, worker: null })
  worker.crash()
  await clock.advance(3_600_000)
  const next = await app.makeWorker({ id: 'machine-9:1:y' })
  for (let i = 0; i < 4; i++) await next.tick()
  next.crash()
  await clock.advance(3_600_000)
  await looks('when its worker is gone')
  // An operator is told, also when looking for the jobs of one owner.
  expect((await ask(`/api/jobs?owner=ann&q=${held[0]}`, { as: 'viewer' })).text).toMatch(/olga.*secret shard/)
  expect((await ask(`/api/jobs?owner=ann&q=${runs}`, { as: 'viewer' })).text).toContain('machine-7')
})

test('an owner sees no actions of operators', async () => {
  const { ask, jobs } = await makeWorld()
  for (const path of [
    `/api/jobs/${jobs.ann.queued}`,
    `/api/jobs/${jobs.ann.queued}/explain`,
    `/api/jobs?q=${jobs.ann.queued}`,
  ]) {
    const { json } = await ask(path, { as: 'owner' })
    const { actions } = json.jobs?.[0] ?? json
    expect(actions).toMatchObject([
      { name: 'retry', allowed: false },
      { name: 'mark-failed', allowed: false, why: 'only an operator can mark a job failed' },
      { name: 'cancel', allowed: true },
      { name: 'reschedule', allowed: false, why: 'only an operator can reschedule a job' },
      { name: 'promote', allowed: false },
      { name: 'reprioritise', allowed: false, why: 'only an operator can change the priority of a job' },
      { name: 'replace-input', allowed: false, why: 'only an operator can replace the input of a job' },
      { name: 'delete', allowed: false },
    ])
  }
  for (const act of ['mark-failed', 'reschedule', 'promote', 'reprioritise', 'replace-input', 'delete']) {
    const body = { ...ACTS, delay: '1h', priority: 1, input: {} }
    expect((await ask(`/api/jobs/${jobs.ann.queued}/${act}`, { as: 'owner', body })).status, act).toBe(403)
  }
})
