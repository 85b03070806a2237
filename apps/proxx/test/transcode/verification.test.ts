import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { runFfmpeg } from '../../../shared/src/media/ffmpeg.ts'
import { mediaLimits } from '../../../shared/src/media/limits.ts'
import { findPrograms } from '../../../shared/src/media/programs.ts'
import { retryJob, verifyOutputs } from '../../src/operations.ts'
import { PROFILES, type ResolvedProfile } from '../../src/spec/profiles.ts'
import { verdictOf } from '../../src/transcode/failing.ts'
import { inspectMedia, shownFrames } from '../../src/transcode/inspect.ts'
import { verifyOutput } from '../../src/transcode/verify.ts'
import { ffmpeg, makeClip, needsFfmpeg, programs, withFfmpeg, withFfprobe } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()
let clip: string

beforeAll(async () => {
  clip = await makeClip(rig.path('a.mov'), { frames: 25, sound: 1 })
})

/** The real ffmpeg has made the file; then this happens to it, and the program still says that all is well. */
const spoiling = (script: string) =>
  withFfmpeg(rig.folder, `if [ $STAGE = encode ]; then "$FFMPEG" "$@" || exit $?; ${script}; exit 0; fi`)

/** Another encode under the same name. */
const instead = (args: string) => `"$FFMPEG" -v error -y -i '${rig.path('a.mov')}' ${args} -f mov "$OUT"`

const LOW = '-c:v libx264 -preset veryfast -profile:v main -pix_fmt yuv420p -c:a pcm_s16le'

const wrongs: [string, string, () => string][] = [
  ['exists', 'is gone', () => 'mv "$OUT" "$OUT.elsewhere"; mkdir "$OUT"'],
  ['size', 'has zero bytes', () => ': > "$OUT"'],
  ['codec', 'has another codec', () => instead('-c:v mpeg4 -c:a pcm_s16le')],
  ['codec', 'has sound of another codec', () => instead(`${LOW} -c:a pcm_s24le`)],
  ['profile', 'has another profile of the codec', () => instead(`${LOW} -profile:v baseline`)],
  ['profile', 'has another pixel format', () => instead(`${LOW} -pix_fmt yuvj420p`)],
  ['profile', 'has another size', () => instead(`${LOW} -s 32x24`)],
  ['profile', 'has lost its sound', () => instead(`${LOW} -an`)],
  // What SIGTERM leaves behind: it plays, it is whole, it is only shorter.
  ['duration', 'is a playable short file', () => instead(`${LOW} -t 0.5`)],
  [
    'frames',
    'lacks frames in the middle',
    () => instead(`${LOW} -vf "select='not(between(n,8,9))'" -fps_mode passthrough`),
  ],
  ['decode', 'is truncated in its data', () => 'head -c 300 "$OUT" > "$OUT.x"; mv "$OUT.x" "$OUT"'],
  [
    'decode',
    'is damaged in its data',
    () =>
      `'${process.execPath}' -e "const fs=require('fs'),f=process.argv[1],b=fs.readFileSync(f),i=b.indexOf('mdat');b.fill(255,i+300,i+1200);fs.writeFileSync(f,b)" "$OUT"`,
  ],
]

test.each(wrongs)(
  '%s: an output that %s fails verification after a complete encode and is preserved [P30 P31 P32 P33 P34 P47]',
  async (check, _what, script) => {
    spoiling(script())
    const spec = rig.spec([clip])
    const job = await rig.done(spec)
    expect(job).toMatchObject({
      status: 'failed',
      executionAttempted: true,
      fingerprint: null,
      outputs: [],
      error: {
        type: 'verification_failed',
        class: 'verification',
        owner: 'worker',
        code: `VERIFY_${check.toUpperCase()}`,
        check,
        clip: 1,
        stage: 'verify',
      },
    })
    expect(rig.failureLine(job.id)).toMatchObject({
      class: 'verification',
      owner: 'worker',
      worker_id: 'node-1',
      from: 'processing',
    })
    expect(rig.stderr(job.id)).toContain(`failed, verification_failed (${check})`)
    // Kept for whoever looks into it, under the name of a part.
    expect(filesIn(spec.output.directory)).toContain(`a_001.mov.${job.id}.partial`)
    expect(filesIn(spec.output.directory)).not.toContain('a_001.mov')
  },
)

