import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Client } from '../../../../test/support/apps/client.ts'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { retryJob, submitSpec, validateSpec } from '../../src/operations.ts'
import { makeClip, needsFfmpeg } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()
let clip: string
let people: Awaited<ReturnType<Rig['serve']>>

beforeAll(async () => {
  await makeClip(rig.path('tiny.mkv'), { filter: 'crop=2:2', frames: 1, video: ['-c:v', 'ffv1'] })
  clip = await makeClip(rig.path('a.mov'), { sound: 1 })
  writeFileSync(rig.path('text.mov'), 'not a video at all')
  people = await rig.serve()
})

const wrongs: [string, string, (rig: Rig) => unknown][] = [
  ['SPEC_INVALID', 'is not an object', () => 'transcode this'],
  ['SPEC_INVALID', 'has a field that nobody knows', () => rig.spec([clip], { priority: 'high' })],
  ['SPEC_INVALID', 'is of another version', () => rig.spec([clip], { version: 2 })],
  ['SPEC_INVALID', 'has no sources', () => rig.spec([])],
  ['SPEC_INVALID', 'has a source that is no absolute path', () => rig.spec(['a.mov'])],
  [
    'SPEC_INVALID',
    'would give two outputs one name',
    () => rig.spec([clip, clip], { output: { directory: rig.output(), naming: '{source_name}' } }),
  ],
  ['SPEC_INVALID', 'wants a script where none may be run', () => rig.spec([clip], { verify: { script: 'judge' } })],
  ['PROFILE_UNKNOWN', 'names no profile', () => rig.spec([clip], { profile: 'proxy_h265' })],
  ['INPUT_MISSING', 'has a source that is not there', () => rig.spec([clip, rig.path('gone.mov')])],
  ['INPUT_UNREADABLE', 'has a source that is no video', () => rig.spec([rig.path('text.mov')])],
  ['INPUT_UNREADABLE', 'has a folder for a source', () => rig.spec([rig.output()])],
  ['INPUT_UNREADABLE', 'has a source too small for its fields to be joined', () => rig.spec([rig.path('tiny.mkv')])],
  [
    'OUTPUT_NOT_WRITABLE',
    'has an output directory that is not there',
    () => rig.spec([clip], { output: { directory: rig.path('nowhere'), naming: 'x' } }),
  ],
  [
    'OUTPUT_NOT_WRITABLE',
    'has a file for an output directory',
    () => rig.spec([clip], { output: { directory: clip, naming: 'x' } }),
  ],
]

test.each(wrongs)(
  '%s: a spec that %s is recorded as a failed job that was never executed [P3 P4 P5 P6 P7 P8 P9]',
  async (code, _what, given) => {
    const spec = given(rig) as { output?: { directory: string } }
    const job = await rig.submit(spec)
    expect(job).toMatchObject({
      status: 'failed',
      executionAttempted: false,
      startedAt: null,
      worker: null,
      spec,
      fingerprint: null,
      error: {
        type: 'pre_dispatch_failed',
        class: 'pre_dispatch',
        owner: 'submission',
        code,
        exitCode: null,
        clip: null,
      },
    })
    expect(job.error?.message.length).toBeGreaterThan(20)
    expect(job.error?.problems).not.toEqual([])
    expect(rig.file(job.id)).toEqual(job)
    expect(rig.failureLine(job.id)).toMatchObject({
      class: 'pre_dispatch',
      owner: 'submission',
      code,
      worker_id: null,
      from: 'pending',
      to: 'failed',
    })
    // No artifact of an execution: nothing in the output directory, and no log of a program.
    const directory = spec.output?.directory
    if (directory !== undefined && existsSync(directory) && directory !== clip) expect(filesIn(directory)).toEqual([])
    expect(existsSync(join(rig.proxx.settings.jobs, job.id, 'stderr.log'))).toBe(false)
    await (await rig.worker()).tick()
    expect(await rig.job(job.id)).toEqual(job)
  },
)

