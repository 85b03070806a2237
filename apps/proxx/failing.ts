import { ProgramFailed } from 'redress'
import { MediaError } from '../shared/media/errors.ts'
import type { Code } from './codes.ts'
import { errnoOf, isThere, notWritable } from './paths.ts'

/** What went wrong with a clip, by name. */
export interface Verdict {
  code: Code | 'LOG_FAILED'
  detail: string
}

/** What ffmpeg exits with when a write was refused: 256 minus the number of ENOSPC or EDQUOT. */
const DISK_FULL_EXITS: readonly (number | null)[] = [256 - 28, 256 - 122]
/** ffmpeg catches SIGTERM and SIGINT, closes its file, and says so with both: damaged sources make it exit with 255, too. */
const STOPPED_EXIT = 255
const STOPPED = /exiting normally, received signal/i
/** A shell between us and ffmpeg tells of a signal like this: 128 and its number. */
const SIGNALLED_EXITS: readonly (number | null)[] = [128 + 9, 128 + 15]
const NO_SPACE = /no space left on device|disk quota exceeded/i

/**
 * P62: what the end of ffmpeg means. Its words are asked for two things only, the full disk and the signal; for the
 * rest the files are looked at: ffmpeg speaks of its "input" also when the folder of the output is gone. Null for what must stay what it
 * is: the worker stops, or the lease is lost.
 */
export async function verdictOf(error: unknown, source: string, directory: string): Promise<Verdict | null> {
  if (error instanceof MediaError) return ofMedia(error)
  if (!(error instanceof ProgramFailed)) return ofSystem(error, directory)
  const { reason, exitCode, signal, stderrTail, message: detail } = error
  if (reason === 'aborted') return null
  if (reason === 'timeout' || signal === 'SIGXCPU') return { code: 'FFMPEG_TIMEOUT', detail }
  // Nothing else of ours is written or read through the program but what it says.
  if (reason === 'io' || (reason === 'not-started' && detail.includes('its output cannot be kept'))) {
    return { code: 'LOG_FAILED', detail }
  }
  if (reason === 'not-started') return { code: 'PROGRAM_MISSING', detail }
  if (DISK_FULL_EXITS.includes(exitCode) || NO_SPACE.test(stderrTail)) return { code: 'DISK_FULL', detail }
  const isStopped = exitCode === STOPPED_EXIT && STOPPED.test(stderrTail)
  if (signal !== null || isStopped || SIGNALLED_EXITS.includes(exitCode)) {
    return { code: 'FFMPEG_KILLED', detail }
  }
  if (!(await isThere(source))) return { code: 'INPUT_MISSING', detail: `${source} is not there any more. ${detail}` }
  const why = await notWritable(directory)
  if (why !== null) return { code: 'OUTPUT_NOT_WRITABLE', detail: `${directory} ${why}. ${detail}` }
  return { code: 'FFMPEG_FAILED', detail }
}

function ofMedia({ code, message, detail }: MediaError): Verdict {
  const said = `${message} ${detail}`
  if (code === 'SOURCE_MISSING') return { code: 'INPUT_MISSING', detail: said }
  if (code === 'PROGRAM_MISSING') return { code: 'PROGRAM_MISSING', detail: said }
  return { code: 'INPUT_UNREADABLE', detail: said }
}

async function ofSystem(error: unknown, directory: string): Promise<Verdict | null> {
  const errno = errnoOf(error)
  const detail = error instanceof Error ? error.message : String(error)
  if (errno === 'ENOSPC' || errno === 'EDQUOT') return { code: 'DISK_FULL', detail }
  const why = /^E[A-Z0-9]+$/.test(errno) ? await notWritable(directory) : null
  return why === null ? null : { code: 'OUTPUT_NOT_WRITABLE', detail: `${directory} ${why}. ${detail}` }
}

/** P25: the facts of a program's end, for the failure's context. */
export function factsOf(error: unknown): Record<string, unknown> {
  const program = error instanceof MediaError ? error.cause : error
  if (!(program instanceof ProgramFailed)) return {}
  const { exitCode, signal, stoppedWith, stderrTail, command } = program
  return { exitCode, signal, stoppedWith, stderrTail, command }
}
