import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

type Container = 'mov' | 'mp4' | 'mkv' | 'avi' | 'ts' | 'mxf'
type Scan = 'progressive' | 'top first' | 'bottom first'

/** What a clip is like. */
export interface Kind {
  container: Container
  /** A codec and its pixel format, by a name below. */
  picture: string
  size: readonly [width: number, height: number]
  rate: string
  frames: number
  scan: Scan
  /** Frames come when they want to. */
  varies: boolean
  /** The channels of each sound track. */
  sound: readonly number[]
  /** In degrees, as a camera that was held otherwise notes it. */
  turned: 0 | 90 | 180 | 270
  timecode: boolean
}

const X264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-threads', '1']

interface Picture {
  arguments: readonly string[]
  containers: readonly Container[]
  /** Codecs that can have interlaced frames, and say so. */
  interlaced: readonly string[] | null
  /** Any size, any rate. */
  isFree: boolean
  /** Colour is kept for blocks of pixels, so that no side can be odd. */
  takesOdd: boolean
}

const BOTH_FIELDS = ['-flags', '+ildct+ilme']

const PICTURES: Readonly<Record<string, Picture>> = {
  'h264 4:2:0': {
    arguments: [...X264, '-pix_fmt', 'yuv420p'],
    containers: ['mov', 'mp4', 'mkv', 'avi', 'ts'],
    interlaced: BOTH_FIELDS,
    isFree: true,
    takesOdd: false,
  },
  'h264 4:2:2 10-bit': {
    arguments: [...X264, '-pix_fmt', 'yuv422p10le'],
    containers: ['mov', 'mp4', 'mkv', 'ts'],
    interlaced: BOTH_FIELDS,
    isFree: true,
    takesOdd: false,
  },
  'h264 4:4:4': {
    arguments: [...X264, '-pix_fmt', 'yuv444p'],
    containers: ['mov', 'mkv'],
    interlaced: null,
    isFree: true,
    takesOdd: true,
  },
  'hevc 10-bit': {
    arguments: [
      ...['-c:v', 'libx265', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p10le', '-tag:v', 'hvc1'],
      ...['-x265-params', 'log-level=none:pools=1:frame-threads=1'],
    ],
    containers: ['mov', 'mp4'],
    interlaced: null,
    isFree: true,
    takesOdd: false,
  },
  'prores 10-bit': {
    arguments: ['-c:v', 'prores_ks', '-pix_fmt', 'yuv422p10le', '-threads', '1'],
    containers: ['mov', 'mkv'],
    interlaced: BOTH_FIELDS,
    isFree: true,
    takesOdd: false,
  },
  'dnxhr 4:2:2': {
    arguments: ['-c:v', 'dnxhd', '-profile:v', 'dnxhr_sq', '-pix_fmt', 'yuv422p', '-threads', '1'],
    containers: ['mov', 'mxf'],
    interlaced: null,
    isFree: false,
    takesOdd: false,
  },
  'mpeg-2 4:2:2': {
    arguments: ['-c:v', 'mpeg2video', '-pix_fmt', 'yuv422p', '-q:v', '4', '-g', '12', '-threads', '1'],
    containers: ['mxf', 'ts', 'mkv'],
    interlaced: BOTH_FIELDS,
    isFree: false,
    takesOdd: false,
  },
  'ffv1 4:4:4': {
    arguments: ['-c:v', 'ffv1', '-level', '3', '-pix_fmt', 'yuv444p', '-threads', '1'],
    containers: ['mkv', 'avi'],
    interlaced: null,
    isFree: true,
    takesOdd: true,
  },
  mjpeg: {
    arguments: ['-c:v', 'mjpeg', '-pix_fmt', 'yuvj422p', '-q:v', '4', '-threads', '1'],
    containers: ['avi', 'mov', 'mkv'],
    interlaced: null,
    isFree: true,
    takesOdd: true,
  },
}

const SOUND_CODECS: Readonly<Record<Container, readonly string[]>> = {
  mov: ['-c:a', 'pcm_s24le'],
  mp4: ['-c:a', 'aac', '-b:a', '96k'],
  mkv: ['-c:a', 'flac'],
  avi: ['-c:a', 'pcm_s16le'],
  ts: ['-c:a', 'ac3', '-b:a', '192k'],
  mxf: ['-c:a', 'pcm_s16le'],
}

const RATES = ['24000/1001', '24', '25', '30000/1001', '50', '60000/1001']
const SIZES: readonly Kind['size'][] = [
  [320, 180],
  [320, 240],
  [640, 360],
  [240, 426],
  [720, 576],
  [1280, 720],
  [1920, 1080],
  [133, 77],
  [99, 201],
  [34, 18],
]
const TRACKS: readonly Kind['sound'][] = [[], [2], [1], [1, 1], [6], [2, 1, 6], [1, 1, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2]]

const PLAIN: Kind = {
  container: 'mov',
  picture: 'h264 4:2:0',
  size: [320, 180],
  rate: '25',
  frames: 12,
  scan: 'progressive',
  varies: false,
  sound: [2],
  turned: 0,
  timecode: false,
}

const EIGHT = [1, 1, 1, 1, 1, 1, 1, 1]

/** Those that everybody asks for, and those that are known to be trouble; chance does the rest. */
const CHOSEN: readonly Partial<Kind>[] = [
  {},
  { scan: 'top first', size: [720, 576] },
  { scan: 'bottom first', size: [720, 480], rate: '30000/1001' },
  { varies: true, frames: 24 },
  { varies: true, container: 'mkv', frames: 24, sound: [] },
  { size: [133, 77], picture: 'ffv1 4:4:4', container: 'mkv' },
  { sound: [] },
  { sound: EIGHT },
  { picture: 'prores 10-bit', sound: EIGHT, scan: 'top first', size: [720, 576], timecode: true },
  { picture: 'hevc 10-bit', container: 'mp4' },
  { turned: 90 },
  { turned: 180, container: 'mp4' },
  { turned: 270, container: 'mp4', sound: [] },
  { turned: 90, size: [133, 77], picture: 'h264 4:4:4' },
  { frames: 1, sound: [] },
  { frames: 1, container: 'mkv', sound: [] },
  { frames: 1, container: 'mp4', picture: 'hevc 10-bit', sound: [] },
  { frames: 1, picture: 'prores 10-bit' },
  { size: [180, 320] },
  { size: [16, 16], sound: [] },
  { size: [4, 4], picture: 'ffv1 4:4:4', container: 'mkv', sound: [] },
  { size: [4, 64], picture: 'ffv1 4:4:4', container: 'mkv', sound: [] },
  { container: 'ts', rate: '50' },
  { container: 'ts', scan: 'top first', rate: '30000/1001', size: [720, 480] },
  { container: 'avi', sound: [2] },
  { container: 'avi', picture: 'mjpeg' },
  { container: 'mxf', picture: 'mpeg-2 4:2:2', size: [720, 576], scan: 'top first', sound: EIGHT, timecode: true },
  { container: 'mxf', picture: 'dnxhr 4:2:2', size: [1280, 720], rate: '24000/1001' },
  { sound: [6, 2], rate: '60000/1001' },
  { timecode: true, rate: '24000/1001' },
]

/** As many kinds as are asked for, no two alike, and the same ones every time. */
export function kindsOf(count: number): Kind[] {
  const kinds = CHOSEN.slice(0, count).map((one): Kind => ({ ...PLAIN, ...one }))
  const known = new Set(kinds.map((kind) => JSON.stringify(kind)))
  const chance = chanceFrom(20_240_407)
  while (kinds.length < count) {
    const kind = anyKind(chance)
    const name = JSON.stringify(kind)
    if (known.has(name)) continue
    known.add(name)
    kinds.push(kind)
  }
  return kinds
}

type Chance = <T>(choices: readonly T[]) => T

/** Multiplies and adds, as the oldest of them do: good enough to choose, and the same on every machine. */
function chanceFrom(seed: number): Chance {
  let state = seed
  return (choices) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return choices[Math.floor((state / 2 ** 32) * choices.length)] as (typeof choices)[number]
  }
}