test('an output that exists already fails the submission and stays unchanged [P3]', async () => {
  const spec = rig.spec([clip], { output: { directory: rig.output(), naming: 'out' } })
  writeFileSync(join(spec.output.directory, 'out.mov'), 'precious')
  expect((await rig.submit(spec)).error).toMatchObject({ code: 'OUTPUT_EXISTS', class: 'pre_dispatch' })
  expect(filesIn(spec.output.directory)).toEqual(['out.mov'])
})

test('a submission is refused when the disk has less room than the estimate [P3]', async (context) => {
  const disk = smallDisk(context, '1m')
  const job = await rig.submit(rig.spec([clip], { output: { directory: disk.folder, naming: 'out' } }))
  expect(job.error).toMatchObject({ code: 'DISK_INSUFFICIENT', class: 'pre_dispatch' })
  expect(filesIn(disk.folder)).toEqual([])
})

test('everything that is wrong is said at once, and a validation says the same and records nothing', async () => {
  const spec = rig.spec([rig.path('gone.mov'), rig.path('text.mov')], {
    output: { directory: rig.path('nowhere'), naming: '{index}' },
  })
  const before = (await rig.app.jobs.list({ limit: 1_000 })).jobs.length
  const { problems } = await validateSpec(rig.proxx, spec)
  expect(problems.map(({ code, path }) => `${code} ${path}`)).toEqual([
    'INPUT_MISSING sources.0',
    'INPUT_UNREADABLE sources.1',
    'OUTPUT_NOT_WRITABLE output.directory',
  ])
  expect((await rig.app.jobs.list({ limit: 1_000 })).jobs).toHaveLength(before)
  expect((await rig.submit(spec)).error?.problems).toEqual(problems)
})

test('every mistake of a spec is in one answer: unknown fields, types, naming, profile, script, sources and directory', async () => {
  const taken = rig.output()
  writeFileSync(join(taken, 'taken.mov'), 'precious')
  const wrong: [object, string[]][] = [
    [
      {
        version: 2,
        sources: [rig.path('gone.mov'), 'relative.mov', 7, rig.path('text.mov')],
        profile: 'proxy_h265',
        output: { directory: rig.path('nowhere'), naming: 'same', mode: 'fast' },
        verify: { script: 'judge' },
        limits: { clipMinutes: 'long' },
        priority: 1,
        notes: '',
      },
      [
        'SPEC_INVALID version',
        'SPEC_INVALID sources.1',
        'SPEC_INVALID sources.2',
        'SPEC_INVALID output.mode',
        'SPEC_INVALID limits.clipMinutes',
        'SPEC_INVALID priority',
        'SPEC_INVALID notes',
        'SPEC_INVALID output.naming',
        'PROFILE_UNKNOWN profile',
        'SPEC_INVALID verify.script',
        'INPUT_MISSING sources.0',
        'INPUT_UNREADABLE sources.3',
        'OUTPUT_NOT_WRITABLE output.directory',
      ],
    ],
    [
      { ...rig.spec([clip]), output: { directory: taken, naming: 'taken' }, extra: true },
      ['SPEC_INVALID extra', 'OUTPUT_EXISTS sources.0'],
    ],
    [
      { ...rig.spec([clip, clip]), output: { directory: rig.path('nowhere'), naming: '{source_name}' }, profile: 5 },
      ['SPEC_INVALID profile', 'OUTPUT_NOT_WRITABLE output.directory'],
    ],
    [
      { ...rig.spec([clip, clip]), output: { directory: rig.path('nowhere'), naming: '{source_name}' }, version: 3 },
      ['SPEC_INVALID version', 'SPEC_INVALID sources.1', 'OUTPUT_NOT_WRITABLE output.directory'],
    ],
    [
      { output: { naming: '../x' } },
      ['version', 'sources', 'profile', 'output.directory', 'output.naming'].map((at) => `SPEC_INVALID ${at}`),
    ],
  ]
  const listed = (problems: unknown) =>
    (problems as { code: string; path: string }[]).map(({ code, path }) => `${code} ${path}`)
  for (const [spec, expected] of wrong) {
    const { problems } = await validateSpec(rig.proxx, spec)
    expect(listed(problems).toSorted()).toEqual(expected.toSorted())
    const job = await rig.submit(spec)
    expect(job.error).toMatchObject({ code: problems[0]?.code, problems })
    expect(rig.failureLine(job.id)).toMatchObject({ context: { problems } })
    const validated = (await people.operator.post('/proxx/validate', spec)).json
    expect(validated).toMatchObject({ valid: false, problems })
    const refused = (await people.operator.post('/proxx/jobs', spec)).json
    expect(refused.error.problems).toHaveLength(problems.length)
    expect(refused.job.error.problems).toEqual(problems)
  }
})

