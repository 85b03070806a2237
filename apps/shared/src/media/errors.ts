import { ProgramFailed } from 'redress/programs'

interface CodeSpec {
  /** Whether a retry is useless. */
  isPermanent: boolean
  action: string
}

/** All failures of media work. Job types take their codes and their permanence from here. */
export const MEDIA_CODES = {
  SOURCE_MISSING: { isPermanent: true, action: 'Upload the file again: it is not there, or may not be read.' },
  SOURCE_CORRUPT: { isPermanent: true, action: 'Upload a file that plays from its beginning to its end.' },
  SOURCE_UNSUPPORTED: {
    isPermanent: true,
    action: 'Upload a video (MP4, MOV, MKV, WebM, AVI, MPEG-TS) or an image (PNG, JPEG, WebP).',
  },
  SOURCE_ANIMATED: { isPermanent: true, action: 'Convert it to a video (MP4, WebM) and upload that.' },
  SOURCE_TOO_LARGE: { isPermanent: true, action: 'Upload a smaller or shorter file.' },
  TEXT_UNUSABLE: { isPermanent: true, action: 'Give a text that has at least one visible character.' },
  TEXT_UNDRAWABLE: {
    isPermanent: true,
    action: 'Write the name with other characters, or have a font installed that has them (WATERMARK_FONT).',
  },
  KEY_TOO_SHORT: { isPermanent: true, action: 'Give a secret key of at least 16 bytes.' },
  PROGRAM_MISSING: {
    isPermanent: false,
    action: 'Install ffmpeg with ffprobe, or name them with FFMPEG_PATH and FFPROBE_PATH.',
  },
  FONT_MISSING: { isPermanent: false, action: 'Put the font back where the setting says.' },
  OUT_OF_MEMORY: { isPermanent: false, action: 'Run fewer encodes at a time, or give the machine more memory.' },
  TIMED_OUT: { isPermanent: false, action: 'Try when the machine is less busy, or raise the time limit.' },
  DISK_FULL: { isPermanent: false, action: 'Make room on the disk.' },
  WRITE_FAILED: { isPermanent: false, action: 'Check the folder of the output: its disk, its rights and its limits.' },
  OUTPUT_WRONG: { isPermanent: false, action: 'Try again; if it stays so, keep the source and look at the detail.' },
  MEDIA_FAILED: { isPermanent: false, action: 'Try again; the end of what the program said is kept with the failure.' },
} as const satisfies Record<string, CodeSpec>

export type MediaCode = keyof typeof MEDIA_CODES

/** The step that failed. */
export type MediaStage = 'prepare' | 'probe' | 'encode' | 'verify' | 'detect' | 'thumbnail'

export interface MediaErrorDetails {
  stage: MediaStage
  /** For those who run the system: may name files and numbers that the message leaves out. */
  detail?: string | undefined
  cause?: unknown
}

/** A failure with a named cause. Everyone may read the message; it never contains a path of the server. */
export class MediaError extends Error {
  override readonly name = 'MediaError'
  readonly code: MediaCode
  readonly isPermanent: boolean
  readonly action: string
  readonly stage: MediaStage
  readonly detail: string
  readonly exitCode: number | null
  readonly signal: string | null
  readonly stderrTail: string

  constructor(code: MediaCode, message: string, { stage, detail, cause }: MediaErrorDetails) {
    super(message, cause === undefined ? undefined : { cause })
    const program = cause instanceof ProgramFailed ? cause : null
    this.code = code
    this.isPermanent = MEDIA_CODES[code].isPermanent
    this.action = MEDIA_CODES[code].action
    this.stage = stage
    this.detail = detail ?? program?.message ?? ''
    this.exitCode = program?.exitCode ?? null
    this.signal = program?.signal ?? null
    this.stderrTail = program?.stderrTail ?? ''
  }
}

/** The exit codes of ffmpeg after a refused write: 256 minus the number of ENOSPC and EDQUOT. */
const DISK_FULL_EXITS = [256 - 28, 256 - 122]

/**
 * The failure of the machine that the end of a program shows; null if the file may be at fault. An abort is thrown
 * on, because the engine reads its cause.
 */
export function machineFailure(error: unknown, stage: MediaStage): Error | null {
  if (!(error instanceof ProgramFailed)) return error instanceof Error ? systemFailure(error, stage) : null
  const { reason, exitCode, signal, stderrTail } = error
  const failure = (code: MediaCode, message: string) => new MediaError(code, message, { stage, cause: error })
  if (reason === 'aborted') return error
  if (reason === 'timeout' || signal === 'SIGXCPU') return failure('TIMED_OUT', 'It took longer than it may.')
  if (reason === 'not-started') return failure('PROGRAM_MISSING', 'The media program could not be started.')
  if (reason === 'io') return systemFailure(error, stage)
  if (signal === 'SIGKILL' || exitCode === 137 || /cannot allocate memory/i.test(stderrTail)) {
    return failure('OUT_OF_MEMORY', 'The media program was killed, most likely for lack of memory.')
  }
  if (DISK_FULL_EXITS.includes(exitCode ?? 0) || /no space left on device|disk quota exceeded/i.test(stderrTail)) {
    return failure('DISK_FULL', 'There is no room left on the disk.')
  }
  if (signal === 'SIGXFSZ' || /file too large|read-only file system|input\/output error/i.test(stderrTail)) {
    return failure('WRITE_FAILED', 'The output could not be written.')
  }
  return signal === null ? null : failure('MEDIA_FAILED', `The media program was stopped by ${signal}.`)
}

function systemFailure(error: Error, stage: MediaStage): MediaError | null {
  const errno = 'code' in error && typeof error.code === 'string' ? error.code : ''
  const details = { stage, detail: error.message, cause: error }
  if (['ENOSPC', 'EDQUOT'].includes(errno)) {
    return new MediaError('DISK_FULL', 'There is no room left on the disk.', details)
  }
  return /^E[A-Z0-9]+$/.test(errno) ? new MediaError('WRITE_FAILED', 'A file could not be written.', details) : null
}

/** Gives every failure a name. An unexplained failure is retried. */
export function named(error: unknown, stage: MediaStage): Error {
  if (error instanceof MediaError) return error
  const known = machineFailure(error, stage)
  if (known !== null) return known
  if (!(error instanceof ProgramFailed)) return error instanceof Error ? error : new Error(String(error))
  return new MediaError('MEDIA_FAILED', 'The media program failed.', { stage, cause: error })
}