test('a job reports exactly what the frozen exit-code and verification modules return [P62 P63]', async () => {
  spoiling(instead('-c:v mpeg4 -c:a pcm_s16le'))
  const spec = rig.spec([clip])
  const job = await rig.done(spec)
  const path = join(spec.output.directory, `a_001.mov.${job.id}.partial`)
  const limits = mediaLimits()
  const profile = PROFILES.get('proxy_h264_low') as ResolvedProfile
  const expected = {
    profile,
    size: { width: 64, height: 48 },
    lengths: [{ of: 'pictures' as const, ms: 1_000 }],
    sourceFrames: 25,
    frames: 25,
    fps: 25,
    audioTracks: 1,
  }
  const failure = await verifyOutput(path, expected, { programs, run: { limits, subject: 'output' } }).catch(
    (error: unknown) => error,
  )
  expect(failure).toMatchObject({ check: job.error?.check, code: job.error?.code })
  expect(job.error?.detail).toContain((failure as Error).message)

  withFfmpeg(rig.folder, 'echo boom >&2; exit 3')
  const { ffmpeg } = await findPrograms()
  const ended = await runFfmpeg(ffmpeg, [], { limits, subject: 'output' }).catch((error: unknown) => error)
  const verdict = await verdictOf(ended, clip, spec.output.directory)
  const other = await rig.done(rig.spec([clip]))
  expect(other.error).toMatchObject({ code: verdict?.code, exitCode: 3 })
  expect(other.error?.detail).toContain(String(verdict?.detail))
})

test('a truncated source fails verification [P30]', async () => {
  const whole = readFileSync(
    await makeClip(rig.path('fast.mov'), {
      frames: 50,
      video: ['-c:v', 'libx264', '-preset', 'ultrafast', '-movflags', '+faststart'],
    }),
  )
  writeFileSync(rig.path('cut.mov'), whole.subarray(0, Math.floor(whole.length * 0.6)))
  const job = await rig.done(rig.spec([rig.path('cut.mov')]))
  expect(job.status).toBe('failed')
  expect(['VERIFY_DURATION', 'VERIFY_FRAMES', 'FFMPEG_FAILED']).toContain(job.error?.code)
})

test('a dropped frame fails verification even when ffmpeg reports its own count [P30]', async () => {
  withFfmpeg(rig.folder, 'if [ $STAGE = encode ]; then exec "$FFMPEG" -t 0.96 "$@"; fi')
  const { error } = await rig.done(rig.spec([clip]))
  expect(error).toMatchObject({
    check: 'frames',
    detail: expect.stringContaining('It has 24 frames, and its source 25.'),
  })
})

test('a frame hidden by an edit list is not missed; a frame lost by a cut is [P30]', async () => {
  const varying = ['-fps_mode', 'passthrough', '-enc_time_base', '1/1000', '-c:v', 'mjpeg', '-movflags', '+faststart']
  const filter = 'settb=1/1000,setpts=40*N+7*N*N'
  const path = await makeClip(rig.path('hiding.mov'), { filter, video: varying })
  const job = await rig.done(rig.spec([path]))
  // Its last frame takes no time, and is behind the end of the list.
  expect([job.error, job.outputs[0]?.frames]).toEqual([null, 5])

  const whole = readFileSync(path)
  writeFileSync(rig.path('hiding-cut.mov'), whole.subarray(0, Math.floor(whole.length * 0.6)))
  const run = { limits: mediaLimits(), subject: 'source' as const }
  const cut = await inspectMedia(rig.path('hiding-cut.mov'), programs, run)
  expect([cut.frames, await shownFrames(cut, programs, run)]).toEqual([6, 6])

  withFfprobe(rig.folder, 'case "$*" in *packet=flags*) kill -9 $$ ;; esac')
  const uncounted = await rig.done(rig.spec([path]))
  expect(uncounted.error).toMatchObject({ check: 'frames', type: 'verification_failed', signal: 'SIGKILL' })
})

