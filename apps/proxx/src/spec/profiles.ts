import { createHash } from 'node:crypto'

/** The size of the output. Sides are always even, because the codecs require it. */
type Sizing =
  | { rule: 'keep' }
  | { rule: 'divide'; by: number }
  /** As it is where it fits into the box, otherwise made smaller until it does. */
  | { rule: 'fit'; width: number; height: number }

/**
 * The definition of a proxy. Frozen: a change is a new version beside the old one, never another text under the same
 * name.
 */
export interface Profile {
  name: string
  version: number
  title: string
  extension: 'mov'
  size: Sizing
  /** Smaller pictures are enlarged: the codec has a minimum size. */
  sizeMin: { width: number; height: number }
  /** The facts that ffprobe must report about an output. */
  video: { codec: string; profile: string; pixelFormat: string }
  audioCodec: string
  /** Of a picture's every pixel, and more than is likely: for the estimate of the room that is needed. */
  bitsPerPixel: number
  /** ffmpeg's options of the output, in which {width} and {height} stand for the size. */
  arguments: readonly string[]
}

/** A profile as a job keeps it. */
export interface ResolvedProfile extends Profile {
  sha256: string
}

const SCALING = 'bicubic+accurate_rnd+full_chroma_int+bitexact'

/** Every frame of the source once, at its time; interlaced ones made whole; the same bytes on every machine. */
const common = (pixelFormat: string): string[] => [
  '-vf',
  `bwdif=mode=send_frame:parity=auto:deint=interlaced,scale={width}:{height}:flags=${SCALING},format=${pixelFormat}`,
  ...['-sws_flags', SCALING, '-fps_mode', 'passthrough', '-enc_time_base:v', 'demux'],
  // How many threads there are decides what an encoder writes.
  ...['-threads', '4', '-map_metadata', '0', '-map_chapters', '-1', '-dn', '-sn'],
  ...['-fflags', '+bitexact', '-flags:v', '+bitexact', '-flags:a', '+bitexact', '-f', 'mov'],
]

const h264 = (profile: 'main' | 'high', crf: number): string[] => [
  ...['-c:v', 'libx264', '-preset', 'veryfast', '-profile:v', profile, '-crf', String(crf), '-g', '12', '-bf', '0'],
  ...['-c:a', 'pcm_s16le', ...common('yuv420p')],
]

const prores = (profile: 0 | 1): string[] => [
  ...['-c:v', 'prores_ks', '-profile:v', String(profile), '-vendor', 'apl0'],
  ...['-c:a', 'pcm_s24le', ...common('yuv422p10le')],
]

const SMALLEST = { width: 16, height: 16 }