test('a valid spec is answered with its outputs', async () => {
  const report = await validateSpec(rig.proxx, rig.spec([clip, clip]))
  expect(report).toMatchObject({ problems: [], outputs: ['a_001.mov', 'a_002.mov'] })
  expect(report.estimateBytes).toBeGreaterThan(2 ** 20)
})

test('an operator retries a refused job as a new job with a corrected spec, and the original stays unchanged [P10 P44]', async () => {
  const spec = rig.spec([rig.path('gone.mov')])
  const failed = await rig.submit(spec)
  const before = [
    JSON.stringify(rig.file(failed.id)),
    JSON.stringify(rig.lines(failed.id)),
    (await rig.app.jobs.events(failed.id)).events,
  ]
  const retried = await retryJob(rig.proxx, failed.id, {
    actor: 'ann',
    reason: 'named the wrong file',
    spec: { ...spec, sources: [clip] },
  })
  expect(retried).toMatchObject({ retriedFrom: failed.id, error: null })
  expect(retried.id).not.toBe(failed.id)
  expect(await rig.ended(retried.id)).toMatchObject({ status: 'complete' })
  expect(rig.lines(retried.id)[0]).toMatchObject({ from: null, to: 'pending', retried_from: failed.id })
  const unedited = await retryJob(rig.proxx, failed.id, {
    actor: 'ann',
    reason: 'it may be there now',
    again: true,
  })
  expect(unedited).toMatchObject({
    status: 'failed',
    spec,
    error: { code: 'INPUT_MISSING' },
    executionAttempted: false,
  })
  expect([
    JSON.stringify(rig.file(failed.id)),
    JSON.stringify(rig.lines(failed.id)),
    (await rig.app.jobs.events(failed.id)).events,
  ]).toEqual(before)
})

test('with an id of one’s own, submitting twice makes one job', async () => {
  const id = rig.app.newId()
  const spec = rig.spec([clip])
  const [first, second] = [
    await submitSpec(rig.proxx, spec, { actor: 'ann' }, { id }),
    await submitSpec(rig.proxx, spec, { actor: 'ann' }, { id }),
  ]
  expect([first.isNew, second.isNew, second.job.id]).toEqual([true, false, id])
})

describe('names', () => {
  const naming = async (pattern: string, sources = [clip]) =>
    validateSpec(rig.proxx, rig.spec(sources, { output: { directory: rig.output(), naming: pattern } }))

  test.each([
    ['{index}', '001.mov'],
    ['{source_name}_{profile}', 'a_proxy_h264_low.mov'],
    ['final.MOV', 'final.MOV'],
    ['ünï {index}', 'ünï 001.mov'],
  ])('%s becomes %s', async (pattern, name) => {
    expect(await naming(pattern)).toMatchObject({ problems: [], outputs: [name] })
  })

  test.each([
    '{clip}',
    '../{index}',
    'a/b',
    'a\\b',
    '{index',
    '.hidden',
    'x'.repeat(201),
    'é'.repeat(120),
    'a\u0000b',
    '',
  ])('%j is refused', async (pattern) => {
    expect((await naming(pattern)).problems[0]).toMatchObject({ code: 'SPEC_INVALID' })
  })

  test('of several clips, a name must tell one from another, also on disks that do not tell A from a', async () => {
    expect((await naming('out', [clip, clip])).problems[0]?.message).toContain('{index} or {source_name}')
    const other = await makeClip(rig.path('A.mov'))
    expect((await naming('{source_name}', [clip, other])).problems[0]?.message).toContain(
      'as is the output of source 0',
    )
  })
})