describe('the frames of a source are those that it decodes to', () => {
  const gaps = "select='lt(n,20)+not(mod(n,25))+eq(n,99)'"
  const passing = ['-fps_mode', 'passthrough']
  const sources: [string, number, () => Promise<string>][] = [
    [
      'an AVI with gaps, whose header counts them as frames',
      24,
      () => makeClip(rig.path('gaps.avi'), { frames: 100, filter: gaps, video: [...passing, '-c:v', 'mpeg4'] }),
    ],
    [
      'a Matroska file with a variable rate, whose header counts nothing',
      24,
      () => makeClip(rig.path('gaps.mkv'), { frames: 100, filter: gaps, video: [...passing, '-c:v', 'mpeg4'] }),
    ],
    [
      'a recording in MPEG-TS with two fields in two packets',
      25,
      () =>
        makeClip(rig.path('fields.ts'), {
          frames: 25,
          filter: 'setfield=tff',
          video: ['-c:v', 'mpeg2video', '-flags', '+ilme+ildct', '-top', '1'],
        }),
    ],
    [
      'a file whose header counts fewer',
      25,
      async () => {
        const path = await makeClip(rig.path('fewer.avi'), { frames: 25, video: ['-c:v', 'mpeg4'] })
        const bytes = readFileSync(path)
        // How many frames there are: in the main header, and in the header of the stream.
        bytes.writeUInt32LE(24, bytes.indexOf('avih') + 24)
        bytes.writeUInt32LE(24, bytes.indexOf('strh') + 40)
        writeFileSync(path, bytes)
        return path
      },
    ],
    [
      'a trimmed file, whose edit list hides most of it',
      7,
      async () => {
        const whole = await makeClip(rig.path('long.mp4'), { frames: 50 })
        await ffmpeg(['-ss', '1.7', '-i', whole, '-c', 'copy', rig.path('trimmed.mp4')])
        return rig.path('trimmed.mp4')
      },
    ],
    [
      'a file with a cover picture before its video',
      25,
      async () => {
        await ffmpeg(['-i', clip, '-frames:v', '1', '-update', '1', rig.path('cover.png')])
        const maps = ['-map', '1', '-map', '0:v', '-c', 'copy', '-disposition:v:0', 'attached_pic']
        await ffmpeg(['-i', clip, '-i', rig.path('cover.png'), ...maps, rig.path('cover.mp4')])
        return rig.path('cover.mp4')
      },
    ],
  ]
  test.each(sources)('%s passes the frame count [P30]', async (_what, frames, make) => {
    const job = await rig.done(rig.spec([await make()]))
    expect([job.error, job.outputs.map((output) => output.frames)]).toEqual([null, [frames]])
  })

  test.each(['gaps.avi', 'gaps.mkv'])(
    'an encode that loses the last frame of %s fails the frame count [P30]',
    async (name) => {
      const source = await makeClip(rig.path(name), {
        frames: 100,
        filter: gaps,
        video: [...passing, '-c:v', 'mpeg4'],
      })
      withFfmpeg(rig.folder, 'if [ $STAGE = encode ]; then exec "$FFMPEG" -t 3.9 "$@"; fi')
      const { error } = await rig.done(rig.spec([source]))
      expect(error).toMatchObject({ type: 'verification_failed', check: expect.stringMatching(/^(frames|duration)$/) })
    },
  )

  test('an encode that loses a frame of a source without a frame count fails verification [P30]', async () => {
    const source = rig.path('uncounted.mkv')
    await ffmpeg(['-i', clip, '-map', '0:v', '-c', 'copy', source])
    withFfmpeg(rig.folder, 'if [ $STAGE = encode ]; then exec "$FFMPEG" -t 0.96 "$@"; fi')
    const { error } = await rig.done(rig.spec([source]))
    expect(error).toMatchObject({
      check: 'frames',
      detail: expect.stringContaining('It has 24 frames, and its source 25.'),
    })
  })

  test('a source that lost its last frame is reported as truncated, not as a wrong header [P30]', async () => {
    const path = await makeClip(rig.path('whole-head.mov'), {
      frames: 25,
      video: ['-c:v', 'mjpeg', '-movflags', '+faststart'],
    })
    const run = { limits: mediaLimits(), subject: 'source' as const }
    const { stdout } = await promisify(execFile)(programs.ffprobe.path, [
      ...['-v', 'error', '-show_entries', 'packet=pos', '-of', 'csv=p=0', path],
    ])
    const lastAt = Math.max(...stdout.trim().split('\n').map(Number))
    writeFileSync(path, readFileSync(path).subarray(0, lastAt))
    expect((await inspectMedia(path, programs, run)).frames).toBe(25)
    expect((await rig.done(rig.spec([path]))).error).toMatchObject({ check: 'frames' })
  })

  test('a source that disappears before its frames are counted is named [P30]', async () => {
    const source = await makeClip(rig.path('goes.mkv'), { frames: 25 })
    withFfmpeg(rig.folder, `if [ $STAGE = encode ]; then "$FFMPEG" "$@" || exit $?; rm '${source}'; exit 0; fi`)
    const { error } = await rig.done(rig.spec([source]))
    expect(error).toMatchObject({ type: 'verification_failed', code: 'INPUT_MISSING', check: 'frames', clip: 1 })
    expect(error?.message).toContain('goes.mkv')
  })
})

