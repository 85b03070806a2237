import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { App } from '../../../packages/redress/src/app/app.ts'
import { smallDisk } from '../../../test/support/stores/small-disk.ts'
import { until } from '../../../test/support/until.ts'
import { openProxx } from '../src/install.ts'
import { markFailed, retryJob, submitSpec } from '../src/operations.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from './clips.ts'
import { type Line, Rig } from './rig.ts'

needsFfmpeg()
const rig = Rig.open()
let clip: string

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
})

/** One job for each class of failure. */
async function oneOfEach(): Promise<Record<string, string>> {
  const locked = rig.spec([clip])
  writeFileSync(join(locked.output.directory, '.proxx.lock'), 'somebody else\n')
  withFfmpeg(
    rig.folder,
    'if [ $STAGE = encode ]; then case "$OUT" in */bad.*) exit 1 ;; *) : > "$OUT"; exit 0 ;; esac; fi',
  )
  const bad = { ...rig.spec([clip]), output: { directory: rig.output(), naming: 'bad' } }
  return {
    pre_dispatch: (await rig.submit(rig.spec(['/gone.mov']))).id,
    dispatch: (await rig.done(locked)).id,
    execution: (await rig.done(bad)).id,
    verification: (await rig.done(rig.spec([clip]))).id,
  }
}

test('each failure class has one log line in the frozen format with its owner, and each line has a record [P1 P33 P36 P37 P62 P65]', async () => {
  const jobs = await oneOfEach()
  const owners: Line = {
    pre_dispatch: 'submission',
    dispatch: 'coordination',
    execution: 'worker',
    verification: 'worker',
  }
  for (const [kind, id] of Object.entries(jobs)) {
    const line = rig.failureLine(id)
    expect(Object.keys(line), kind).toEqual([
      ...['ts', 'job_id', 'type', 'worker_id', 'from', 'to', 'class', 'owner', 'code', 'fault', 'reason', 'detail'],
      ...['context', 'decision'],
      ...(kind === 'pre_dispatch' ? [] : ['attempt']),
    ])
    expect(line).toMatchObject({
      ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      job_id: id,
      type: 'proxx.transcode',
      worker_id: kind === 'pre_dispatch' ? null : 'node-1',
      from: kind === 'pre_dispatch' ? 'pending' : 'processing',
      to: 'failed',
      class: kind,
      owner: owners[kind],
      reason: expect.stringMatching(/^[A-Z_]+: ./),
    })
    const job = await rig.job(id)
    expect(job.error).toMatchObject({ class: kind, owner: owners[kind], code: line.code })
    expect(String(line.reason)).toBe(`${job.error?.code}: ${job.error?.message}`)
    // P52, P65: the same words in the log, over HTTP and in the job file.
    expect(job.error?.transition).toEqual({ from: line.from, to: line.to })
    await until('its file says so, too', () => rig.file(id).status === line.to)
    expect(rig.file(id)).toMatchObject({ error: { transition: { from: line.from, to: line.to } } })
  }
  // Nothing is logged of which there is no record, and nothing is failed of which there is no line.
  const { jobs: all } = await rig.app.jobs.list({ limit: 1_000, status: 'failed' })
  const logged = rig.lines().filter(({ to, class: kind }) => to === 'failed' && kind !== undefined)
  expect(logged.map(({ job_id }) => job_id).toSorted()).toEqual(all.map(({ id }) => id).toSorted())
})

test('the log line is fsynced before the state, the response and the job file change [P59 P61 P66]', async () => {
  const order: string[] = []
  const spied = Rig.forTest()
  const has = (id: string) =>
    existsSync(join(spied.home, 'failures.jsonl')) && spied.lines(id).some(({ to }) => to === 'failed')
  const write = spied.proxx.files.write.bind(spied.proxx.files)
  let id = ''
  spied.proxx.files.write = async (of: string) => {
    id = of
    order.push(`file, logged ${has(of)}, failed ${(await spied.job(of)).status === 'failed'}`)
    await write(of)
  }
  const job = await spied.submit(spied.spec(['/gone.mov']))
  order.push(`answer, logged ${has(job.id)}`)
  expect(job.id).toBe(id)
  expect(order).toContain('file, logged true, failed true')
  expect(order.at(-1)).toBe('answer, logged true')
  expect(order.some((step) => step.includes('logged false'))).toBe(false)
})

test('changes made by the generic CLI are logged in the failure log [P59 P65]', async () => {
  const { id } = await rig.submit(rig.spec([clip]))
  const stranger = new App({ store: `sqlite:${join(rig.home, 'redress.db')}` })
  await stranger.jobs.markFailed(id, { actor: 'bob', reason: 'not wanted' })
  const { job } = await stranger.jobs.retry(id, { actor: 'bob', reason: 'wanted after all' })
  await stranger.stop()
  expect(rig.failureLine(id)).toMatchObject({
    from: 'queued',
    class: 'pre_dispatch',
    event: 'mark-failed',
    actor: 'bob',
  })
  expect(rig.lines(job.id)).toEqual([expect.objectContaining({ from: null, to: 'queued' })])
  await markFailed(rig.proxx, job.id, { actor: 'ann', reason: 'enough' })
})

