import { spawn } from 'node:child_process'
import { copyFileSync, readdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startServer } from '../../../packages/redress/src/http/server.ts'
import { folder, ROOT, redress, running } from '../../../packages/redress/test/cli/command.ts'
import { until } from '../../../test/support/until.ts'
import { readSpecFile } from '../src/cli/run.ts'
import { TYPE } from '../src/policy.ts'
import { proxxRoutes } from '../src/routes.ts'
import { makeClip, needsFfmpeg, withFfmpeg } from './clips.ts'
import { Rig } from './rig.ts'

needsFfmpeg()
const rig = Rig.open()
const env = { PROXX_FREE_MB: '0' }
let clip: string
let files = 0

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'))
  await rig.app.store()
})

function file(spec: unknown): string {
  const path = rig.path(`spec-${files++}.json`)
  writeFileSync(path, JSON.stringify(spec))
  return path
}

/** How commands reach it: on the store itself, or through a server. */
async function placed(kind: 'store' | 'server'): Promise<(...args: string[]) => ReturnType<typeof redress>> {
  if (kind === 'store') return (...args) => redress(['proxx', ...args, '--data', rig.home], { env })
  const server = await startServer({ app: rig.app, port: 0, auth: 'none', mounts: [proxxRoutes(rig.proxx)] })
  await server.ready
  onTestFinished(() => server.stop({ graceMs: 0 }))
  return (...args) => redress(['proxx', ...args, '--server', server.url], { env })
}

describe.each(['store', 'server'] as const)('proxx, by the %s', (kind) => {
  test('redress proxx validates, submits, delivers and verifies a job [P40]', async () => {
    const proxx = await placed(kind)
    const path = file(rig.spec([clip]))
    expect(await proxx('validate', path)).toEqual({
      code: 0,
      stdout: 'The spec is valid. It makes:\n  a_001.mov\n',
      stderr: '',
    })
    const submitted = await proxx('submit', path, '--json')
    expect(submitted).toMatchObject({ code: 0, stderr: '' })
    const { id, status } = JSON.parse(submitted.stdout)
    expect(status).toBe('pending')
    const { outputs } = await rig.ended(id)
    const output = String(outputs[0]?.path)
    expect(await proxx('verify', id)).toEqual({ code: 0, stdout: `${output}: good: as it was delivered\n`, stderr: '' })

    truncateSync(output, 0)
    const bad = await proxx('verify', id)
    expect(bad).toMatchObject({ code: 1, stdout: `${output}: BAD (size): It has zero bytes.\n` })
    expect(bad.stderr).toMatch(/^ARTIFACT_CORRUPT: /)
    expect(await proxx('retry', id, '--reason', 'again')).toMatchObject({ code: 4, stdout: '' })
    expect(await proxx('mark-failed', id, '--reason', 'no')).toMatchObject({ code: 4, stdout: '' })
  })

  test('redress proxx reports a refused spec, records it as failed and retries it with another spec [P5 P10 P41]', async () => {
    const proxx = await placed(kind)
    const path = file(rig.spec(['/nowhere/a.mov']))
    const report = await proxx('validate', path)
    expect(report).toMatchObject({ code: 2, stdout: '' })
    expect(report.stderr).toContain('INPUT_MISSING: sources.0: /nowhere/a.mov is not there')

    const submitted = await proxx('submit', path, '--json')
    expect(submitted.code).toBe(7)
    const job = JSON.parse(submitted.stdout)
    expect(job).toMatchObject({ status: 'failed', executionAttempted: false, error: { code: 'INPUT_MISSING' } })
    expect(JSON.parse(submitted.stderr).error).toMatchObject({ code: 'JOB_FAILED', jobId: job.id })

    expect(await proxx('retry', job.id)).toMatchObject({ code: 2, stderr: expect.stringMatching(/^REASON_REQUIRED/) })
    const again = await proxx('retry', job.id, '--reason', 'as it was', '--json')
    expect(again.code).toBe(7)
    expect(JSON.parse(again.stdout)).toMatchObject({ status: 'failed', retriedFrom: job.id })
    const mended = await proxx(
      'retry',
      job.id,
      '--spec',
      file(rig.spec([clip])),
      '--reason',
      'the right clip',
      '--json',
    )
    expect(mended.code).toBe(0)
    expect(JSON.parse(mended.stdout)).toMatchObject({ status: 'pending', retriedFrom: job.id })
    await rig.ended(JSON.parse(mended.stdout).id)
  })

  test('where there is nothing, it says so', async () => {
    const proxx = await placed(kind)
    expect(await proxx('orphans')).toEqual({ code: 0, stdout: '', stderr: 'There are no orphans.\n' })
    expect(await proxx('orphans', '--json')).toEqual({ code: 0, stdout: '[]\n', stderr: '' })
    const waited = await proxx('orphans', '--wait', '--timeout', '10ms')
    expect(waited).toMatchObject({ code: 5, stdout: '', stderr: expect.stringContaining('orphan within 10ms') })
    const nobody = '01900000-0000-7000-8000-000000000000'
    for (const command of ['verify', 'retry', 'mark-failed']) {
      const reason = command === 'verify' ? [] : ['--reason', 'why']
      expect(await proxx(command, nobody, ...reason), command).toMatchObject({ code: 3, stdout: '' })
    }
  })
})

