import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { isAlive } from '../../../../packages/redress/test/programs/programs.ts'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { until } from '../../../../test/support/until.ts'
import { mediaLimits } from '../../../shared/src/media/limits.ts'
import { retryJob } from '../../src/operations.ts'
import { sourceTrouble, verdictOf } from '../../src/transcode/failing.ts'
import { inspectMedia } from '../../src/transcode/inspect.ts'
import type { ProxxJob } from '../../src/view.ts'
import { ffmpeg, makeClip, needsFfmpeg, programs, withFfmpeg, withFfprobe } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open({ env: { PROXX_CLIP_MINUTES: '1' } })
let clip: string
let broken: string

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'), { frames: 25 })
  broken = await makeClip(rig.path('broken.mov'), { frames: 25 })
  damage(broken)
})

/** Its head is whole, so that it looks well at submission; what is behind it is noise. */
function damage(path: string): void {
  const bytes = readFileSync(path)
  const from = bytes.indexOf('mdat') + 8
  bytes.fill(0xa5, from + 64, bytes.indexOf('moov') - 8)
  writeFileSync(path, bytes)
}

const outputOf = (job: ProxxJob): string => (job.spec as { output: { directory: string } }).output.directory

/** P20-P28: what every failure of an execution has. */
function expectExecution(job: ProxxJob, code: string, at: { clip: number; stage: string }): void {
  expect(job).toMatchObject({
    status: 'failed',
    executionAttempted: true,
    fingerprint: null,
    outputs: [],
    error: {
      type: 'execution_failed',
      class: 'execution',
      owner: 'worker',
      code,
      worker: 'node-1',
      check: null,
      ...at,
    },
  })
  expect(rig.failureLine(job.id)).toMatchObject({
    class: 'execution',
    owner: 'worker',
    code,
    worker_id: 'node-1',
    from: 'processing',
    context: expect.objectContaining({ clip: at.clip, clipStage: at.stage }),
  })
  expect(filesIn(outputOf(job))).not.toContain('.proxx.lock')
}

test('a damaged clip fails the job with stderr, exit code, clip and stage; later clips are not attempted [P20 P21 P24 P25 P26 P27 P46 P58]', async () => {
  const job = await rig.done(rig.spec([clip, broken, clip]))
  expectExecution(job, 'FFMPEG_FAILED', { clip: 2, stage: 'encode' })
  expect(job.error?.exitCode).toBeGreaterThan(0)
  expect(job.error?.stderrTail).toMatch(/invalid data/i)
  expect(job.error?.message).toMatch(
    /^ffmpeg could not make an output\. Clip 2: Invalid NAL unit size .*\. Error .*: Invalid data found when processing input$/,
  )
  expect(job.error?.detail).not.toContain('Conversion failed')
  const stderr = rig.stderr(job.id)
  expect(stderr).toMatch(
    /clip 1 of 3, probe[\s\S]*clip 1 of 3, encode[\s\S]*exit code 0[\s\S]*clip 2 of 3, encode[\s\S]*invalid data/i,
  )
  expect(stderr).not.toContain('clip 3 of 3')
  // Four of five are not a success: nothing has the name of a finished output.
  expect(filesIn(outputOf(job)).every((name) => name.endsWith(`.${job.id}.partial`))).toBe(true)
  expect(filesIn(outputOf(job))[0]).toMatch(/^a_001\.mov\./)
})

test('one damaged frame fails the whole job [P2 P20 P50]', async () => {
  const path = await makeClip(rig.path('scratched.mov'), { frames: 25, video: ['-c:v', 'mjpeg', '-q:v', '2'] })
  const bytes = readFileSync(path)
  const middle = Math.floor((bytes.indexOf('mdat') + bytes.lastIndexOf('moov')) / 2)
  bytes.fill(0xff, middle, middle + 400)
  writeFileSync(path, bytes)
  expectExecution(await rig.done(rig.spec([path])), 'FFMPEG_FAILED', { clip: 1, stage: 'encode' })
})

