import { ProgramFailed } from 'redress'
import { MediaError, type MediaStage, machineFailure } from '../../shared/media/errors.ts'
import { type MediaRun, runFfmpeg, runFfprobe } from '../../shared/media/ffmpeg.ts'
import { clockMsOf, fpsOf, millisecondsOf } from '../../shared/media/ffprobe-values.ts'
import { type MediaLimits, mediaLimits } from '../../shared/media/limits.ts'
import { findPrograms, type MediaPrograms } from '../../shared/media/programs.ts'
import { inputArguments, type SniffedFile, sniff } from '../../shared/media/sniff.ts'

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
  hasAudio: boolean
  audioCodec: string | null
  /** In degrees, counterclockwise. */
  rotation: number
  /** Of the picture and the sound among the file's streams. */
  videoIndex: number
  audioIndex: number | null
  file: SniffedFile
}

export interface ProbeOptions {
  signal?: AbortSignal | undefined
  limits?: Partial<MediaLimits> | undefined
  programs?: MediaPrograms | undefined
  stage?: MediaStage | undefined
}

/**
 * Says what a file is and refuses what is no video or image, does not decode, or is absurdly large. The file is taken
 * for hostile: only the reader that its first bytes call for is used, and nothing else is opened.
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
  const audio = streams.find(({ codec_type }) => codec_type === 'audio')
  checkSize(probing, video.width ?? 0, video.height ?? 0)
  const frame = await decodeFirstFrame(probing, video)
  const rotation = rotationOf(frame) || rotationOf(video)
  const isTurned = Math.abs(rotation) % 180 === 90
  return {
    kind: file.kind,
    width: isTurned ? frame.height : frame.width,
    height: isTurned ? frame.width : frame.height,
    ...(file.kind === 'image'
      ? { durationMs: 0, frames: 1, fps: 0 }
      : await timing(probing, video, audio === undefined ? containerMs : null)),
    codec: video.codec_name ?? '',
    pixelFormat: frame.pix_fmt,
    hasAudio: audio !== undefined,
    audioCodec: audio?.codec_name ?? null,
    rotation,
    videoIndex: video.index,
    audioIndex: audio?.index ?? null,
    file,
  }
}

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
  /** Where Matroska has it. */
  tags?: { DURATION?: string }
  disposition?: { attached_pic?: number }
}

interface Frame extends Rotated {
  width: number
  height: number
  pix_fmt: string
}

const STREAM_ENTRIES =
  'format=duration:stream=index,codec_type,codec_name,width,height,avg_frame_rate,r_frame_rate,nb_frames,duration' +
  ':stream_tags=DURATION:stream_side_data=rotation:stream_disposition=attached_pic'

async function readHeaders(probing: Probing): Promise<{ streams: Stream[]; containerMs: number | null }> {
  const { streams = [], format } = (await ask(probing, ['-show_entries', STREAM_ENTRIES])) as {
    streams?: Stream[]
    format?: { duration?: string }
  }
  return { streams, containerMs: millisecondsOf(format?.duration) }
}

/** A header is only a promise: the first frame shows whether there is anything behind it. */
async function decodeFirstFrame(probing: Probing, { index }: Stream): Promise<Frame> {
  const { frames } = (await ask(probing, [
    ...['-select_streams', String(index), '-read_intervals', '%+#1', '-show_frames'],
    ...['-show_entries', 'frame=width,height,pix_fmt:frame_side_data=rotation'],
  ])) as { frames?: Frame[] }
  const frame = frames?.[0]
  if (frame === undefined || !(frame.width > 0 && frame.height > 0)) throw corrupt(probing)
  return frame
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
  /** Null where the sound may be what lasts so long. */
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

/** What was recorded live never had its duration written into its head. */
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