function anyKind(chance: Chance): Kind {
  const picture = chance(Object.keys(PICTURES))
  const { containers, interlaced, isFree, takesOdd } = PICTURES[picture] as Picture
  const container = chance(containers)
  const sizes = SIZES.filter(([width, height]) => {
    if (!isFree) return width >= 256 && height >= 180 && width % 16 === 0
    return takesOdd || (width % 2 === 0 && height % 2 === 0)
  })
  const scan =
    interlaced === null ? 'progressive' : chance<Scan>(['progressive', 'progressive', 'top first', 'bottom first'])
  // Half a frame of chroma is a line of it: interlaced pictures are made of pairs of pairs.
  const size = chance(scan === 'progressive' ? sizes : sizes.filter(([, height]) => height % 4 === 0))
  const isTape = container === 'mxf'
  const varies =
    !isTape &&
    container !== 'avi' &&
    container !== 'ts' &&
    scan === 'progressive' &&
    chance([true, false, false, false])
  return {
    container,
    picture,
    size,
    rate: chance(isTape ? ['25', '30000/1001', '50'] : RATES),
    // Few of the large ones: it is the kinds that matter here, and not the time.
    frames: chance(size[0] * size[1] > 500_000 ? [2, 5, 8] : [2, 5, 12, 25, 30, 48]),
    scan,
    varies,
    sound: isTape ? chance([[], [1, 1], EIGHT]) : chance(TRACKS),
    turned: container === 'mov' || container === 'mp4' ? chance([0, 0, 0, 90, 180, 270] as const) : 0,
    timecode: !varies && (container === 'mov' || isTape) && chance([true, false]),
  }
}