test('a retry produces all outputs again and leaves the partial outputs of the failed job in place [P23 P28 P29 P35]', async () => {
  const source = await makeClip(rig.path('mended.mov'), { frames: 25 })
  const good = readFileSync(source)
  const spec = rig.spec([clip, source])
  const submitted = await rig.submit(spec)
  damage(source)
  const failed = await rig.ended(submitted.id)
  expectExecution(failed, 'FFMPEG_FAILED', { clip: 2, stage: 'encode' })
  const left = filesIn(outputOf(failed))
  const before = left.map((name) => readFileSync(join(outputOf(failed), name)))
  writeFileSync(source, good)
  const retried = await rig.ended(
    (await retryJob(rig.proxx, failed.id, { actor: 'ann', reason: 'copied it again' })).id,
  )
  expect(retried).toMatchObject({ status: 'complete', retriedFrom: failed.id })
  expect(filesIn(outputOf(failed))).toEqual([...left, 'a_001.mov', 'mended_002.mov'].toSorted())
  expect(left.map((name) => readFileSync(join(outputOf(failed), name)))).toEqual(before)
  // P45: as if the first run had succeeded.
  const clean = await rig.done(rig.spec([clip, source]))
  expect(clean.fingerprint).toBe(retried.fingerprint)
})

describe('how ffmpeg can end', () => {
  const ends: [string, string, string, Record<string, unknown>][] = [
    // As it exits when it was stopped, but for another reason: a damaged clip is nobody's kill.
    ['exit code 255 without a signal', 'FFMPEG_FAILED', 'echo "Conversion failed!" >&2; exit 255', { exitCode: 255 }],
    ['an exit code', 'FFMPEG_FAILED', 'echo boom >&2; exit 3', { exitCode: 3, stderrTail: 'boom\n' }],
    ['SIGSEGV', 'FFMPEG_CRASHED', 'kill -SEGV $$', { signal: 'SIGSEGV', exitCode: null }],
    ['SIGABRT, told by a shell', 'FFMPEG_CRASHED', 'exit 134', { signal: null, exitCode: 134 }],
    ['a used-up quota', 'DISK_FULL', 'echo "out.mov: Disk quota exceeded" >&2; exit 134', { exitCode: 134 }],
    [
      'a source that its disk no longer gives',
      'INPUT_UNREADABLE',
      'echo "[in#0] [error] Error during demuxing: Input/output error" >&2; exit 251',
      {
        exitCode: 251,
        message: expect.stringMatching(/Clip 1 \(a\.mov\): Error during demuxing: Input\/output error$/),
      },
    ],
    ['SIGKILL in the middle', 'FFMPEG_KILLED', '"$FFMPEG" "$@"; kill -9 $$', { signal: 'SIGKILL', exitCode: null }],
    // It catches the signal, closes its file and leaves one that plays.
    [
      'SIGTERM in the middle',
      'FFMPEG_KILLED',
      '"$FFMPEG" -re "$@" & pid=$!; while [ ! -s "$OUT" ]; do sleep 0.02; done; kill -TERM $pid; wait $pid; exit $?',
      { exitCode: 255 },
    ],
    ['no output though all is well', 'OUTPUT_MISSING', 'exit 0', { exitCode: 0 }],
    ['a full disk', 'DISK_FULL', 'exit 228', { exitCode: 228 }],
  ]
  test.each(ends)(
    'ffmpeg fails the job with its exit code: %s is %s [P20 P22 P25]',
    async (_what, code, script, facts) => {
      withFfmpeg(rig.folder, `if [ $STAGE = encode ]; then ${script}; fi`)
      const job = await rig.done(rig.spec([clip]))
      expectExecution(job, code, { clip: 1, stage: 'encode' })
      expect(job.error).toMatchObject(facts)
    },
  )

  test('an ffmpeg run that times out is killed with its children and not retried [P20 P38]', async () => {
    withFfmpeg(rig.folder, 'if [ $STAGE = encode ]; then sleep 300 & echo $! > "$OUT"; wait; fi')
    const slow = Rig.forTest()
    slow.proxx.settings.clipMs = 300
    const job = await slow.done(slow.spec([clip]))
    expect(job.error).toMatchObject({
      code: 'FFMPEG_TIMEOUT',
      class: 'execution',
      exitCode: null,
      clip: 1,
      stage: 'encode',
    })
    const [partial = ''] = filesIn(outputOf(job))
    const child = Number(readFileSync(join(outputOf(job), partial), 'utf8'))
    expect(isAlive(child)).toBe(false)
  })
})

