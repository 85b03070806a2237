import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { App } from '../../../../packages/redress/src/app/app.ts'
import { isAlive } from '../../../../packages/redress/test/programs/programs.ts'
import { freePort, mailServer } from '../../../../test/support/servers/smtp.ts'
import { until } from '../../../../test/support/until.ts'
import { listOrphans, markFailed, retryJob } from '../../src/operations.ts'
import type { ProxxJob } from '../../src/view.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const hook = {
  PROXX_WEBHOOK_URL: 'http://127.0.0.1:9/hook',
  PROXX_WEBHOOK_SECRET: 'whsec_YSBzZWNyZXQgb2YgdGhlIHRlc3RzLCBrbm93biB0byBhbGw=',
}
/** Not less: on a busy machine a worker that lives may be silent for a second. */
const LEASE_SEC = 3
const smtpPort = await freePort()
const mail = {
  PROXX_MAIL_TO: 'night-shift@example.org',
  MAIL_FROM: 'proxx@example.org',
  SMTP_URL: `smtp://127.0.0.1:${smtpPort}`,
}
const env = { PROXX_LEASE_SEC: String(LEASE_SEC), ...hook, ...mail }
const rig = Rig.open({ env })
let clip: string
let people: Awaited<ReturnType<Rig['serve']>>

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
  people = await rig.serve()
})

