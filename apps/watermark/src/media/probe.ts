import { MediaError, type MediaStage, machineFailure } from '@redress/shared/media/errors'
import { clockMsOf, fpsOf, type MediaRun, millisecondsOf, runFfmpeg, runFfprobe } from '@redress/shared/media/ffmpeg'
import { type MediaLimits, mediaLimits } from '@redress/shared/media/limits'
import { findPrograms, type MediaPrograms } from '@redress/shared/media/programs'
import { inputArguments, type SniffedFile, sniff } from '@redress/shared/media/sniff'
import { ProgramFailed } from 'redress/programs'
import { readImage, uprightOf } from './image-facts.ts'

export interface ProbedMedia {
  kind: 'video' | 'image'
  /** As it is shown: a rotation that the file asks for is done already. */
  width: number
  height: number
  /** 0 for an image. */
  durationMs: number
  /** Null where the file does not say, or says what its duration contradicts. */
  frames: number | null
  /** 0 for an image. */
  fps: number
  codec: string
  pixelFormat: string
  /** Every sound track that can be decoded, in the order of the file. */
  sound: readonly Track[]
  /** Text subtitles. Bitmap subtitles and all other streams are not listed. */
  subtitles: readonly Track[]
  /** In degrees, counterclockwise. */
  rotation: number
  /** The filters that turn an image upright; ffmpeg rotates videos itself. */
  upright: readonly string[]
  /** The index of the picture among the file's streams. */
  videoIndex: number
  file: SniffedFile
}

/** A sound track or a subtitle track. */
export interface Track {
  index: number
  codec: string
  /** Three letters (ISO 639-2), if the file gives a language. */
  language: string | null
}

export interface ProbeOptions {
  signal?: AbortSignal | undefined
  limits?: Partial<MediaLimits> | undefined
  programs?: MediaPrograms | undefined
  stage?: MediaStage | undefined
}

/**
 * Identifies a file. Refuses files that are neither video nor image, do not decode, or are too large. The file may be
 * hostile: only the reader for its first bytes is used, and no other file is opened.
 */
export async function probeMedia(path: string, options: ProbeOptions = {}): Promise<ProbedMedia> {
  const stage = options.stage ?? 'probe'
  const limits = mediaLimits(options.limits)
  const file = await sniff(path, stage, limits)
  const programs = options.programs ?? (await findPrograms())
  const run: MediaRun = { limits, signal: options.signal, subject: 'source' }
  const probing: Probing = { file, programs, run, stage }
  const { streams, containerMs } = await readHeaders(probing)

  const video = streams.find(({ codec_type, disposition }) => codec_type === 'video' && disposition?.attached_pic !== 1)
  if (video === undefined) {
    throw new MediaError('SOURCE_UNSUPPORTED', 'The file has no picture in it.', { stage, detail: path })
  }
  const sound = tracksOf(streams, isSound)
  checkSize(probing, video.width ?? 0, video.height ?? 0)
  const frame = await decodeFirstFrame(probing, video)
  const { rotation, upright } =
    file.kind === 'image'
      ? uprightOf(await readImage(file, stage))
      : { rotation: rotationOf(frame) || rotationOf(video), upright: [] }
  const isTurned = Math.abs(rotation) % 180 === 90
  return {
    kind: file.kind,
    width: isTurned ? frame.height : frame.width,
    height: isTurned ? frame.width : frame.height,
    ...(file.kind === 'image'
      ? { durationMs: 0, frames: 1, fps: 0 }
      : await timing(probing, video, sound.length === 0 ? containerMs : null)),
    codec: video.codec_name ?? '',
    pixelFormat: frame.pix_fmt,
    sound: file.kind === 'image' ? [] : sound,
    subtitles: tracksOf(streams, isText),
    rotation,
    upright,
    videoIndex: video.index,
    file,
  }
}

/**
 * ffmpeg's input options for a file. An image is turned by its own filters, so ffmpeg's EXIF support does not matter.
 */
export const readingArguments = ({ kind, file }: ProbedMedia, limits: MediaLimits): string[] => [
  ...(kind === 'image' ? ['-noautorotate'] : []),
  ...inputArguments(file, limits),
]

/** Phones add proprietary tracks that ffmpeg cannot decode; those have no codec here. */
const isSound = ({ codec_type, codec_name, channels = 0 }: Stream): boolean =>
  codec_type === 'audio' && codec_name !== undefined && codec_name !== 'unknown' && channels > 0

const TEXT_CODECS = ['subrip', 'ass', 'ssa', 'webvtt', 'mov_text', 'text']
const isText = ({ codec_type, codec_name }: Stream): boolean =>
  codec_type === 'subtitle' && TEXT_CODECS.includes(codec_name ?? '')

const tracksOf = (streams: readonly Stream[], isWanted: (stream: Stream) => boolean): Track[] =>
  streams.filter(isWanted).map(({ index, codec_name = '', tags }) => ({
    index,
    codec: codec_name,
    language: /^[a-z]{3}$/.test(tags?.language ?? '') ? (tags?.language ?? null) : null,
  }))

interface Probing {
  file: SniffedFile
  programs: MediaPrograms
  run: MediaRun
  stage: MediaStage
}

interface Rotated {
  side_data_list?: { rotation?: number }[]
}

interface Stream extends Rotated {
  index: number
  codec_type?: string
  codec_name?: string
  width?: number
  height?: number
  avg_frame_rate?: string
  r_frame_rate?: string
  nb_frames?: string
  duration?: string
  channels?: number
  /** Matroska stores the duration here. */
  tags?: { DURATION?: string; language?: string }
  disposition?: { attached_pic?: number }
}