test('a full disk is an execution failure and the partial output stays [P20 P23]', async (context) => {
  const disk = smallDisk(context, '3m')
  const source = await makeClip(rig.path('noisy.mov'), {
    size: '320x240',
    frames: 25,
    filter: 'noise=alls=80:allf=t',
    video: ['-c:v', 'libx264', '-preset', 'ultrafast', '-qp', '20'],
  })
  const spec = rig.spec([source], { profile: 'proxy_prores_lt', output: { directory: disk.folder, naming: 'x' } })
  const submitted = await rig.submit(spec)
  disk.fill({ butBytes: 200_000 })
  const job = await rig.ended(submitted.id)
  expect(job.error).toMatchObject({ code: 'DISK_FULL', class: 'execution', clip: 1, stage: 'encode' })
  expect(filesIn(disk.folder)).toEqual(['ballast', `x.mov.${job.id}.partial`])
})

test('an output directory that is removed during an encode is named in the failure [P20]', async () => {
  const spec = rig.spec([clip, clip])
  withFfmpeg(rig.folder, `case "$OUT" in *_002*) rm -r '${spec.output.directory}' ;; esac`)
  const job = await rig.done(spec)
  expect(job.error).toMatchObject({ code: 'OUTPUT_NOT_WRITABLE', class: 'execution', clip: 2 })
  expect(rig.log.lines).toContainEqual(
    expect.objectContaining({ fields: expect.objectContaining({ event: 'lock_gone', job_id: job.id }) }),
  )
})

test('a source that disappears or changes before its turn is reported as such', async () => {
  const source = await makeClip(rig.path('short-lived.mov'))
  const gone = await rig.submit(rig.spec([clip, source]))
  rmSync(source)
  expectExecution(await rig.ended(gone.id), 'INPUT_MISSING', { clip: 2, stage: 'probe' })
  await makeClip(source)
  const another = await rig.submit(rig.spec([clip, source]))
  writeFileSync(source, 'a text by now')
  expectExecution(await rig.ended(another.id), 'INPUT_UNREADABLE', { clip: 2, stage: 'probe' })
})

test.each([
  ['removed', 'INPUT_MISSING', (path: string) => `rm '${path}'`],
  ['emptied', 'INPUT_UNREADABLE', (path: string) => `: > '${path}'`],
  ['replaced by a folder', 'INPUT_UNREADABLE', (path: string) => `rm '${path}'; mkdir '${path}'`],
])('a source that is %s during an encode fails as %s and is named [P20 P27]', async (_how, code, script) => {
  const source = await makeClip(rig.path(`fleeting-${code}-${Math.random()}.mov`))
  withFfmpeg(rig.folder, `if [ $STAGE = encode ]; then ${script(source)}; echo 'Conversion failed!' >&2; exit 1; fi`)
  const job = await rig.done(rig.spec([source]))
  expectExecution(job, code, { clip: 1, stage: 'encode' })
  expect(job.error?.message).toContain(`Clip 1 (${basename(source)})`)
  expect(job.error?.detail).toContain(source)
  expect(job.error?.detail).not.toContain('Conversion failed')
})

test('a source without read permission fails as unreadable, not as missing [P20]', async ({ skip }) => {
  if (process.geteuid?.() !== 0) return skip('only if this process may switch to another user')
  const folder = mkdtempSync(join(tmpdir(), 'redress-unreadable-'))
  chmodSync(folder, 0o755)
  const source = join(folder, 'a.mov')
  writeFileSync(source, 'x', { mode: 0o600 })
  const ended = await inspectMedia(source, programs, { limits: mediaLimits(), subject: 'source' }).catch(
    (error: unknown) => error,
  )
  expect(ended).toMatchObject({ code: 'SOURCE_UNSUPPORTED' })
  process.seteuid?.(65_534)
  try {
    const denied = await inspectMedia(source, programs, { limits: mediaLimits(), subject: 'source' }).catch(
      (error: unknown) => error,
    )
    expect(await verdictOf(denied, source, folder)).toMatchObject({ code: 'INPUT_UNREADABLE' })
    expect(await sourceTrouble(source)).toMatchObject({
      code: 'INPUT_UNREADABLE',
      detail: expect.stringContaining('EACCES'),
    })
  } finally {
    process.seteuid?.(0)
    rmSync(folder, { recursive: true })
  }
})