/** A real worker, which is killed with the test if not before. */
function otherProcess(name: string, home = rig.home): ChildProcess {
  const file = join(import.meta.dirname, '../worker.ts')
  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...options, file, home, name], {
    env: { ...process.env, PROXX_FREE_MB: '0', ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

const named = (naming: string) => ({ ...rig.spec([clip]), output: { directory: rig.output(), naming } })
const statusOf = async ({ id }: ProxxJob) => (await rig.job(id)).status

test('a killed worker leaves a dispatch failure or an orphan, each announced alone, and an operator marks and retries it [P11 P14 P19 P20 P53 P54 P55 P56 P57 P60]', async () => {
  const { mails } = await mailServer({ port: smtpPort })
  const [pids, stop, ready, go] = ['pids', 'stop', 'ready', 'go'].map((name) => rig.path(name)) as [
    string,
    string,
    string,
    string,
  ]
  withFfmpeg(
    rig.folder,
    `[ -e '${stop}' ] && exec "$FFMPEG" "$@"
    case "$STAGE $*" in
      "encode "*in-a-clip*) echo half > "$OUT" ;;
      "verify "*in-verification*) : ;;
      "verify "*delivered*) touch '${ready}'; while [ ! -e '${go}' ]; do sleep 0.02; done; exec "$FFMPEG" "$@" ;;
      *) exec "$FFMPEG" "$@" ;;
    esac
    echo $$ >> '${pids}'; exec sleep 300`,
  )
  const specs = [named('before-the-start'), named('in-a-clip'), named('in-verification'), named('delivered')]
  const [first = specs[0]] = specs
  // Whoever reads who holds this lock never comes back.
  execFileSync('mkfifo', [join(String(first?.output.directory), '.proxx.lock')])
  const jobs: ProxxJob[] = []
  for (const spec of specs) jobs.push(await rig.submit(spec))
  const [unstarted, encoding, verifying, delivered] = jobs as [ProxxJob, ProxxJob, ProxxJob, ProxxJob]

  const node2 = otherProcess('node-2')
  await until('all three are where they are to be', async () => {
    const running = existsSync(pids) ? readFileSync(pids, 'utf8').trim().split('\n').length : 0
    return running === 2 && existsSync(ready) && (await statusOf(unstarted)) === 'processing'
  })
  // It can write no more to the store, and so it delivers and cannot say so.
  const delivery = join(String(specs[3]?.output.directory), 'delivered.mov')
  const database = new DatabaseSync(join(rig.home, 'redress.db'))
  database.exec('BEGIN IMMEDIATE')
  execFileSync('touch', [go])
  await until('it has delivered', () => existsSync(delivery))
  node2.kill('SIGKILL')
  await once(node2, 'exit')
  database.exec('ROLLBACK')
  database.close()
  // What it ran dies with it: nothing goes on writing behind everybody's back.
  await until('its programs are gone', () =>
    readFileSync(pids, 'utf8')
      .trim()
      .split('\n')
      .every((pid) => !isAlive(pid)),
  )

  const worker = await rig.worker()
  await worker.enlist()
  await until('the silence was noticed', async () => {
    await worker.maintain()
    const noticed = (await listOrphans(rig.proxx)).filter(({ orphanedAt }) => orphanedAt !== null)
    return noticed.length === 3 && (await statusOf(unstarted)) === 'failed'
  })

  // Claimed and never started: a dispatch failure, of which nothing was executed.
  expect(await rig.job(unstarted.id)).toMatchObject({
    executionAttempted: false,
    error: { type: 'dispatch_failed', owner: 'coordination', code: 'NEVER_STARTED', worker: 'node-2' },
  })
  expect(rig.failureLine(unstarted.id)).toMatchObject({ class: 'dispatch', worker_id: 'node-2', from: 'processing' })

  // Begun: orphans. Listed, logged and told; neither reassigned nor healed.
  for (let i = 0; i < 3; i++) {
    await worker.tick()
    await worker.maintain()
  }
  const orphans = (await people.viewer.get('/proxx/orphans')).json.jobs as ProxxJob[]
  expect(orphans.map(({ id }) => id).toSorted()).toEqual([encoding.id, verifying.id, delivered.id].toSorted())
  for (const orphan of orphans) {
    expect(orphan).toMatchObject({ status: 'processing', worker: 'node-2', executionAttempted: true, error: null })
    expect(orphan.orphanedAt).not.toBeNull()
    expect(rig.lines(orphan.id).filter(({ event }) => event === 'orphaned')).toEqual([
      expect.objectContaining({ worker_id: 'node-2', from: 'processing', to: 'processing' }),
    ])
    expect(rig.log.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', fields: expect.objectContaining({ job_id: orphan.id }) }),
    )
  }
  const { notices } = await rig.app.perform('notices.list', { limit: 100 })
  const told = notices.map(({ kind, subject }) => `${kind} ${JSON.stringify(subject)}`).join('\n')
  for (const { id } of orphans) expect(told).toContain(id)
  await until('somebody was written to of the failure and of each orphan', async () => {
    await worker.runDuties()
    await worker.tick()
    return mails.length >= 4
  })
  expect(mails.map(({ from, to }) => `${from} ${to}`)).toEqual(Array(4).fill(`${mail.MAIL_FROM} ${mail.PROXX_MAIL_TO}`))
  for (const { id } of jobs) {
    const about = mails.filter(({ parsed }) => parsed.text?.includes(id)).map(({ parsed }) => parsed.subject)
    expect(about).toEqual([`proxx.transcode ${id === unstarted.id ? 'failed: NEVER_STARTED' : 'lost its worker'}`])
  }
  expect(rig.stderr(encoding.id)).toMatch(/clip 1 of 1, encode/)
  expect(rig.stderr(verifying.id)).toMatch(/clip 1 of 1, verify/)
  expect(filesIn(String(specs[1]?.output.directory))).toEqual(['.proxx.lock', `in-a-clip.mov.${encoding.id}.partial`])

  // A retry needs a failed job, and an orphan is none: a person says so first, with a name and a reason.
  const path = `/proxx/jobs/${encoding.id}`
  expect((await people.operator.post(`${path}/retry`, { reason: 'x' })).status).toBe(409)
  expect((await people.viewer.post(`${path}/mark-failed`, { reason: 'x' })).status).toBe(403)
  expect((await people.operator.post(`${path}/mark-failed`, {})).status).toBe(400)
  const marked = await people.operator.post(`${path}/mark-failed`, { reason: 'node-2 was unplugged' })
  expect([marked.status, marked.json.status, marked.json.error.code]).toEqual([200, 'failed', 'MARKED_FAILED'])
  // P26: the failure keeps where the job was, in the log as well.
  expect(marked.json.error).toMatchObject({ class: 'execution', owner: 'worker', clip: 1, stage: 'encode' })
  expect(rig.failureLine(encoding.id)).toMatchObject({ context: { clip: 1, clips: 1, clipStage: 'encode' } })
  expect(rig.file(encoding.id)).toMatchObject({ error: { clip: 1, stage: 'encode' } })
  expect(marked.json.error.detail).toContain('operator marked it as failed: node-2 was unplugged')
  for (const { id } of [verifying, delivered]) {
    await markFailed(rig.proxx, id, { actor: 'ann', reason: 'node-2 was unplugged' })
  }
  expect(await listOrphans(rig.proxx)).toEqual([])
  expect((await rig.job(verifying.id)).error).toMatchObject({ clip: 1, stage: 'verify' })

  // And a retry makes everything anew, in a directory whose dead lock is in nobody's way any more.
  execFileSync('touch', [stop])
  for (const [spec, failed] of [
    [specs[1], encoding],
    [specs[2], verifying],
  ] as const) {
    const before = rig.file(failed.id)
    const retried = await rig.ended(
      (await retryJob(rig.proxx, failed.id, { actor: 'ann', reason: 'on this machine' })).id,
    )
    expect(retried).toMatchObject({ status: 'complete', retriedFrom: failed.id })
    const name = `${spec?.output.naming}.mov`
    expect(filesIn(String(spec?.output.directory))).toEqual([name, `${name}.${failed.id}.partial`])
    expect(rig.file(failed.id)).toEqual(before)
  }

  // What was delivered and not recorded is nobody's output: it has no fingerprint, is not adopted, and is in the way.
  expect(await rig.job(delivered.id)).toMatchObject({ status: 'failed', outputs: [], fingerprint: null })
  const bytes = readFileSync(delivery)
  const refused = await retryJob(rig.proxx, delivered.id, { actor: 'ann', reason: 'as it was' })
  expect(refused).toMatchObject({ status: 'failed', error: { class: 'pre_dispatch', code: 'OUTPUT_EXISTS' } })
  expect(readFileSync(delivery)).toEqual(bytes)
})

test('a slow worker that sends heartbeats is not an orphan [P53]', async () => {
  const go = rig.path('go-on')
  withFfmpeg(rig.folder, `if [ $STAGE = encode ]; then while [ ! -e '${go}' ]; do sleep 0.02; done; fi`)
  const { id } = await rig.submit(named('slow'))
  const worker = await rig.worker()
  const startedMs = performance.now()
  await until('more than a lease has passed', async () => {
    await worker.tick()
    expect(await worker.maintain()).toMatchObject({ reported: 0, failed: 0 })
    return performance.now() - startedMs > LEASE_SEC * 1_500
  })
  execFileSync('touch', [go])
  expect(await rig.ended(id)).toMatchObject({ status: 'complete', orphanedAt: null })
})

test('an orphan is listed after its lease ends even when no process runs, and keeps its clip and stage [P26 P53 P54]', async () => {
  const lone = Rig.forTest({ env })
  const started = lone.path('started')
  withFfmpeg(lone.folder, `case "$OUT" in *_002*) touch '${started}'; exec sleep 300 ;; esac`)
  const { id } = await lone.submit(lone.spec([clip, clip]))
  const node3 = otherProcess('node-3', lone.home)
  await until('the second clip is encoded', () => existsSync(started))
  expect(await listOrphans(lone.proxx)).toEqual([])
  node3.kill('SIGKILL')
  await once(node3, 'exit')
  // No process runs: the list is computed when the command asks for it.
  const [orphan] = await until('it is listed', async () => {
    const found = await listOrphans(lone.proxx)
    return found.length > 0 && found
  })
  expect(orphan).toMatchObject({ id, status: 'processing', worker: 'node-3', executionAttempted: true })
  expect(orphan?.orphanedAt).not.toBeNull()
  expect(lone.lines(id).some(({ event }) => event === 'orphaned')).toBe(false)

  const stranger = new App({ store: `sqlite:${join(lone.home, 'redress.db')}` })
  await stranger.jobs.markFailed(id, { actor: 'bob', reason: 'its machine is gone' })
  await stranger.stop()
  expect((await lone.job(id)).error).toMatchObject({
    code: 'MARKED_FAILED',
    clip: 2,
    stage: 'encode',
    worker: 'node-3',
  })
})
