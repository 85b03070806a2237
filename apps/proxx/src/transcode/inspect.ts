import { MediaError } from '@redress/shared/media/errors'
import { clockMsOf, fpsOf, type MediaRun, millisecondsOf, runFfmpeg, runFfprobe } from '@redress/shared/media/ffmpeg'
import type { MediaPrograms } from '@redress/shared/media/programs'
import { inputArguments, type SniffedFile, sniff } from '@redress/shared/media/sniff'
import { ProgramFailed } from 'redress/programs'

/** How long the pictures last, or the whole file. */
export interface Length {
  of: 'pictures' | 'file'
  ms: number
}

/** The facts in the header of a video. */
export interface Inspected {
  file: SniffedFile
  videoIndex: number
  codec: string
  profile: string
  pixelFormat: string
  /** As displayed, with the rotation applied. */
  width: number
  height: number
  fps: number
  /** The likeliest of its lengths; null where the head says nothing. */
  durationMs: number | null
  /** Everything that can be meant by what it says of how long it is. */
  lengths: readonly Length[]
  /** Of the whole file, sound and all. */
  fileMs: number | null
  /** Null where the head does not say, or contradicts itself. */
  frames: number | null
  audio: readonly { codec: string; channels: number; sampleRate: number }[]
}

interface Timed {
  start_time?: string
  duration?: string
}

interface Stream extends Timed {
  index: number
  codec_type?: string
  codec_name?: string
  profile?: string
  pix_fmt?: string
  width?: number
  height?: number
  avg_frame_rate?: string
  nb_frames?: string
  channels?: number
  sample_rate?: string
  tags?: { DURATION?: string }
  disposition?: { attached_pic?: number }
  side_data_list?: { rotation?: number }[]
}

const ENTRIES =
  'format=start_time,duration:stream=index,codec_type,codec_name,profile,pix_fmt,width,height,avg_frame_rate,nb_frames,' +
  'start_time,duration,channels,sample_rate:stream_tags=DURATION:stream_side_data=rotation:stream_disposition=attached_pic'

/** Fields of fewer lines, or lines of fewer pixels, cannot be made whole. */
const SIDE_MIN = 4

/** Throws `MediaError` for a file that is not a readable video, and `ProgramFailed` if ffprobe itself failed. */
export async function inspectMedia(path: string, programs: MediaPrograms, run: MediaRun): Promise<Inspected> {
  const file = await sniff(path, 'probe', run.limits, { takesCameras: true })
  if (file.kind !== 'video') throw unsupported(path, 'This is a picture and no video.')
  const args = ['-show_entries', ENTRIES, ...inputArguments(file, run.limits)]
  const said = JSON.parse(await ask(path, programs, args, run)) as {
    streams?: Stream[]
    format?: Timed
  }
  const streams = said.streams ?? []
  const video = streams.find(({ codec_type, disposition }) => codec_type === 'video' && disposition?.attached_pic !== 1)
  if (video === undefined) throw unsupported(path, 'There is no video in it.')
  const { width = 0, height = 0 } = video
  const { sideMax, pixelsMax } = run.limits
  if (Math.min(width, height) < SIDE_MIN || Math.max(width, height) > sideMax || width * height > pixelsMax) {
    throw unsupported(path, `Its pictures have ${width} x ${height} pixels.`)
  }
  const isTurned = (video.side_data_list ?? []).some(({ rotation = 0 }) => Math.abs(Math.round(rotation)) % 180 === 90)
  const fps = fpsOf(video.avg_frame_rate) ?? FPS_UNKNOWN
  const lengths = lengthsOf(video, said.format ?? {})
  const durationMs = lengths[0]?.ms ?? null
  return {
    file,
    videoIndex: video.index,
    codec: video.codec_name ?? '',
    profile: video.profile ?? '',
    pixelFormat: video.pix_fmt ?? '',
    width: isTurned ? height : width,
    height: isTurned ? width : height,
    fps,
    durationMs,
    lengths,
    fileMs: millisecondsOf(said.format?.duration),
    frames: plausibleFrames(Number(video.nb_frames ?? 0), fps, durationMs),
    audio: streams
      .filter(({ codec_type }) => codec_type === 'audio')
      .map(({ codec_name = '', channels = 0, sample_rate = '0' }) => ({
        codec: codec_name,
        channels,
        sampleRate: Number(sample_rate),
      })),
  }
}

async function ask(path: string, { ffprobe }: MediaPrograms, args: string[], run: MediaRun): Promise<string> {
  try {
    return (await runFfprobe(ffprobe, args, run)).stdout
  } catch (error) {
    if (!(error instanceof ProgramFailed) || error.reason !== 'exit') throw error
    const detail = `${path}: ${error.message}`
    throw new MediaError('SOURCE_CORRUPT', 'It is damaged or not complete.', { stage: 'probe', detail, cause: error })
  }
}

