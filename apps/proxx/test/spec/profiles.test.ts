import { basename } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { mediaLimits } from '../../../shared/src/media/limits.ts'
import { sniff } from '../../../shared/src/media/sniff.ts'
import { knownProfile, outputArguments, outputSize, PROFILES, type ResolvedProfile } from '../../src/spec/profiles.ts'
import { inspectMedia } from '../../src/transcode/inspect.ts'
import { ffmpeg, makeClip, needsFfmpeg, programs } from '../clips.ts'
import { filesIn, Rig } from '../rig.ts'

needsFfmpeg()
const rig = Rig.open()
const sources: Record<string, string> = {}
const NAMES = [...PROFILES.keys()]

beforeAll(async () => {
  const make = async (name: string, ...rest: [Parameters<typeof makeClip>[1]?]) => {
    sources[name] = await makeClip(rig.path(name), ...rest)
  }
  await make('plain.mov', { size: '320x180', sound: 1 })
  await make('odd.mkv', { size: '133x77', video: ['-c:v', 'ffv1', '-pix_fmt', 'yuv444p'] })
  await make('tracks.mov', { sound: 8 })
  await make('ten-bit.mov', { video: ['-c:v', 'prores_ks', '-pix_fmt', 'yuv422p10le'] })
  await make('interlaced.mov', {
    filter: 'interlace',
    frames: 12,
    video: ['-c:v', 'libx264', '-preset', 'ultrafast', '-flags', '+ildct+ilme', '-pix_fmt', 'yuv420p'],
  })
  await make('varying.mov', {
    filter: 'settb=1/1000,setpts=40*N+7*N*N',
    video: ['-fps_mode', 'passthrough', '-enc_time_base', 'demux', '-c:v', 'libx264', '-preset', 'ultrafast'],
  })
  if (sources['plain.mov'] === undefined) return
  sources['turned.mov'] = rig.path('turned.mov')
  await ffmpeg(['-display_rotation', '90', '-i', sources['plain.mov'], '-c', 'copy', rig.path('turned.mov')])
})

/** One of each codec gets every kind of clip; its sibling differs in numbers alone, and gets those that numbers matter for. */
const ALL_KINDS = ['proxy_h264_low', 'proxy_prores_proxy', 'proxy_dnxhr_lb']
const FRAMES: Record<string, number> = { 'varying.mov': 5 }

describe.each(NAMES)('%s', (profile) => {
  test('each profile makes verified proxies with the same fingerprint on every run [P2 P45 P62]', async () => {
    const names = ALL_KINDS.includes(profile) ? Object.keys(sources) : ['odd.mkv', 'tracks.mov']
    const spec = rig.spec(
      names.map((name) => String(sources[name])),
      { profile },
    )
    const first = await rig.done(spec)
    expect(first.error).toBeNull()
    expect(first).toMatchObject({ status: 'complete', ffmpeg: programs.ffmpeg.version })
    // The last frame of the one whose frames vary is hidden by its edit list.
    expect(first.outputs.map(({ frames }) => frames)).toEqual(names.map((name) => FRAMES[name] ?? 6))
    expect(filesIn(spec.output.directory)).toEqual(first.outputs.map(({ path }) => basename(path)).toSorted())
    const tracks = first.outputs[names.indexOf('tracks.mov')]
    const again = await rig.done(rig.spec([String(tracks?.source)], { profile }))
    expect(again.outputs.map(({ fingerprint }) => fingerprint)).toEqual([tracks?.fingerprint])
    expect(tracks?.fingerprint.streams).toHaveLength(9)
  })

  test('each profile gives the same fingerprint on a processor without fast instructions [P45]', async () => {
    const of = PROFILES.get(profile) as ResolvedProfile
    const size = outputSize(of, { width: 320, height: 180 })
    const hashes = await Promise.all(
      [[], ['-cpuflags', '0']].map(async (flags, at) => {
        const output = rig.path(`${profile}-${at}.mov`)
        const given = ['-i', String(sources['plain.mov']), '-map', '0:v', '-map', '0:a']
        await ffmpeg([...flags, ...given, ...outputArguments(of, size), output])
        return ffmpeg(['-i', output, '-c', 'copy', '-f', 'streamhash', '-hash', 'sha256', '-'])
      }),
    )
    expect(hashes[1]).toBe(hashes[0])
  })
})

test('MXF clips are accepted, with one file or one file per stream [P2]', async () => {
  const dnxhr = ['-c:v', 'dnxhd', '-profile:v', 'dnxhr_lb', '-pix_fmt', 'yuv422p']
  const whole = await makeClip(rig.path('card.mxf'), { size: '320x180', sound: 2, video: [...dnxhr, '-f', 'mxf'] })
  const atom = await makeClip(rig.path('atom.mxf'), { size: '320x180', video: [...dnxhr, '-f', 'mxf_opatom'] })
  const job = await rig.done(rig.spec([whole, atom]))
  expect(job).toMatchObject({ status: 'complete', error: null })
  const made = job.outputs.map(({ frames, fingerprint }) => [frames, fingerprint.streams.length])
  expect(made).toEqual([
    [6, 3],
    [6, 1],
  ])
  await expect(sniff(whole, 'probe', mediaLimits())).rejects.toMatchObject({ code: 'SOURCE_UNSUPPORTED' })
})

test('a picture is turned, fitted and made even, and never smaller than its codec can be', async () => {
  const sizeOf = (name: string, width: number, height: number) => {
    const size = outputSize(PROFILES.get(name) as ResolvedProfile, { width, height })
    return `${size.width}x${size.height}`
  }
  expect(sizeOf('proxy_h264_low', 1920, 1080)).toBe('640x360')
  expect(sizeOf('proxy_h264_low', 1080, 1920)).toBe('360x640')
  expect(sizeOf('proxy_h264_low', 320, 180)).toBe('320x180')
  expect(sizeOf('proxy_h264_quarter', 3840, 2160)).toBe('960x540')
  expect(sizeOf('proxy_h264_quarter', 64, 48)).toBe('20x16')
  expect(sizeOf('proxy_prores_lt', 1921, 1081)).toBe('1920x1080')
  expect(sizeOf('proxy_dnxhr_lb', 64, 48)).toBe('256x192')
  const turned = await inspectMedia(String(sources['turned.mov']), programs, {
    limits: mediaLimits(),
    subject: 'source',
  })
  expect([turned.width, turned.height]).toEqual([180, 320])
})

test('a profile cannot be changed and a submitted profile object is refused [P62 P68]', () => {
  const low = PROFILES.get('proxy_h264_low') as ResolvedProfile
  expect(() => Object.assign(low, { extension: 'exe' })).toThrow()
  expect(() => (low.arguments as string[]).push('/etc/passwd')).toThrow()
  expect(knownProfile(JSON.parse(JSON.stringify(low)))).toBe(low)
  expect(knownProfile({ ...low, arguments: ['-f', 'mpegts'] })).toBeNull()
  expect(knownProfile({ ...low, sha256: 'of another' })).toBeNull()
  expect(knownProfile(null)).toBeNull()
  // A change of any of them needs a new version beside it: jobs and their fingerprints name these.
  expect(
    Object.fromEntries([...PROFILES].map(([name, { sha256 }]) => [name, sha256.slice(0, 12)])),
  ).toMatchInlineSnapshot(`
    {
      "proxy_dnxhr_lb": "84239bd986c8",
      "proxy_h264_low": "176d2db68fed",
      "proxy_h264_quarter": "2b8b4f9a39d5",
      "proxy_prores_lt": "358c22e0e77d",
      "proxy_prores_proxy": "c91bf651dc3c",
    }
  `)
})
