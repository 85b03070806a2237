import { type ProgramResult, runProgram } from 'redress/programs'
import { kernelLimits, type MediaLimits } from './limits.ts'
import type { MediaProgram } from './programs.ts'

export interface MediaRun {
  limits: MediaLimits
  signal?: AbortSignal | undefined
  /** The subject of this run, for the failure. */
  subject: 'source' | 'output'
  cwd?: string | undefined
  /** Where what it says is kept whole. */
  stderrFile?: string | undefined
  /** A file that is there already is a failure; otherwise it is overwritten. */
  keepsExisting?: boolean | undefined
  /** Each line on its standard output, for what it says beside how far it is, or more than is kept as a whole. */
  onLine?: ((line: string) => void) | undefined
  /** Called for each line on standard error, including lines beyond the part that is kept. */
  onStderrLine?: ((line: string) => void) | undefined
}

/** The last progress that ffmpeg reported. */
export interface Progress {
  frames: number
  timeMs: number
}

/**
 * Static builds of these programs crash with SIGSEGV when they load the machine's character tables, as they do for
 * the channel names of every MPEG-TS file. The names are not needed, so the tables are hidden.
 */
const ENV = { GCONV_PATH: '/nonexistent' }

const QUIETLY = ['-v', 'level+error', '-nostats', '-progress', 'pipe:1']

/** Lines that ffmpeg writes after an error, and lines that mean nothing on their own. */
const NO_CAUSE = [
  /^conversion failed!?$/i,
  /^(task finished|terminating thread) with /i,
  /^(nothing was written into|could not open encoder before eof|last message repeated)/i,
  /^error opening (input|output) files?\b/i,
  /^(frame=|size=|video:|\w+ streams?:)/i,
]
const SOUNDS_LIKE_A_CAUSE =
  /\b(errors?|invalid|failed|failure|cannot|can't|could not|unable|denied|not permitted|no such|no space|unknown|unsupported|corrupt\w*|truncated|missing|exceeded|not found)\b/i
const ERRORS_KEPT_MAX = 200
const ERROR_CHARS_MAX = 500

/**
 * Finds the cause that ffmpeg gave. Its last line is "Conversion failed!". Between the cause and that line come
 * follow-up errors and statistics of the encoder, more than the kept tail of stderr. So lines are read as they
 * arrive.
 */
export class FfmpegWords {
  readonly #errors: string[] = []

  readonly onStderrLine = (line: string): void => {
    if (this.#errors.length >= ERRORS_KEPT_MAX || !/\[(error|fatal|panic)\]/.test(line)) return
    this.#errors.push(line.slice(0, ERROR_CHARS_MAX))
  }

  readonly causeIn = (stderrTail: string): string => {
    const [first, ...later] = causesAmong(this.#errors)
    if (first !== undefined) {
      // The earlier line is the decoder's own message; this one is ffmpeg's name for it.
      const named = /^error /i.test(first) ? undefined : later.find((line) => /^error [^:]*: ./i.test(line))
      return named === undefined ? first : `${first.replace(/\.$/, '')}. ${named}`
    }
    // A crash or a signal leaves no error message, and earlier lines about streams are not the cause. If lines have
    // levels, a line without one is the rest of a truncated line.
    const said = stderrTail.split(/[\r\n]+/)
    const isLevelled = said.some((line) => /\[(info|verbose|debug)\]/.test(line))
    const lines = causesAmong(isLevelled ? said.filter((line) => /\[(warning|error|fatal|panic)\]/.test(line)) : said)
    return lines.find((line) => SOUNDS_LIKE_A_CAUSE.test(line)) ?? lines.at(-1) ?? ''
  }
}

/** Without the names, addresses and levels of ffmpeg's components. */
const causesAmong = (lines: readonly string[]): string[] =>
  lines
    .map((line) => line.replace(/^(\s*\[[^\]]*\])+\s*/, '').trim())
    .filter((line) => line !== '' && !NO_CAUSE.some((pattern) => pattern.test(line)))

/** Threads are a fixed number, because what an encoder writes depends on it. */
export const THREADS = ['-threads', '2']

/**
 * Runs ffmpeg quietly, without a terminal, and reports its progress. Throws `ProgramFailed` for every failure; the
 * caller interprets it, because it knows the step and the file.
 */
export async function runFfmpeg(
  { path }: MediaProgram,
  args: readonly string[],
  run: MediaRun,
  onProgress: (progress: Progress) => void = () => undefined,
): Promise<Progress> {
  const progress: Progress = { frames: 0, timeMs: 0 }
  const words = new FfmpegWords()
  await runProgram({
    program: path,
    args: ['-nostdin', '-hide_banner', run.keepsExisting ? '-n' : '-y', ...QUIETLY, ...args],
    env: ENV,
    cwd: run.cwd,
    signal: run.signal,
    timeoutMs: run.limits.workTimeoutMs,
    limits: kernelLimits(run.limits),
    subject: run.subject,
    stderrFile: run.stderrFile,
    onStderrLine: (line) => {
      words.onStderrLine(line)
      run.onStderrLine?.(line)
    },
    causeIn: words.causeIn,
    stdout: {
      onLine: (line) => {
        run.onLine?.(line)
        const [name, value] = line.split('=', 2)
        if (name === 'frame') progress.frames = Number(value)
        // "N/A" until the first frame is out.
        if (name === 'out_time_us' && /^\d+$/.test(value ?? '')) progress.timeMs = Number(value) / 1000
        if (name === 'progress') onProgress({ ...progress })
      },
    },
  })
  return progress
}

/** Runs ffprobe and gives what it says as JSON, which holds only the entries that were asked for. */
export function runFfprobe({ path }: MediaProgram, args: readonly string[], run: MediaRun): Promise<ProgramResult> {
  return runProgram({
    program: path,
    args: ['-v', 'error', '-hide_banner', '-of', 'json', ...args],
    env: ENV,
    signal: run.signal,
    timeoutMs: run.limits.probeTimeoutMs,
    limits: kernelLimits(run.limits),
    subject: run.subject,
    stdout: run.onLine === undefined ? 'text' : { onLine: run.onLine },
  })
}

/** Of what ffprobe writes as text: seconds, with a fraction. */
export function millisecondsOf(seconds: string | undefined): number | null {
  const value = Number(seconds)
  return value > 0 ? Math.round(value * 1000) : null
}

/** "00:01:02.500000000", as Matroska has it. */
export function clockMsOf(text: string | undefined): number | null {
  const [, hours, minutes, seconds] = /^(\d+):(\d\d):(\d\d(?:\.\d+)?)$/.exec(text ?? '') ?? []
  return millisecondsOf(String(Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)))
}

/** "30000/1001"; null for "0/0", and for what no camera makes. */
export function fpsOf(fraction: string | undefined): number | null {
  const [over = 0, under = 0] = (fraction ?? '').split('/').map(Number)
  const value = over / under
  return value > 0 && value < 1000 ? value : null
}