test('a spec can be validated without a store, and no store is made', async () => {
  const data = join(folder(), 'none')
  const path = file(rig.spec([clip]))
  expect(await redress(['proxx', 'validate', path, '--data', data], { env })).toMatchObject({ code: 0 })
  expect(await redress(['proxx', 'submit', path, '--data', data], { env })).toMatchObject({ code: 3 })
})

test.each([
  [['submit', '/nowhere/spec.json'], 'Cannot read /nowhere/spec.json.'],
  [['submit', import.meta.filename], 'is not JSON'],
  [['orphans', '--timeout', '1s'], '--timeout is for --wait'],
  [['watch', '/nowhere', '--profile', 'proxy_h264_low'], '--profile and --output go together'],
  [['watch', '/nowhere', '--naming', '{index}'], '--naming is for media'],
])('wrong usage makes no job: %j', async (args, message) => {
  const { code, stderr } = await redress(['proxx', ...args, '--data', rig.home], { env })
  expect(code).toBe(2)
  expect(stderr).toContain(message)
})

test('a spec from an editor that marks the first byte is read as any other', () => {
  const path = rig.path('marked.json')
  writeFileSync(path, '\uFEFF{ "version": 1 }')
  expect(readSpecFile({ path: ['proxx', 'validate'] } as never, path)).toEqual({ version: 1 })
})

test('the watch command runs until it is stopped', async () => {
  const watched = folder()
  const args = ['proxx', 'watch', watched, '--settle', '100ms', '--json', '--data', rig.home]
  const watch = await running(args, { says: 'watching', env })
  writeFileSync(join(watched, 'pending', 'spec.json'), JSON.stringify(rig.spec(['/nowhere/a.mov'])))
  await until('it is done', () => watch.stdout().includes('"failed"'))
  watch.child.kill('SIGTERM')
  expect(await watch.ended).toBe(0)
  const events = watch
    .stdout()
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).event)
  expect(events).toEqual(['watching', 'submitted', 'failed'])
})

test('the watch works through a server, also after that was away for a while', async () => {
  const options = { app: rig.app, auth: 'none', mounts: [proxxRoutes(rig.proxx)] } as const
  const first = await startServer({ ...options, port: 0 })
  await first.ready
  const watched = folder()
  const drop = (name: string) =>
    writeFileSync(join(watched, 'pending', name), JSON.stringify(rig.spec(['/nowhere/a.mov'])))
  const args = ['proxx', 'watch', watched, '--settle', '100ms', '--json', '--server', first.url]
  const watch = await running(args, { says: 'watching', env })
  drop('one.json')
  await until('the first is done', () => readdirSync(join(watched, 'failed')).length === 1)

  await first.stop({ graceMs: 0 })
  drop('two.json')
  await until('it says that the server is away', () => watch.stdout().includes('"trouble"'))
  expect(readdirSync(join(watched, 'failed'))).toHaveLength(1)
  const again = await startServer({ ...options, port: Number(new URL(first.url).port) })
  await again.ready
  onTestFinished(() => again.stop({ graceMs: 0 }))
  await until('the second is done', () => readdirSync(join(watched, 'failed')).length === 2)
  watch.child.kill('SIGTERM')
  expect(await watch.ended).toBe(0)
  const names = readdirSync(join(watched, 'failed')).map((name) => name.slice(0, 'one.json'.length))
  expect(names.toSorted()).toEqual(['one.json', 'two.json'])
})