test('a link that leads out of the roots since the submission is not followed, to a source or to a directory', async () => {
  const root = rig.path('root')
  mkdirSync(join(root, 'out'), { recursive: true })
  await makeClip(join(root, 'in.mov'))
  const fenced = Rig.forTest({ env: { PROXX_ROOTS: root } })
  const lead = (name: string, to: string) => {
    rmSync(join(root, name), { force: true })
    symlinkSync(to, join(root, name))
  }
  lead('link.mov', join(root, 'in.mov'))
  lead('link', join(root, 'out'))
  const output = (directory: string, naming: string) => ({ output: { directory: join(root, directory), naming } })
  const source = await fenced.submit(fenced.spec([join(root, 'link.mov')], output('out', 'x')))
  const directory = await fenced.submit(fenced.spec([join(root, 'in.mov')], output('link', 'y')))
  const outside = fenced.output()
  lead('link.mov', clip)
  lead('link', outside)
  const refused = (kind: string) => ({ code: 'PATH_NOT_ALLOWED', class: kind })
  expect((await fenced.ended(source.id)).error).toMatchObject(refused('execution'))
  expect((await fenced.ended(directory.id)).error).toMatchObject(refused('dispatch'))
  expect(filesIn(outside)).toEqual([])
})

test('a killed ffprobe fails the job at its clip and stage and does not blame the source [P20 P26]', async () => {
  const { id } = await rig.submit(rig.spec([clip]))
  withFfprobe(rig.folder, 'kill -9 $$')
  const job = await rig.ended(id)
  expectExecution(job, 'FFMPEG_KILLED', { clip: 1, stage: 'probe' })
  expect(job.error?.signal).toBe('SIGKILL')
})

test('existing files and symlinks at the output path are neither used nor overwritten [P29]', async () => {
  const precious = rig.path('precious')
  writeFileSync(precious, 'of somebody else')
  const spec = rig.spec([clip])
  const { id } = await rig.submit(spec)
  symlinkSync(precious, join(spec.output.directory, `a_001.mov.${id}.partial`))
  expectExecution(await rig.ended(id), 'OUTPUT_EXISTS', { clip: 1, stage: 'encode' })
  expect(readFileSync(precious, 'utf8')).toBe('of somebody else')
})

test('an output that another program makes meanwhile is never overwritten', async () => {
  const spec = rig.spec([clip, clip])
  const other = join(spec.output.directory, 'a_002.mov')
  withFfmpeg(rig.folder, `case "$OUT" in *_001*) echo precious > '${other}' ;; esac`)
  const job = await rig.done(spec)
  expectExecution(job, 'OUTPUT_EXISTS', { clip: 2, stage: 'encode' })
  expect(readFileSync(other, 'utf8')).toBe('precious\n')
})

test('a worker that shuts down fails its job, stops ffmpeg and releases the lock [P52 P64]', async () => {
  const stopping = Rig.forTest()
  withFfmpeg(stopping.folder, 'if [ $STAGE = encode ]; then echo x > "$OUT"; exec sleep 300; fi')
  const { id, spec } = await stopping.submit(stopping.spec([clip]))
  const { directory } = (spec as { output: { directory: string } }).output
  const worker = await stopping.worker()
  await until('it encodes', async () => {
    await worker.tick()
    return filesIn(directory).some((name) => name.endsWith('.partial'))
  })
  await worker.stop({ graceMs: 0 })
  const job = await stopping.job(id)
  expect(job.error).toMatchObject({ code: 'SHUTDOWN', class: 'execution', owner: 'worker', clip: 1, stage: 'encode' })
  await until('the lock is let go', () => !existsSync(join(directory, '.proxx.lock')))
})

test('a job whose outcome cannot be logged does not complete [P67]', async () => {
  const unlogged = Rig.forTest()
  const { id } = await unlogged.submit(unlogged.spec([clip]))
  const folder = join(unlogged.proxx.settings.jobs, id)
  // Where the log goes there is a folder.
  rmSync(join(folder, 'stderr.log'), { force: true })
  mkdirSync(join(folder, 'stderr.log'))
  const job = await unlogged.ended(id)
  expect(job.error).toMatchObject({ code: 'LOG_FAILED', class: 'execution' })
  expect(filesIn(outputOf(job))).toEqual([])
})

test('the copy has its final name, and no other file is left', async () => {
  const spec = rig.spec([clip])
  const job = await rig.done(spec)
  expect(job.outputs.map(({ path }) => basename(path))).toEqual(['a_001.mov'])
  expect(filesIn(spec.output.directory)).toEqual(['a_001.mov'])
  expect(await ffmpeg(['-i', String(job.outputs[0]?.path), '-f', 'null', '-'])).toBe('')
  await until('its file says so, too', () => rig.file(job.id).status === 'complete')
  expect(rig.file(job.id)).toEqual(await rig.job(job.id))
})