test('a Matroska clip with a late start or only an audio duration passes; a truncated one fails [P2 P30]', async () => {
  const late = rig.path('late.mkv')
  await ffmpeg(['-i', clip, '-map', '0', '-c', 'copy', '-output_ts_offset', '5', late])
  const longer = rig.path('longer.mkv')
  await ffmpeg(['-i', clip, '-f', 'lavfi', '-i', 'sine=d=3', '-map', '0:v', '-map', '1', '-c:v', 'copy', longer])
  writeFileSync(longer, readFileSync(longer, 'latin1').replaceAll('DURATION', 'SOMETAG_'), 'latin1')
  const job = await rig.done(rig.spec([late, longer]))
  expect([job.error, job.outputs.map(({ frames }) => frames)]).toEqual([null, [25, 25]])
  for (const path of [late, longer]) {
    const whole = readFileSync(path)
    writeFileSync(path, whole.subarray(0, Math.floor(whole.length * 0.6)))
    expect((await rig.done(rig.spec([path]))).error).toMatchObject({ check: 'duration' })
  }
})

test('a fingerprint that cannot be calculated fails verification [P30]', async () => {
  withFfmpeg(rig.folder, 'if [ $STAGE = verify ]; then "$FFMPEG" "$@" | grep -v SHA256; exit 0; fi')
  expect((await rig.done(rig.spec([clip]))).error).toMatchObject({ check: 'fingerprint', type: 'verification_failed' })
})