export function nameOf(kind: Kind, number: number): string {
  return `clip-${String(number).padStart(3, '0')}.${kind.container}`
}

export function inWords({
  container,
  picture,
  size,
  rate,
  frames,
  scan,
  varies,
  sound,
  turned,
  timecode,
}: Kind): string {
  const tracks = sound.length === 0 ? 'no sound' : `sound ${sound.join('+')}`
  const extra = [varies && 'variable rate', turned !== 0 && `turned ${turned}`, timecode && 'timecode'].filter(Boolean)
  return [container, picture, size.join('x'), `${frames} at ${rate}`, scan, tracks, ...extra].join(', ')
}

/** Makes a clip that has what its kind says. Each number gives other pictures and sounds. */
export async function makeClip(ffmpeg: string, folder: string, kind: Kind, number: number): Promise<string> {
  const path = join(folder, nameOf(kind, number))
  const straight = kind.turned === 0 ? path : `${path}.straight.${kind.container}`
  await ran(ffmpeg, [...inputs(kind, number), ...outputs(kind), straight])
  if (straight === path) return path
  // A turn is said of an input, and only a copy keeps it.
  await ran(ffmpeg, ['-display_rotation', String(kind.turned), '-i', straight, '-map', '0', '-c', 'copy', path])
  return path
}

