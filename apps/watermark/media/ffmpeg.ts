import { type ProgramResult, runProgram } from 'redress'
import { kernelLimits, type MediaLimits } from './limits.ts'
import type { MediaProgram } from './programs.ts'

export interface MediaRun {
  limits: MediaLimits
  signal?: AbortSignal | undefined
  /** What this run is about, for the failure. */
  subject: 'source' | 'output'
  cwd?: string | undefined
}

/** What ffmpeg said last of how far it got. */
export interface Progress {
  frames: number
  timeMs: number
}

/**
 * Static builds of these programs end with SIGSEGV when they load the machine's own tables of characters, as they do for
 * the names of channels in every MPEG-TS file. Nobody reads those names here, so no tables are found.
 */
const ENV = { GCONV_PATH: '/nonexistent' }

/** Threads are a fixed number, because what an encoder writes depends on it. */
export const THREADS = ['-threads', '2']

/**
 * Runs ffmpeg quietly, without a terminal, and reports how far it is. Throws `ProgramFailed` for every end but a good
 * one; what that means is for the caller to say, who knows what was being done to which file.
 */
export async function runFfmpeg(
  { path }: MediaProgram,
  args: readonly string[],
  run: MediaRun,
  onProgress: (progress: Progress) => void = () => undefined,
): Promise<Progress> {
  const progress: Progress = { frames: 0, timeMs: 0 }
  await runProgram({
    program: path,
    args: ['-nostdin', '-hide_banner', '-y', '-v', 'error', '-nostats', '-progress', 'pipe:1', ...args],
    env: ENV,
    cwd: run.cwd,
    signal: run.signal,
    timeoutMs: run.limits.workTimeoutMs,
    limits: kernelLimits(run.limits),
    subject: run.subject,
    stdout: {
      onLine: (line) => {
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
    stdout: 'text',
  })
}