test.each([
  ['SIGKILL', 'VERIFY_KILLED', 'kill -9 $$'],
  ['SIGSEGV', 'VERIFY_KILLED', 'kill -SEGV $$'],
  ['SIGXCPU', 'VERIFY_TIMEOUT', 'kill -XCPU $$'],
])(
  'a verification program that ends by %s does not blame the output: %s [P30 P34 P38]',
  async (signal, code, script) => {
    withFfmpeg(rig.folder, `if [ $STAGE = verify ]; then ${script}; fi`)
    const job = await rig.done(rig.spec([clip]))
    expect(job.error).toMatchObject({ code, check: 'decode', type: 'verification_failed', signal, exitCode: null })
    expect(rig.failureLine(job.id)).toMatchObject({ code, class: 'verification' })
  },
)

test('a failed verification names the check and what it found [P34]', async () => {
  withFfmpeg(
    rig.folder,
    'if [ $STAGE = verify ]; then echo "[h264 @ 0x1] [error] no frame!" >&2; echo "Conversion failed!" >&2; exit 69; fi',
  )
  const job = await rig.done(rig.spec([clip]))
  expect(job.error).toMatchObject({
    code: 'VERIFY_DECODE',
    message: expect.stringMatching(/Check: decode\. no frame!$/),
  })
})

test('when the last output fails verification, none of the outputs is delivered [P46 P47 P58]', async () => {
  spoiling('case "$OUT" in *_003*) : > "$OUT" ;; esac')
  const spec = rig.spec([clip, clip, clip])
  const job = await rig.done(spec)
  expect(job.error).toMatchObject({ check: 'size', clip: 3 })
  expect(filesIn(spec.output.directory)).toHaveLength(3)
  expect(filesIn(spec.output.directory).every((name) => name.endsWith('.partial'))).toBe(true)
})

test('a retry makes new outputs and does not verify the old ones [P35]', async () => {
  const spec = rig.spec([clip])
  withFfmpeg(
    rig.folder,
    `if [ $STAGE = encode ] && [ ! -e '${rig.path('spoilt')}' ]; then touch '${rig.path('spoilt')}'; : > "$OUT"; exit 0; fi`,
  )
  const failed = await rig.done(spec)
  expect(failed.error).toMatchObject({ check: 'size' })
  const retried = await rig.ended((await retryJob(rig.proxx, failed.id, { actor: 'ann', reason: 'again' })).id)
  expect(retried).toMatchObject({ status: 'complete', retriedFrom: failed.id })
  expect(filesIn(spec.output.directory)).toEqual(['a_001.mov', `a_001.mov.${failed.id}.partial`])
})

test('an output whose name is taken at the last moment is not delivered, and neither are the others', async () => {
  const spec = rig.spec([clip, clip])
  const taken = join(spec.output.directory, 'a_002.mov')
  withFfmpeg(rig.folder, `if [ $STAGE = verify ]; then echo precious > '${taken}'; fi`)
  const job = await rig.done(spec)
  expect(job.error).toMatchObject({ check: 'delivery', clip: 2, stage: 'deliver', type: 'verification_failed' })
  expect(readFileSync(taken, 'utf8')).toBe('precious\n')
  expect(filesIn(spec.output.directory)).toEqual(
    ['a_001.mov', 'a_002.mov'].flatMap((name, at) =>
      at === 0 ? [`${name}.${job.id}.partial`] : [name, `${name}.${job.id}.partial`],
    ),
  )
})

describe('the verification script', () => {
  const scripts = rig.path('scripts')
  const judging = Rig.open({ env: { PROXX_SCRIPTS: scripts } })
  const script = (name: string, text: string) => {
    mkdirSync(scripts, { recursive: true })
    writeFileSync(join(scripts, name), `#!/bin/sh\n${text}\n`)
    chmodSync(join(scripts, name), 0o755)
    return name
  }

  test('the verification script gets the output, source and job, and exit 0 lets the job complete [P30]', async () => {
    const noted = rig.path('noted')
    script('note', `echo "$PROXX_JOB $PROXX_PROFILE $PROXX_CLIP $2" > '${noted}'; test -s "$1"`)
    const job = await judging.done(judging.spec([clip], { verify: { script: 'note' } }))
    expect(job.status).toBe('complete')
    expect(readFileSync(noted, 'utf8')).toBe(`${job.id} proxy_h264_low 1 ${clip}\n`)
  })

  test('a verification script that returns an error fails the job and its output is kept [P30 P34]', async () => {
    script('refuse', 'echo "the slate is missing" >&2; exit 7')
    const job = await judging.done(judging.spec([clip], { verify: { script: 'refuse' } }))
    expect(job.error).toMatchObject({
      check: 'script',
      type: 'verification_failed',
      exitCode: 7,
      stderrTail: 'the slate is missing\n',
    })
    expect(judging.stderr(job.id)).toContain('the slate is missing')
  })
})