describe('roots', () => {
  let inside: Rig
  let root: string

  beforeAll(async () => {
    root = rig.path('root')
    mkdirSync(join(root, 'out'), { recursive: true })
    await makeClip(join(root, 'in.mov'))
    inside = Rig.open({ env: { PROXX_ROOTS: `${root}:${rig.path('root2')}` } })
  })

  test('only files within the roots are read or written, also for operators', async () => {
    symlinkSync(clip, join(root, 'out-of-it.mov'))
    symlinkSync(rig.folder, join(root, 'up'))
    const spec = (source: string, directory = join(root, 'out')) =>
      inside.spec([source], { output: { directory, naming: 'x' } })
    const codes = async (given: object) =>
      (await validateSpec(inside.proxx, given, 'ann')).problems.map(({ code }) => code)
    expect(await codes(spec(join(root, 'in.mov')))).toEqual([])
    for (const outside of [clip, join(root, 'out-of-it.mov'), join(root, 'up/a.mov'), `${root}/../a.mov`]) {
      expect(await codes(spec(outside)), outside).toEqual(['PATH_NOT_ALLOWED'])
    }
    expect(await codes(spec(join(root, 'in.mov'), rig.output()))).toEqual(['PATH_NOT_ALLOWED'])
    expect(await codes(spec(join(root, 'in.mov'), join(root, 'up')))).toEqual(['PATH_NOT_ALLOWED'])
    // Nor does anybody learn what is outside by asking for what is not.
    for (const missing of ['/etc/nothing', join(root, 'up/nothing/at/all'), `${root}/../nothing`]) {
      expect(await codes(spec(missing)), missing).toEqual(['PATH_NOT_ALLOWED'])
      expect(await codes(spec(join(root, 'in.mov'), missing)), missing).toEqual(['PATH_NOT_ALLOWED'])
    }
    expect(await codes(spec(join(root, 'nothing/at/all')))).toEqual(['INPUT_MISSING'])
    expect(await codes(spec(join(root, 'in.mov'), join(root, 'nothing')))).toEqual(['OUTPUT_NOT_WRITABLE'])
  })

  test('without roots an owner cannot submit and does not learn which files exist', async () => {
    const { problems } = await validateSpec(rig.proxx, rig.spec(['/etc/shadow', '/nowhere']), 'ann')
    expect(problems.map(({ code }) => code)).toEqual(['PATH_NOT_ALLOWED'])
  })
})