/**
 * Matroska has no length of a stream but a tag, and those who write it do not agree: some count from zero, some from the
 * first frame. Without the tag there is only the length of the file, which may be that of its sound.
 */
function lengthsOf(video: Stream, file: Timed): Length[] {
  const said = millisecondsOf(video.duration)
  if (said !== null) return [{ of: 'pictures', ms: said }]
  const tagged = clockMsOf(video.tags?.DURATION)
  const [of, ms, startMs] =
    tagged === null
      ? (['file', millisecondsOf(file.duration), millisecondsOf(file.start_time)] as const)
      : (['pictures', tagged, millisecondsOf(video.start_time)] as const)
  if (ms === null) return []
  const sinceStart = startMs === null || startMs >= ms ? [] : [ms - startMs]
  return [...sinceStart, ms].map((one) => ({ of, ms: one }))
}

/** An edit list hides frames that the count includes. The number of shown frames is then unknown. */
function plausibleFrames(counted: number, fps: number, durationMs: number | null): number | null {
  if (counted <= 0 || durationMs === null) return null
  return Math.abs((counted / fps) * 1000 - durationMs) <= 500 / fps ? counted : null
}

/** The number of frames of a source, and the number in its header. */
export interface FrameCount {
  /** The number of decoded frames. */
  sourceFrames: number
  /** Null if the header has no count. */
  saidFrames: number | null
}

/**
 * Counts the frames of a source and compares them with the frames that its encode produced. An equal count in the
 * header is trusted. But a header may count missing frames, as AVI does for the gaps of a variable rate, or have no
 * count. So if it differs, the packets in the file are counted, which is cheap. If those differ as well, the file is
 * decoded.
 */
export async function countFrames(
  source: Inspected,
  encoded: number,
  programs: MediaPrograms,
  run: MediaRun,
): Promise<FrameCount> {
  if (source.frames === encoded) return { sourceFrames: encoded, saidFrames: encoded }
  const packets = await packetsOf(source, programs, run)
  const saidFrames = await shownFrames(source, programs, run, packets)
  const isCounted = saidFrames === encoded || packets.read - packets.hidden === encoded
  return { sourceFrames: isCounted ? encoded : await decodedFrames(source, programs, run), saidFrames }
}

/** Decoded with the same options as for the encode, so that both stop at the same damage. */
async function decodedFrames(source: Inspected, { ffmpeg }: MediaPrograms, run: MediaRun): Promise<number> {
  const args = [
    ...['-v', 'level+info', ...DECODER_THREADS, ...STRICTLY],
    ...inputArguments(source.file, run.limits),
    ...['-map', `0:${source.videoIndex}`, '-fps_mode', 'passthrough', '-f', 'null', '-'],
  ]
  return (await runFfmpeg(ffmpeg, args, run)).frames
}

/** Damage in a source is a failure; there is no best-effort output (P2). */
export const STRICTLY = ['-xerror', '-err_detect', 'explode']
export const DECODER_THREADS = ['-threads', '4']

/**
 * The number of frames that a source shows, if an edit list hides frames that the header counts. Hidden frames that
 * later ones depend on are read and marked. The others are found by ignoring the edit list. Frames that the header
 * counts and the file lacks are missing, not hidden, and are not subtracted.
 */
export async function shownFrames(
  source: Inspected,
  programs: MediaPrograms,
  run: MediaRun,
  packets?: Packets,
): Promise<number | null> {
  if (source.frames === null) return null
  const { read, hidden } = packets ?? (await packetsOf(source, programs, run))
  if (source.file.reader !== 'mov' || read === source.frames) return source.frames - hidden
  const all = await packetsOf(source, programs, run, ['-ignore_editlist', '1'])
  return source.frames - hidden - (all.read - read)
}

interface Packets {
  read: number
  hidden: number
}

async function packetsOf(
  source: Inspected,
  programs: MediaPrograms,
  run: MediaRun,
  options: readonly string[] = [],
): Promise<Packets> {
  const packets: Packets = { read: 0, hidden: 0 }
  const onLine = (line: string) => {
    // Key frame, to be discarded, corrupt: the last is the rest of a frame at the end of a truncated file.
    if (!/^[K_][D_]/.test(line) || line[2] === 'C') return
    packets.read++
    if (line[1] === 'D') packets.hidden++
  }
  const asked = ['-select_streams', String(source.videoIndex), '-show_entries', 'packet=flags', '-of', 'csv=p=0']
  const args = [...asked, ...options, ...inputArguments(source.file, run.limits)]
  // It reads the whole file, and not its head.
  const limits = { ...run.limits, probeTimeoutMs: run.limits.workTimeoutMs }
  await runFfprobe(programs.ffprobe, args, { ...run, limits, onLine })
  return packets
}

const unsupported = (path: string, message: string): MediaError =>
  new MediaError('SOURCE_UNSUPPORTED', message, { stage: 'probe', detail: path })

const FPS_UNKNOWN = 25
