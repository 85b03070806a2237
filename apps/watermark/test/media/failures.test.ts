import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ProgramFailed } from 'redress/programs'
import { beforeAll, describe, expect, test } from 'vitest'
import { smallDisk } from '../../../../test/support/stores/small-disk.ts'
import { until } from '../../../../test/support/until.ts'
import { findPrograms } from '../../../shared/src/media/programs.ts'
import { type MarkOptions, markVideo } from '../../src/media/mark.ts'
import { removeAbandoned } from '../../src/media/scratch.ts'
import { disguised, failureOf, filesIn, isHere, KEY, makeClip, mediaFolder, needsFfmpeg } from './media-files.ts'

needsFfmpeg()
const { file } = mediaFolder()
const outputs = mediaFolder()
const target = outputs.file('copy.mp4')

beforeAll(async () => {
  if (!isHere) return
  await makeClip(file('clip.mp4'), 'testsrc2=s=320x180:r=25', 2, '--', '-movflags', '+faststart', '-g', '25')
})

const mark = (more: Partial<MarkOptions> = {}) =>
  markVideo({ source: file('clip.mp4'), target, invisible: { key: KEY, tokenId: 'token-7' }, ...more })

/** An encoder that takes its time and says which process it is; everything else goes at full speed. */
function slowEncoder(name: string) {
  const pidFile = file(`${name}.pid`)
  const script = `case "$*" in *libx264*) echo $$ > '${pidFile}'; exec FFMPEG -readrate 0.25 "$@";; esac; exec FFMPEG "$@"`
  return { programs: disguised(file(name), script), pid: () => Number(readFileSync(pidFile, 'utf8')), pidFile }
}

async function killedWith(signal: NodeJS.Signals) {
  const { programs, pid } = slowEncoder(`slow-${signal}`)
  const failing = failureOf(mark({ programs }))
  const isWriting = () =>
    readdirSync(outputs.folder, { recursive: true }).some((name) => /marked\.mp4$/.test(`${name}`))
  await until('the encoder writes', isWriting)
  process.kill(pid(), signal)
  return failing
}

describe('in the middle of an encode', () => {
  test('a killed encoder is OUT_OF_MEMORY and transient [W2 W23]', async () => {
    const error = await killedWith('SIGKILL')
    expect(error).toMatchObject({ code: 'OUT_OF_MEMORY', isPermanent: false, stage: 'encode', signal: 'SIGKILL' })
    expect(filesIn(outputs.folder)).toEqual([])
  })

  test('a stopped process leaves no file that looks like a copy', async () => {
    const error = await killedWith('SIGTERM')
    expect(error).toMatchObject({ code: 'MEDIA_FAILED', isPermanent: false, exitCode: 255 })
    expect(filesIn(outputs.folder)).toEqual([])
  })

  test('an encode that exceeds its time limit is transient [W23]', async () => {
    const { programs } = slowEncoder('slow-limit')
    const error = await failureOf(mark({ programs, limits: { workTimeoutMs: 600 } }))
    expect(error).toMatchObject({ code: 'TIMED_OUT', isPermanent: false, stage: 'encode' })
    expect(filesIn(outputs.folder)).toEqual([])
  })

  test('an abort stays an abort, for the engine to read its reason', async () => {
    const { programs, pidFile } = slowEncoder('slow-abort')
    const stop = new AbortController()
    const outcome = mark({ programs, signal: stop.signal }).catch((error: unknown) => error)
    await until('the encoder runs', () => existsSync(pidFile))
    stop.abort(new Error('the lease is lost'))
    const error = await outcome
    expect(error).toBeInstanceOf(ProgramFailed)
    expect(error).toMatchObject({ reason: 'aborted', cause: { message: 'the lease is lost' } })
    expect(filesIn(outputs.folder)).toEqual([])
  })

  test('a full disk is transient and the partial output is removed [W2 W23]', async (context) => {
    const disk = smallDisk(context, '1m')
    // Enough for what is prepared, and not for what is encoded.
    disk.fill({ butBytes: 90_000 })
    const error = await failureOf(mark({ target: join(disk.folder, 'copy.mp4') }))
    expect(error).toMatchObject({ code: 'DISK_FULL', isPermanent: false, stage: 'encode' })
    expect(error.exitCode).not.toBeNull()
    expect(filesIn(disk.folder)).toEqual(['ballast'])
  })
})

describe('an encode that claims to have gone well', () => {
  test('is not believed when the copy is shorter than the source, and the older copy stays', async () => {
    const short = 'case "$*" in *libx264*) exec FFMPEG -t 1 "$@";; esac; exec FFMPEG "$@"'
    writeFileSync(target, 'the copy of before')
    const error = await failureOf(mark({ programs: disguised(file('short'), short) }))
    expect(error).toMatchObject({ code: 'OUTPUT_WRONG', isPermanent: false, stage: 'verify' })
    expect(error.message).toContain('duration')
    expect(readFileSync(target, 'utf8')).toBe('the copy of before')
  })

  const lies: [what: string, script: string, checked: string][] = [
    ['writes nothing', 'exit 0', 'the output is there'],
    ['damages what it wrote', 'FFMPEG "$@"; printf XXXXXXXX | dd of=marked.mp4 bs=1 seek=9000 conv=notrunc', 'decode'],
    [
      'leaves frames out',
      'FFMPEG "$@"; FFMPEG -v error -i marked.mp4 -r 12.5 x.mp4; mv x.mp4 marked.mp4',
      'every frame',
    ],
    ['uses another codec', 'FFMPEG "$@"; FFMPEG -v error -i marked.mp4 -c:v mpeg4 x.mp4; mv x.mp4 marked.mp4', 'codec'],
  ]
  test.each(lies)('is not believed when it %s', async (what, script, checked) => {
    const fake = disguised(file(what), `case "$*" in *libx264*) ${script}; exit 0;; esac; exec FFMPEG "$@"`)
    const error = await failureOf(mark({ programs: fake }))
    expect(error).toMatchObject({ code: 'OUTPUT_WRONG', isPermanent: false })
    expect(error.message).toContain(checked)
  })
})