describe('a failure log that cannot be written', () => {
  test('a removed failure log is created again; while it cannot be written, only failures are recorded [P61 P67]', async () => {
    const own = Rig.forTest()
    const path = join(own.home, 'failures.jsonl')
    const failed = await own.submit(own.spec(['/gone.mov']))
    rmSync(path)
    const pending = await own.submit(own.spec([clip]))
    expect(own.lines()).toEqual([expect.objectContaining({ job_id: pending.id, to: 'pending' })])

    const block = () => {
      rmSync(path)
      mkdirSync(path)
    }
    block()
    const reason = { actor: 'ann', reason: 'because' }
    const refused = { code: 'FAILURE_LOG_FAILED' }
    await expect(own.submit(own.spec([clip]))).rejects.toMatchObject(refused)
    await expect(own.submit(own.spec(['/gone.mov']))).rejects.toMatchObject(refused)
    await expect(retryJob(own.proxx, failed.id, reason)).rejects.toMatchObject(refused)
    await expect(markFailed(own.proxx, pending.id, reason)).rejects.toMatchObject(refused)
    expect((await own.app.jobs.list({})).jobs).toHaveLength(2)
    expect([await own.job(failed.id), await own.job(pending.id)]).toEqual([failed, pending])

    rmSync(path, { recursive: true })
    withFfmpeg(own.folder, `if [ $STAGE = encode ]; then rm '${path}'; mkdir '${path}'; exit 3; fi`)
    const ended = await own.ended(pending.id)
    expect(ended).toMatchObject({ status: 'failed', executionAttempted: true, error: { code: 'FFMPEG_FAILED' } })
    // The line that there is none of is told where the failure is.
    expect((await own.app.jobs.failures(pending.id)).failures.at(-1)?.context).toMatchObject({
      failureLog: expect.stringContaining('EISDIR'),
    })
  })

  test('while the log disk is full, no submission is accepted and no job completes [P61 P67]', async (context) => {
    const disk = smallDisk(context, '8m')
    const logs = join(disk.folder, 'logs')
    mkdirSync(logs)
    const full = Rig.forTest()
    const app = new App({
      store: `sqlite:${join(full.home, 'own.db')}`,
      failureLog: join(logs, 'failures.jsonl'),
      log: full.log,
    })
    const proxx = openProxx(app, { home: join(full.home, 'own'), env: { PROXX_FREE_MB: '0' }, log: full.log })
    const go = full.path('go')
    withFfmpeg(
      full.folder,
      `if [ $STAGE = verify ]; then touch '${go}.reached'; while [ ! -e '${go}' ]; do sleep 0.02; done; fi`,
    )
    const { job } = await submitSpec(proxx, full.spec([clip]), { actor: 'ann' })
    const worker = await app.makeWorker({ id: 'node-1', pollMs: 600_000, log: full.log })
    await until('it is being verified', async () => {
      await worker.tick()
      return existsSync(`${go}.reached`)
    })
    const before = readFileSync(join(logs, 'failures.jsonl'), 'utf8')
    disk.fill()
    // The last block of the file may have room for more lines: it is filled, too.
    const filler = '#'.repeat(8_192)
    try {
      for (;;) writeFileSync(join(logs, 'failures.jsonl'), filler, { flag: 'a' })
    } catch (error) {
      expect((error as { code?: string }).code).toBe('ENOSPC')
    }
    await expect(submitSpec(proxx, full.spec([clip]), { actor: 'ann' })).rejects.toMatchObject({
      code: 'FAILURE_LOG_FAILED',
    })
    writeFileSync(go, '')
    const ended = await until('it has ended', async () => {
      await worker.tick()
      const view = await proxx.files.view(job.id)
      return view?.finishedAt != null && view
    })
    expect(ended).toMatchObject({ status: 'failed', fingerprint: null, outputs: [], error: { code: 'LOG_FAILED' } })
    expect(readFileSync(join(logs, 'failures.jsonl'), 'utf8').startsWith(before)).toBe(true)
    await app.stop({ graceMs: 0 })
  })
})

test('the output of ffmpeg is readable only by its user', async () => {
  withFfmpeg(rig.folder, '')
  const job = await rig.done(rig.spec([clip]))
  const path = join(rig.proxx.settings.jobs, job.id, 'stderr.log')
  expect(statSync(path).mode & 0o077).toBe(0)
})
