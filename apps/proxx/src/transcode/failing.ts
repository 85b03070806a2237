import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { basename } from 'node:path'
import { MediaError } from '@redress/shared/media/errors'
import { ProgramFailed } from 'redress/programs'
import type { Code } from '../codes.ts'
import { errnoOf, notWritable } from '../paths.ts'

/** The failure of a clip, by name. */
export interface Verdict {
  code: Code | 'LOG_FAILED'
  detail: string
}

/** ffmpeg's exit code for a refused write: 256 minus ENOSPC. The one for EDQUOT is also a shell's code for SIGABRT. */
const DISK_FULL_EXIT = 256 - 28
/** ffmpeg catches SIGTERM and SIGINT, closes its file, and says so with both: damaged sources make it exit with 255, too. */
const STOPPED_EXIT = 255
const STOPPED = /exiting normally, received signal/i
/** A shell between us and ffmpeg tells of a signal like this: 128 and its number. */
const KILLED_EXITS: readonly (number | null)[] = [128 + 9, 128 + 15]
/** Signals of a crash: they come from the program itself, not from outside. */
const CRASHES: readonly (string | null)[] = ['SIGSEGV', 'SIGABRT', 'SIGBUS', 'SIGILL', 'SIGFPE', 'SIGTRAP', 'SIGSYS']
const CRASHED_EXITS: readonly (number | null)[] = [128 + 6, 128 + 11]
const NO_SPACE = /no space left on device|disk quota exceeded/i
/** The file could not be read, whatever its content. */
const NOT_READ =
  /error (during demuxing|opening input|reading)[^\n]*: (input\/output error|permission denied|operation not permitted|stale file handle|transport endpoint is not connected|host is down|no such device)/i

/**
 * P62: classifies the end of ffmpeg. Its messages decide only three cases: a full disk, a signal and an unreadable
 * source. For the rest the files are checked, because ffmpeg blames its "input" even if the output folder is gone.
 * Null for errors that must not be classified: the worker stops, or the lease is lost.
 */
export async function verdictOf(error: unknown, source: string, directory: string): Promise<Verdict | null> {
  if (error instanceof MediaError) return ofMedia(error)
  if (!(error instanceof ProgramFailed)) return ofSystem(error, source, directory)
  const { reason, stderrTail, message: detail } = error
  if (reason === 'aborted') return null
  const code = endOf(error)
  if (code !== null) return { code, detail }
  const gone = await sourceTrouble(source)
  if (gone !== null) return { code: gone.code, detail: `${gone.detail} ${detail}` }
  if (NOT_READ.test(stderrTail)) return { code: 'INPUT_UNREADABLE', detail: `${source} could not be read. ${detail}` }
  const why = await notWritable(directory)
  if (why !== null) return { code: 'OUTPUT_NOT_WRITABLE', detail: `${directory} ${why}. ${detail}` }
  return { code: 'FFMPEG_FAILED', detail }
}

/** Classifies the end of a program without looking at any file; null if it only exited with an error. */
export function endOf({ reason, exitCode, signal, stderrTail, message }: ProgramFailed): Verdict['code'] | null {
  if (reason === 'timeout' || signal === 'SIGXCPU') return 'FFMPEG_TIMEOUT'
  // The program's own output is all that Redress reads and writes through it.
  if (reason === 'io' || (reason === 'not-started' && message.includes('its output cannot be kept')))
    return 'LOG_FAILED'
  if (reason === 'not-started') return 'PROGRAM_MISSING'
  if (exitCode === DISK_FULL_EXIT || NO_SPACE.test(stderrTail)) return 'DISK_FULL'
  if (CRASHES.includes(signal) || CRASHED_EXITS.includes(exitCode)) return 'FFMPEG_CRASHED'
  const isStopped = exitCode === STOPPED_EXIT && STOPPED.test(stderrTail)
  return signal !== null || isStopped || KILLED_EXITS.includes(exitCode) ? 'FFMPEG_KILLED' : null
}

/** A shortage of these on the machine says nothing about a file. */
const MACHINE_ERRNOS = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']
const GONE_ERRNOS = ['ENOENT', 'ENOTDIR']

/** Why a source that was readable at submission is not readable now; null if it is. */
export async function sourceTrouble(source: string): Promise<Verdict | null> {
  try {
    const file = await open(source, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      const found = await file.stat()
      if (!found.isFile()) return unreadable(source, 'it is no regular file any more')
      if (found.size === 0) return unreadable(source, 'it is empty by now')
      for (const at of [0, found.size - 1]) await file.read(Buffer.alloc(1), 0, 1, at)
      return null
    } finally {
      await file.close()
    }
  } catch (error) {
    const errno = errnoOf(error)
    if (MACHINE_ERRNOS.includes(errno)) return null
    if (GONE_ERRNOS.includes(errno)) return { code: 'INPUT_MISSING', detail: `${source} is not there any more.` }
    return unreadable(source, errno)
  }
}

const unreadable = (source: string, why: string): Verdict => ({
  code: 'INPUT_UNREADABLE',
  detail: `${source} cannot be read any more (${why}).`,
})

/** One line for every reader: the cause that ffmpeg gave, without the machine's folders. */
export function causeOf(error: unknown, paths: readonly string[]): string | null {
  const program = error instanceof MediaError ? error.cause : error
  if (!(program instanceof ProgramFailed) || program.said === '') return null
  const said = paths.reduce((text, path) => text.replaceAll(path, basename(path)), program.said)
  return said.replace(/(?:file:)?\/(?:[^/\s:'"]+\/)+/g, '')
}

function ofMedia({ code, message, detail, cause }: MediaError): Verdict {
  const said = `${message} ${detail}`
  const isGone = code === 'SOURCE_MISSING' && (cause === undefined || GONE_ERRNOS.includes(errnoOf(cause)))
  if (isGone) return { code: 'INPUT_MISSING', detail: said }
  if (code === 'PROGRAM_MISSING') return { code: 'PROGRAM_MISSING', detail: said }
  return { code: 'INPUT_UNREADABLE', detail: said }
}

async function ofSystem(error: unknown, source: string, directory: string): Promise<Verdict | null> {
  const errno = errnoOf(error)
  const detail = error instanceof Error ? error.message : String(error)
  if (errno === 'ENOSPC' || errno === 'EDQUOT') return { code: 'DISK_FULL', detail }
  if (!/^E[A-Z0-9]+$/.test(errno)) return null
  const gone = await sourceTrouble(source)
  if (gone !== null) return { code: gone.code, detail: `${gone.detail} ${detail}` }
  const why = await notWritable(directory)
  return why === null ? null : { code: 'OUTPUT_NOT_WRITABLE', detail: `${directory} ${why}. ${detail}` }
}

/** P25: the facts of a program's end, for the failure's context. */
export function factsOf(error: unknown): Record<string, unknown> {
  const program = error instanceof MediaError ? error.cause : error
  if (!(program instanceof ProgramFailed)) return {}
  const { exitCode, signal, stoppedWith, stderrTail, command } = program
  return { exitCode, signal, stoppedWith, stderrTail, command }
}
