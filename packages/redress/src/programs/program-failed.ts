import { constants } from 'node:os'
import { redactAndClip, redactText } from '../core/text/redact.ts'
import type { CheckedOptions, ProgramLimits } from './options.ts'

/** How a program failed. */
export type ProgramFailure =
  /** It ended with an exit code other than 0. */
  | 'exit'
  /** It was killed, and not by us. */
  | 'signal'
  | 'timeout'
  /** The caller's signal stopped it. */
  | 'aborted'
  /** Not found, not executable, no such folder, no more processes. */
  | 'not-started'
  | 'output-too-large'
  /** Its input could not be read, or its output not be written. */
  | 'io'
  /** Processes that it started could not be killed. */
  | 'not-ended'

export interface ProgramFailedDetails {
  reason: ProgramFailure
  exitCode?: number | null
  signal?: string | null
  stoppedWith?: 'SIGTERM' | 'SIGKILL' | null
  code?: string | null
  stderrTail?: string
  durationMs?: number
  cause?: unknown
}

/** Everything but an end with exit code 0. Its texts are redacted. */
export class ProgramFailed extends Error {
  override readonly name = 'ProgramFailed'
  readonly reason: ProgramFailure
  readonly program: string
  /** Program and arguments, for people to read. */
  readonly command: string
  readonly subject: string | null
  /**
   * How the program ended by itself. Both are null when we ended it: a rule that takes SIGKILL for a lack of memory
   * must not fire because a time limit did its work.
   */
  readonly exitCode: number | null
  readonly signal: string | null
  /** What it took to end it, if we did. */
  readonly stoppedWith: 'SIGTERM' | 'SIGKILL' | null
  readonly timedOut: boolean
  /** The platform's code, if there is one: ENOENT, EACCES, EAGAIN, ENOSPC. */
  readonly code: string | null
  readonly stderrTail: string
  /** One line: the cause that the program printed. Empty if it printed nothing. */
  readonly said: string
  readonly durationMs: number

  constructor(run: CheckedOptions, message: string, details: ProgramFailedDetails) {
    const program = redactAndClip(run.program, 200)
    const line = oneLine(redactAndClip(`${program} ${message}`, 1000))
    super(line, details.cause === undefined ? undefined : { cause: details.cause })
    this.reason = details.reason
    this.program = program
    this.command = commandLine(run)
    this.subject = run.subject ?? null
    this.exitCode = details.exitCode ?? null
    this.signal = details.signal ?? null
    this.stoppedWith = details.stoppedWith ?? null
    this.timedOut = details.reason === 'timeout'
    this.code = details.code ?? codeOf(details.cause)
    this.stderrTail = details.stderrTail ?? ''
    this.said = oneLine(saidIn(run, this.stderrTail))
    this.durationMs = details.durationMs ?? 0
  }
}

export interface Ending {
  exitCode: number | null
  signal: string | null
  stderrTail: string
}

/** "failed with exit code 1: moov atom not found". */
export function endingInWords(ending: Ending, run: CheckedOptions): string {
  const { exitCode, signal, stderrTail } = ending
  const end = signal === null ? `failed with exit code ${exitCode}` : `was killed by ${signal}`
  const meaning = meaningOf(signal, exitCode, stderrTail, run.limits)
  return `${end}${meaning === null ? '' : ` (${meaning})`}${causeLine(run, stderrTail)}`
}

const OUT_OF_MEMORY = /out of memory|memory exhausted|cannot allocate|MemoryError|bad_alloc|ENOMEM/i

function meaningOf(
  signal: string | null,
  exitCode: number | null,
  stderrTail: string,
  limits: ProgramLimits,
): string | null {
  // A shell that lost its child to signal n exits with 128 + n.
  const reported = signal ?? (exitCode === null ? null : SIGNAL_NAMES.get(exitCode - 128)) ?? null
  const { cpuSeconds, memoryBytes, fileBytes } = limits
  const prefix = signal === null && reported !== null ? `${reported}: ` : ''
  if (reported === 'SIGXCPU') return `${prefix}it used up its ${cpuSeconds ?? '?'} s of processor time`
  if (reported === 'SIGXFSZ') return `${prefix}it wrote more into one file than its limit of ${fileBytes ?? '?'} bytes`
  if (fileBytes !== undefined && /file too large|EFBIG/i.test(stderrTail)) {
    return `${prefix}it reached its limit of ${fileBytes} bytes in one file`
  }
  if (memoryBytes !== undefined && OUT_OF_MEMORY.test(stderrTail)) {
    return `${prefix}it reached its memory limit of ${memoryBytes} bytes`
  }
  if (reported !== 'SIGKILL') return reported === signal ? null : reported
  return `${prefix}often the kernel, when memory ${cpuSeconds === undefined ? 'runs' : 'or processor time run'} out`
}

const SIGNAL_NAMES = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))

const SAID_CHARS_MAX = 300

/** Most programs print the cause last. For the others, the caller knows which line to pick. */
function saidIn({ causeIn }: CheckedOptions, stderrTail: string): string {
  const picked = causeIn?.(stderrTail) ?? lastLine(stderrTail)
  return picked.length > SAID_CHARS_MAX ? `${picked.slice(0, SAID_CHARS_MAX - 1)}…` : picked
}

const lastLine = (stderrTail: string): string =>
  stderrTail
    .trimEnd()
    .split(/[\r\n]+/)
    .at(-1)
    ?.trim() ?? ''

/** ": moov atom not found", for the end of a sentence. */
export function causeLine(run: CheckedOptions, stderrTail: string): string {
  const said = saidIn(run, stderrTail)
  return said === '' ? '' : `: ${said}`
}

export function explain(cause: unknown): string {
  if (typeof cause === 'string') return cause
  return cause instanceof Error ? cause.message : 'no reason was given'
}

function codeOf(cause: unknown): string | null {
  const code = cause instanceof Error && 'code' in cause ? cause.code : null
  return typeof code === 'string' ? code : null
}

// What a program wrote may hold orders to the terminal.
const oneLine = (text: string): string => text.replace(/\p{Cc}+/gu, ' ').trim()

const REDACTED = '[redacted]'
const COMMAND_CHARS_MAX = 2000

function commandLine({ program, args }: CheckedOptions): string {
  const shown = args.map((arg, index) => (isSecretOf(args[index - 1], arg) ? REDACTED : shownArgument(arg)))
  const command = [program, ...shown].map((part) => (/^[\w@%+=:,./[\]-]+$/.test(part) ? part : JSON.stringify(part)))
  return redactAndClip(command.join(' '), COMMAND_CHARS_MAX)
}

/** `--password x`, `-u bob:x`: asked word by word, because a value with blanks in it is one argument here. */
function isSecretOf(flag: string | undefined, arg: string): boolean {
  if (flag === undefined || !/^--?[\w-]+$/.test(flag)) return false
  const probe = ` ${flag} ${arg.includes(':') ? 'x:x' : 'x'}`
  return redactText(probe) !== probe
}

/** Where a secret with blanks in it ends cannot be known, so nothing of the argument is shown. */
function shownArgument(arg: string): string {
  const safe = redactText(arg)
  return safe !== arg && /\s/.test(arg) ? REDACTED : safe
}