describe('fingerprints', () => {
  test('the fingerprint depends on the streams alone, not on container, time or name [P45]', async () => {
    const [one, two] = [
      await rig.done(rig.spec([clip])),
      await rig.done(rig.spec([clip], { output: { directory: rig.output(), naming: 'another-{index}' } })),
    ]
    expect(two.fingerprint).toBe(one.fingerprint)
    expect(one).toMatchObject({ ffmpeg: programs.ffmpeg.version, profile: { name: 'proxy_h264_low', version: 1 } })
  })

  test('the fingerprint does not depend on core count, locale, time or temporary folder [P45]', async () => {
    const one = await rig.done(rig.spec([clip]))
    const elsewhere = 'export TZ=Asia/Tokyo LC_ALL=tr_TR.UTF-8 LANG=tr_TR.UTF-8 TMPDIR=/nowhere'
    withFfmpeg(rig.folder, `${elsewhere}; command -v taskset > /dev/null && exec taskset -c 0 "$FFMPEG" "$@"`)
    expect((await rig.done(rig.spec([clip]))).fingerprint).toBe(one.fingerprint)
  })

  test('the fingerprint changes with one frame or one audio sample [P45]', async () => {
    const filter = "drawbox=w=8:h=8:t=fill:enable='eq(n,20)'"
    const frame = await makeClip(rig.path('frame.mov'), { frames: 25, sound: 1, filter })
    const bytes = readFileSync(clip)
    // The last packet before the index is one of sound.
    const last = bytes.lastIndexOf('moov') - 5
    bytes.writeUInt8((bytes[last] as number) ^ 1, last)
    writeFileSync(rig.path('sample.mov'), bytes)
    const { outputs } = await rig.done(rig.spec([clip, frame, rig.path('sample.mov')]))
    const [was, ofFrame, ofSample] = outputs.map(({ fingerprint }) => fingerprint)
    const differ = (other: typeof was) => was?.streams.map((stream, at) => stream !== other?.streams[at])
    expect([differ(ofFrame), differ(ofSample)]).toEqual([
      [true, false],
      [false, true],
    ])
    expect(new Set(outputs.map(({ fingerprint }) => fingerprint.sha256)).size).toBe(3)
  })

  test('proxx verify compares a delivered output with its fingerprint [P45]', async () => {
    const job = await rig.done(rig.spec([clip, clip]))
    expect((await verifyOutputs(rig.proxx, job.id)).map(({ isGood }) => isGood)).toEqual([true, true])
    const [first, second] = job.outputs.map(({ path }) => path)
    writeFileSync(
      String(first),
      readFileSync(await makeClip(rig.path('fake.mov'), { frames: 25, video: LOW.split(' ').slice(0, 8), sound: 1 })),
    )
    writeFileSync(String(second), '')
    const verdicts = await verifyOutputs(rig.proxx, job.id)
    expect(verdicts.map(({ isGood, check }) => `${isGood} ${check}`)).toEqual(['false fingerprint', 'false size'])
    const failed = await rig.submit(rig.spec(['/nowhere.mov']))
    await expect(verifyOutputs(rig.proxx, failed.id)).rejects.toMatchObject({ code: 'JOB_WRONG_STATE' })
  })
})