/** All versions that were ever shipped: a job of an older release is run as it was submitted. The last one is in force. */
const SHIPPED: readonly Profile[] = [
  {
    name: 'proxy_h264_low',
    version: 1,
    title: 'H.264, at most 640 x 360',
    extension: 'mov',
    size: { rule: 'fit', width: 640, height: 360 },
    sizeMin: SMALLEST,
    video: { codec: 'h264', profile: 'Main', pixelFormat: 'yuv420p' },
    audioCodec: 'pcm_s16le',
    bitsPerPixel: 0.3,
    arguments: h264('main', 28),
  },
  {
    name: 'proxy_h264_quarter',
    version: 1,
    title: 'H.264, a quarter of width and height',
    extension: 'mov',
    size: { rule: 'divide', by: 4 },
    sizeMin: SMALLEST,
    video: { codec: 'h264', profile: 'High', pixelFormat: 'yuv420p' },
    audioCodec: 'pcm_s16le',
    bitsPerPixel: 0.6,
    arguments: h264('high', 23),
  },
  {
    name: 'proxy_prores_proxy',
    version: 1,
    title: 'ProRes 422 Proxy, full size',
    extension: 'mov',
    size: { rule: 'keep' },
    sizeMin: SMALLEST,
    video: { codec: 'prores', profile: 'Proxy', pixelFormat: 'yuv422p10le' },
    audioCodec: 'pcm_s24le',
    bitsPerPixel: 1.2,
    arguments: prores(0),
  },
  {
    name: 'proxy_prores_lt',
    version: 1,
    title: 'ProRes 422 LT, full size',
    extension: 'mov',
    size: { rule: 'keep' },
    sizeMin: SMALLEST,
    video: { codec: 'prores', profile: 'LT', pixelFormat: 'yuv422p10le' },
    audioCodec: 'pcm_s24le',
    bitsPerPixel: 2.4,
    arguments: prores(1),
  },
  {
    name: 'proxy_dnxhr_lb',
    version: 1,
    title: 'DNxHR LB, full size',
    extension: 'mov',
    size: { rule: 'keep' },
    sizeMin: { width: 256, height: 120 },
    video: { codec: 'dnxhd', profile: 'DNXHR LB', pixelFormat: 'yuv422p' },
    audioCodec: 'pcm_s24le',
    bitsPerPixel: 1.2,
    arguments: [
      // Its fast transform rounds otherwise on other processors.
      ...['-c:v', 'dnxhd', '-profile:v', 'dnxhr_lb', '-dct', 'int'],
      ...['-c:a', 'pcm_s24le', ...common('yuv422p')],
    ],
  },
]

const RESOLVED: readonly ResolvedProfile[] = SHIPPED.map((profile) =>
  deepFrozen({ ...profile, sha256: createHash('sha256').update(JSON.stringify(profile)).digest('hex') }),
)

/** Those that may be asked for, by name. */
export const PROFILES: ReadonlyMap<string, ResolvedProfile> = new Map(
  RESOLVED.map((profile) => [profile.name, profile]),
)

/**
 * The shipped profile that a stored one refers to. The stored one is only compared, never run: a payload must not
 * control ffmpeg's command line.
 */
export function knownProfile(stored: unknown): ResolvedProfile | null {
  const known = profileOf((stored ?? {}) as Partial<ResolvedProfile>)
  return known !== null && JSON.stringify(known) === JSON.stringify(stored) ? known : null
}

export function profileOf({ name, version, sha256 }: Partial<ResolvedProfile>): ResolvedProfile | null {
  return RESOLVED.find((one) => one.name === name && one.version === version && one.sha256 === sha256) ?? null
}

export interface Size {
  width: number
  height: number
}

/** Computed in whole numbers, the same on every machine. ffmpeg gets the size and does not compute it. */
export function outputSize({ size, sizeMin }: Profile, source: Size): Size {
  const scaled = scaledSize(size, source)
  const factor = Math.max(1, sizeMin.width / scaled.width, sizeMin.height / scaled.height)
  return {
    width: Math.max(sizeMin.width, even(scaled.width * factor)),
    height: Math.max(sizeMin.height, even(scaled.height * factor)),
  }
}

function scaledSize(size: Sizing, { width, height }: Size): Size {
  if (size.rule === 'keep') return { width, height }
  if (size.rule === 'divide') return { width: width / size.by, height: height / size.by }
  // The box is turned for upright pictures.
  const [boxWidth, boxHeight] = width >= height ? [size.width, size.height] : [size.height, size.width]
  const factor = Math.min(1, boxWidth / width, boxHeight / height)
  return { width: width * factor, height: height * factor }
}

/** A side is never made longer by the rounding. */
const even = (pixels: number): number => Math.max(2, Math.floor(pixels / 2) * 2)

/** The arguments of ffmpeg for one output. */
export function outputArguments(profile: Profile, { width, height }: Size): string[] {
  return profile.arguments.map((part) => part.replace('{width}', String(width)).replace('{height}', String(height)))
}

function deepFrozen<T extends object>(value: T): T {
  for (const part of Object.values(value)) if (typeof part === 'object' && part !== null) deepFrozen(part)
  return Object.freeze(value)
}