describe('a failure is named by its subject', () => {
  test('a truncated source is SOURCE_CORRUPT and permanent [W22 W49]', async () => {
    const whole = readFileSync(file('clip.mp4'))
    writeFileSync(file('broken.mp4'), whole.subarray(0, Math.floor(whole.length * 0.6)))
    const error = await failureOf(mark({ source: file('broken.mp4') }))
    expect(error).toMatchObject({ code: 'SOURCE_CORRUPT', isPermanent: true, stage: 'encode' })
    expect(error.message).not.toContain(file(''))
  })

  test('a missing source is SOURCE_MISSING and permanent [W22]', async () => {
    const error = await failureOf(mark({ source: file('gone.mp4') }))
    expect(error).toMatchObject({ code: 'SOURCE_MISSING', isPermanent: true, stage: 'probe' })
  })

  test('a missing output folder is not blamed on the source', async () => {
    const error = await failureOf(mark({ target: outputs.file('no/such/folder/copy.mp4') }))
    expect(error).toMatchObject({ code: 'WRITE_FAILED', isPermanent: false })
  })

  test('an encoder that fails on a good source is tried again, with its exit code and its last words', async () => {
    const fails =
      'case "$*" in *libx264*) echo "Invalid data found when processing input" >&2; exit 3;; esac; exec FFMPEG "$@"'
    const error = await failureOf(mark({ programs: disguised(file('fails'), fails) }))
    expect(error).toMatchObject({ code: 'MEDIA_FAILED', isPermanent: false, exitCode: 3 })
    expect(error.stderrTail).toContain('Invalid data found')
  })

  test('a key that could be guessed is refused', async () => {
    const invisible = { key: 'short', tokenId: 'token-7' }
    expect(await failureOf(mark({ invisible }))).toMatchObject({ code: 'KEY_TOO_SHORT', isPermanent: true })
  })
})

describe('the programs', () => {
  test('missing media programs are named with what to do, and found again once installed [W2]', async () => {
    const nowhere = { searchPath: file(''), packagesFrom: file('x.js'), ffmpegPath: '', ffprobePath: '' }
    const error = await failureOf(findPrograms(nowhere))
    expect(error).toMatchObject({ code: 'PROGRAM_MISSING', isPermanent: false, stage: 'prepare' })
    expect(error.action).toContain('FFMPEG_PATH')
    const { programs } = slowEncoder('named')
    const settings = { ...nowhere, ffmpegPath: programs.ffmpeg.path, ffprobePath: programs.ffprobe.path }
    expect((await findPrograms(settings)).ffmpeg).toEqual({
      path: programs.ffmpeg.path,
      version: programs.ffmpeg.version,
    })
  })

  test('are found in npm packages when PATH has none, and not when a setting names another', async () => {
    const real = await findPrograms()
    const machine = `${process.platform}-${process.arch}`
    for (const [name, program] of [
      [`@ffmpeg-binary/${machine}`, 'ffmpeg'],
      ['@ffprobe-installer/ffprobe', ''],
      [`@ffprobe-installer/${machine}`, 'ffprobe'],
    ] as const) {
      const folder = file(`node_modules/${name}`)
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, 'package.json'), '{}')
      if (program !== '') disguised(join(folder, program), `exec '${real[program].path}' "$@"`)
    }
    const packaged = { searchPath: 'relative:', packagesFrom: file('x.js'), ffmpegPath: '', ffprobePath: '' }
    const found = await findPrograms(packaged)
    expect(found.ffmpeg).toEqual({
      path: file(`node_modules/@ffmpeg-binary/${machine}/ffmpeg`),
      version: real.ffmpeg.version,
    })
    expect(found.ffprobe.path).toBe(file(`node_modules/@ffprobe-installer/${machine}/ffprobe`))
    const named = await failureOf(findPrograms({ ...packaged, ffmpegPath: '/no/ffmpeg' }))
    expect(named.detail).toContain('/no/ffmpeg')
  })
})

test('old leftovers of a killed worker are removed', async () => {
  const place = mediaFolder()
  for (const name of ['.unfinished-old', '.unfinished-busy', 'kept']) mkdirSync(place.file(name))
  writeFileSync(place.file('.unfinished-busy/marked.mp4'), 'half')
  const hourAgo = Date.now() / 1000 - 3600
  for (const name of ['.unfinished-old', '.unfinished-busy', 'kept']) utimesSync(place.file(name), hourAgo, hourAgo)
  expect(await removeAbandoned(place.folder, { untouchedMs: 60_000, nowMs: Date.now() })).toBe(1)
  expect(filesIn(place.folder)).toEqual(['.unfinished-busy', 'kept'])
})