test("a command without the workers' settings keeps the stored policy and its notifications [P49 P55 P68]", async () => {
  const hook = { PROXX_WEBHOOK_URL: 'http://127.0.0.1:9/', PROXX_WEBHOOK_SECRET: `whsec_${btoa('x'.repeat(32))}` }
  const own = Rig.forTest({ env: { ...hook, PROXX_LEASE_SEC: '7' } })
  await own.app.store()
  const policyOf = async () => (await own.app.perform('types.list', {})).types.find(({ name }) => name === TYPE)?.policy
  const before = await policyOf()
  expect(before).toMatchObject({ lease: { ttlMs: 7_000 }, notify: { orphaned: ['proxx-webhook'] } })
  const refused = file(own.spec(['/nowhere/a.mov']))
  expect(await redress(['proxx', 'orphans', '--data', own.home], { env })).toMatchObject({ code: 0 })
  expect(await redress(['proxx', 'submit', refused, '--data', own.home], { env })).toMatchObject({ code: 7 })
  expect(await policyOf()).toEqual(before)
  const { notices } = await own.app.perform('notices.list', {})
  expect(notices).toMatchObject([{ kind: 'failed', channels: ['proxx-webhook'] }])
})

test('an orphan is listed in the watch folder and by the CLI, marked failed by name and retried [P53 P54 P55 P56]', async () => {
  const own = Rig.forTest({ env: { PROXX_LEASE_SEC: '3' } })
  const stop = own.path('stop')
  withFfmpeg(own.folder, `[ -e '${stop}' ] || [ $STAGE = verify ] || exec sleep 300`)
  await own.app.store()
  const [watched, output] = [folder(), own.output()]
  const at = ['--data', own.home]
  const media = ['--profile', 'proxy_h264_low', '--output', output, '--settle', '100ms']
  const watch = await running(['proxx', 'watch', watched, ...media, '--json', ...at], { says: 'watching', env })
  copyFileSync(clip, join(watched, 'pending', 'b.mov'))

  const options = ['--conditions=redress-source', '--disable-warning=ExperimentalWarning']
  const worker = spawn(process.execPath, [...options, join(ROOT, 'apps/proxx/test/worker.ts'), own.home, 'node-2'], {
    env: { ...process.env, ...env, PROXX_LEASE_SEC: '3' },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  onTestFinished(() => void worker.kill('SIGKILL'))
  const isBegun = async () =>
    (await own.app.jobs.list({ status: 'processing' })).jobs.find(({ startedAt }) => startedAt)
  const { id } = await until('the worker has begun', isBegun)
  const waiting = redress(['proxx', 'orphans', '--wait', ...at], { env })
  worker.kill('SIGKILL')
  const other = await own.worker()
  await other.enlist()
  await until('the watch has seen the orphan', async () => {
    await other.maintain()
    return watch.stdout().includes('"orphaned"')
  })

  expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringMatching(`${id} +node-2 `) })
  const ended = await redress(['jobs', 'wait', id, '--timeout', '10ms', ...at], { env })
  expect(ended, 'who waits for its end is told').toMatchObject({
    code: 5,
    stderr: expect.stringContaining(`Job ${id} is an orphan: its worker is lost, and it waits for a decision.`),
  })
  expect(await redress(['proxx', 'retry', id, '--reason', 'x', ...at], { env })).toMatchObject({ code: 4 })
  const mark = ['proxx', 'mark-failed', id, '--reason', 'node-2 was unplugged', ...at]
  expect(await redress(mark, { env })).toMatchObject({ code: 0, stdout: `Job ${id} is failed.\n` })
  expect((await own.job(id)).error?.detail).toContain('tess marked it as failed: node-2 was unplugged')
  await until('its result is there', () => readdirSync(join(watched, 'failed')).includes(`b.mov.${id}.json`))

  writeFileSync(stop, '')
  const retried = await redress(['proxx', 'retry', id, '--reason', 'node-3 is there', '--json', ...at], { env })
  expect(retried.code).toBe(0)
  const next = JSON.parse(retried.stdout)
  expect(await own.ended(next.id)).toMatchObject({ status: 'complete', retriedFrom: id })
  expect(await redress(['proxx', 'verify', next.id, ...at], { env })).toMatchObject({ code: 0 })
})