function inputs({ size, rate, frames, sound, scan }: Kind, number: number): string[] {
  const [width, height] = size
  const [over = 25, under = 1] = rate.split('/').map(Number)
  // Two fields are two moments: an interlaced clip is made of twice as many pictures.
  const pictures = scan === 'progressive' ? frames : frames * 2
  const shown = scan === 'progressive' ? rate : `${over * 2}/${under}`
  const drawn = Math.min(width, height) < 32 ? `color=c=0x${(0x203040 + number * 997).toString(16)}:` : 'testsrc2='
  const seconds = (frames * under) / over
  return [
    ...['-f', 'lavfi', '-i', `${drawn}s=${width}x${height}:r=${shown},hue=h=${number * 3},trim=end_frame=${pictures}`],
    ...sound.flatMap((channels, at) => [
      ...['-f', 'lavfi', '-i', `sine=f=${200 + number * 7 + at * 50}:r=48000:d=${seconds},${LAYOUTS[channels]}`],
    ]),
    ...['-map', '0:v', ...sound.flatMap((_, at) => ['-map', `${at + 1}:a`])],
  ]
}

const LAYOUTS: Readonly<Record<number, string>> = {
  1: 'aformat=channel_layouts=mono',
  2: 'aformat=channel_layouts=stereo',
  6: 'pan=5.1|c0=c0|c1=c0|c2=c0|c3=c0|c4=c0|c5=c0',
}

function outputs({ container, picture, scan, varies, sound, timecode, rate }: Kind): string[] {
  const { arguments: codec, interlaced } = PICTURES[picture] as Picture
  const filters = [
    ...(scan === 'progressive'
      ? []
      : [`tinterlace=mode=${scan === 'top first' ? 'interleave_top' : 'interleave_bottom'}`]),
    ...(scan === 'progressive' ? [] : [`setfield=${scan === 'top first' ? 'tff' : 'bff'}`]),
    ...(varies ? ['settb=1/1000', 'setpts=33*N+mod(N*N*13\\,29)'] : []),
  ]
  const dropsFrames = rate === '30000/1001' || rate === '60000/1001'
  return [
    ...(filters.length === 0 ? [] : ['-vf', filters.join(',')]),
    ...codec,
    ...(scan === 'progressive' ? [] : (interlaced ?? [])),
    ...(varies ? ['-fps_mode', 'passthrough', '-enc_time_base', '1/1000'] : []),
    ...(sound.length === 0 ? [] : SOUND_CODECS[container]),
    ...(timecode ? ['-timecode', dropsFrames ? '10:00:00;00' : '10:00:00:00'] : []),
    ...['-f', container === 'mkv' ? 'matroska' : container === 'ts' ? 'mpegts' : container],
  ]
}

/** A clip as cameras make them: moving, with noise, and with two sound tracks. */
export async function makeCameraClip(ffmpeg: string, path: string, seconds: number, number: number): Promise<string> {
  const filters = `noise=alls=6:allf=t:all_seed=${number},hue=h=${number * 20}`
  await ran(ffmpeg, [
    ...['-f', 'lavfi', '-i', `testsrc2=s=1920x1080:r=25:d=${seconds},${filters}`],
    ...['-f', 'lavfi', '-i', `sine=f=${200 + number}:r=48000:d=${seconds}`],
    ...['-map', '0:v', '-map', '1:a', '-map', '1:a', '-c:v', 'libx264', '-preset', 'ultrafast', '-b:v', '40M'],
    ...['-pix_fmt', 'yuv420p', '-c:a', 'pcm_s16le', path],
  ])
  return path
}

/** How many frames a clip shows to whoever just plays it: an edit list may hide what was put into it. */
export async function framesShown(ffmpeg: string, path: string): Promise<number> {
  const { stdout } = await promisify(execFile)(
    ffmpeg,
    [
      '-nostdin',
      '-v',
      'error',
      '-progress',
      '-',
      '-i',
      path,
      '-map',
      '0:v:0',
      '-fps_mode',
      'passthrough',
      '-f',
      'null',
      '-',
    ],
    { env: { ...process.env, GCONV_PATH: '/nonexistent' } },
  )
  return Number([...stdout.matchAll(/^frame=(\d+)$/gm)].at(-1)?.[1])
}

async function ran(ffmpeg: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(ffmpeg, ['-nostdin', '-v', 'error', '-y', ...args])
}