interface Frame extends Rotated {
  width: number
  height: number
  pix_fmt: string
}

const STREAM_ENTRIES =
  'format=duration:stream=index,codec_type,codec_name,width,height,avg_frame_rate,r_frame_rate,nb_frames,duration' +
  ',channels:stream_tags=DURATION,language:stream_side_data=rotation:stream_disposition=attached_pic'

async function readHeaders(probing: Probing): Promise<{ streams: Stream[]; containerMs: number | null }> {
  const { streams = [], format } = (await ask(probing, ['-show_entries', STREAM_ENTRIES])) as {
    streams?: Stream[]
    format?: { duration?: string }
  }
  return { streams, containerMs: millisecondsOf(format?.duration) }
}

/**
 * How many packets are read until one of them gives a frame. The first is enough, unless the file was trimmed without
 * encoding it again. Then its edit list hides all frames from the last key frame to the cut.
 */
const PACKETS_READ = [1, 250, 5000]

/** A header can be wrong: only the first frame shows that the file has pictures. */
async function decodeFirstFrame(probing: Probing, { index }: Stream): Promise<Frame> {
  for (const packets of PACKETS_READ) {
    const { frames } = (await ask(probing, [
      ...['-select_streams', String(index), '-read_intervals', `%+#${packets}`, '-show_frames'],
      ...['-show_entries', 'frame=width,height,pix_fmt:frame_side_data=rotation'],
    ])) as { frames?: Frame[] }
    const frame = frames?.find(({ width, height }) => width > 0 && height > 0)
    if (frame !== undefined) return frame
  }
  throw corrupt(probing)
}

async function ask({ file, programs, run, stage }: Probing, args: string[]): Promise<unknown> {
  let said: { stdout: string; stderrTail: string }
  try {
    said = await runFfprobe(programs.ffprobe, [...args, ...inputArguments(file, run.limits)], run)
  } catch (error) {
    if (error instanceof ProgramFailed && isOversized(error)) throw tooLarge({ file, stage, run })
    throw machineFailure(error, stage) ?? corrupt({ file, stage }, error)
  }
  if (isOversized(said)) throw tooLarge({ file, stage, run })
  return JSON.parse(said.stdout)
}

/** A decoder that is asked for more pixels than it may hold tells no size, only this. */
const isOversized = ({ stderrTail }: { stderrTail: string }): boolean =>
  /Picture size [1-9]\d*x[1-9]\d* (?:is invalid|exceeds)/.test(stderrTail)

function checkSize({ file, stage, run }: Probing, width: number, height: number): void {
  const { pixelsMax, sideMax } = run.limits
  if (width > sideMax || height > sideMax || width * height > pixelsMax) throw tooLarge({ file, stage, run })
  if (width === 0 || height === 0) throw corrupt({ file, stage })
  if (width < 16 || height < 16) {
    const message = `The picture has ${width} x ${height} pixels, too few to hold a mark.`
    throw new MediaError('SOURCE_UNSUPPORTED', message, { stage, detail: file.path })
  }
}

async function timing(
  probing: Probing,
  video: Stream,
  /** Null if the duration may be that of the sound. */
  containerMs: number | null,
): Promise<{ durationMs: number; frames: number | null; fps: number }> {
  const { file, stage, run } = probing
  const fps = fpsOf(video.avg_frame_rate) ?? fpsOf(video.r_frame_rate) ?? 25
  const counted = Number(video.nb_frames ?? 0)
  const saidMs = millisecondsOf(video.duration) ?? clockMsOf(video.tags?.DURATION) ?? containerMs
  const durationMs = saidMs ?? (await durationByReading(probing, video))
  if (durationMs > run.limits.durationMsMax) {
    const message = `The video takes ${Math.round(durationMs / 1000)} s, more than ${run.limits.durationMsMax / 1000} s.`
    throw new MediaError('SOURCE_TOO_LARGE', message, { stage, detail: file.path })
  }
  // An edit list hides frames that the count still holds.
  const isPlausible = counted > 0 && Math.abs((counted / fps) * 1000 - durationMs) <= 1500 / fps
  return { durationMs, frames: isPlausible ? counted : null, fps }
}

/** A live recording has no duration in its header. */
async function durationByReading({ file, programs, run, stage }: Probing, { index }: Stream): Promise<number> {
  const args = [...inputArguments(file, run.limits), '-map', `0:${index}`, '-c', 'copy', '-f', 'null', '-']
  try {
    return (await runFfmpeg(programs.ffmpeg, args, run)).timeMs
  } catch (error) {
    throw machineFailure(error, stage) ?? corrupt({ file, stage }, error)
  }
}

const corrupt = ({ file, stage }: Pick<Probing, 'file' | 'stage'>, cause?: unknown): MediaError =>
  new MediaError('SOURCE_CORRUPT', 'The file is damaged or not complete: it cannot be decoded.', {
    stage,
    detail: cause instanceof Error ? cause.message : file.path,
    cause,
  })

const tooLarge = ({ file, stage, run }: Pick<Probing, 'file' | 'stage' | 'run'>): MediaError =>
  new MediaError('SOURCE_TOO_LARGE', `The picture has more than ${run.limits.pixelsMax} pixels, or is too long.`, {
    stage,
    detail: file.path,
  })

const rotationOf = ({ side_data_list }: Rotated): number =>
  Math.round(side_data_list?.find(({ rotation }) => rotation !== undefined)?.rotation ?? 0)