describe('over HTTP', () => {
  const post = async (who: Client, path: string, body: object) => {
    const { status, json } = await who.post(path, body)
    return { status, json }
  }

  test('a refused submission answers with the code, the recorded job and what to do [P5 P9]', async () => {
    const { status, json } = await post(people.operator, '/proxx/jobs', rig.spec([rig.path('gone.mov')]))
    expect([status, json.error.code, json.error.jobId]).toEqual([422, 'INPUT_MISSING', json.job.id])
    expect(json.error.action).toContain('Nothing was run')
    expect(json.job).toMatchObject({ status: 'failed', executionAttempted: false })
    expect((await people.viewer.get(`/proxx/jobs/${json.job.id}`)).json).toEqual(json.job)
    expect((await people.viewer.get(`/proxx/jobs/${json.job.id}/job.json`)).json).toEqual(json.job)
    expect((await people.viewer.get(`/proxx/jobs/${json.job.id}/stderr`)).json.error.code).toBe('NOTHING_RUN')
    const whole = await people.viewer.get(`/proxx/jobs/${json.job.id}/job.json`)
    const end = await people.viewer.raw(`/proxx/jobs/${json.job.id}/job.json`, { range: 'bytes=-20' })
    expect([end.status, end.body.toString()]).toEqual([206, whole.text.slice(-20)])
  })

  test('each refusal has its status', async () => {
    const statusOf = async (spec: object) => (await post(people.operator, '/proxx/jobs', spec)).status
    expect(await statusOf({})).toBe(400)
    expect(await statusOf(rig.spec([clip], { profile: 'x' }))).toBe(400)
    expect(await statusOf(rig.spec([clip]))).toBe(201)
    expect((await post(people.operator, '/proxx/validate', rig.spec([clip]))).json).toMatchObject({ valid: true })
    expect((await post(people.operator, '/proxx/validate', {})).json).toMatchObject({ valid: false })
  })

  test('viewers and anonymous callers can neither submit nor validate [P40]', async () => {
    const spec = rig.spec([clip])
    expect((await post(people.viewer, '/proxx/jobs', spec)).status).toBe(403)
    expect((await post(people.viewer, '/proxx/validate', spec)).status).toBe(403)
    expect((await post(people.ann, '/proxx/jobs', spec)).json.error.code).toBe('PATH_NOT_ALLOWED')
  })

  test('an owner sees only their own jobs and no machine names [P49]', async () => {
    const { json } = await post(people.ann, '/proxx/jobs', rig.spec([clip]))
    expect(json.job.error).toMatchObject({ code: 'PATH_NOT_ALLOWED', detail: '' })
    const listed = (await people.ann.get('/proxx/jobs')).json.jobs
    expect(new Set(listed.map(({ owner }: { owner: string }) => owner))).toEqual(new Set(['ann']))
    const theirs = (await people.operator.get('/proxx/jobs?status=failed&limit=1')).json
    expect(theirs.jobs).toHaveLength(1)
    const { jobs } = (await people.operator.get('/proxx/jobs')).json
    const other = jobs.find(({ owner }: { owner: string | null }) => owner === null)
    expect((await people.ann.get(`/proxx/jobs/${other.id}`)).status).toBe(403)
    expect((await people.ann.get(`/proxx/jobs/${json.job.id}/stderr`)).status).toBe(403)
  })

  test('the schema and the profiles are published', async () => {
    const { json } = await people.viewer.get('/proxx/profiles')
    expect(json.profiles.map(({ name }: { name: string }) => name)).toContain('proxy_dnxhr_lb')
    const schema = await people.viewer.get('/proxx/spec.schema.json')
    expect(schema.headers.get('content-type')).toContain('application/schema+json')
    expect(JSON.parse(schema.text)).toMatchObject({
      additionalProperties: false,
      required: ['version', 'sources', 'profile', 'output'],
    })
  })

  test('no client can pass its own arguments to ffmpeg', async () => {
    const spec = rig.spec([clip])
    const input = {
      spec,
      profile: { name: 'proxy_h264_low', version: 1, sha256: 'x', arguments: ['-f', 'mpegts', '/etc/cron.d/x'] },
    }
    const { json } = await post(people.operator, '/api/jobs', { type: 'proxx.transcode', input })
    expect(json.job).toMatchObject({ status: 'failed', errorCode: 'PROFILE_UNKNOWN' })
  })
})

test('a script is a name in the folder of scripts, and nothing else', async () => {
  const scripts = rig.path('scripts')
  mkdirSync(scripts)
  writeFileSync(join(scripts, 'judge'), '#!/bin/sh\nexit 0\n')
  writeFileSync(join(scripts, 'notes.txt'), '')
  chmodSync(join(scripts, 'judge'), 0o755)
  chmodSync(join(scripts, 'notes.txt'), 0o644)
  const judging = Rig.forTest({ env: { PROXX_SCRIPTS: scripts } })
  const problems = async (script: string) =>
    (await validateSpec(judging.proxx, judging.spec([clip], { verify: { script } }))).problems
  expect(await problems('judge')).toEqual([])
  for (const script of ['../judge', '/bin/sh', 'nobody', 'notes.txt', '.', ''])
    expect(await problems(script), script).toHaveLength(1)
})
