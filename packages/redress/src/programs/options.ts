import { Readable } from 'node:stream'
import { RedressError } from '../core/errors.ts'
import { optionNames, refuseUnknownOptions } from '../core/text/options.ts'
import { type Clock, systemClock } from '../runtime/clock.ts'

/** Kept by the kernel for each process by itself, so children do not share one allowance. */
export interface ProgramLimits {
  /** Processor time. SIGXCPU when it is used up; SIGKILL five seconds later for a program that goes on. */
  cpuSeconds?: number | undefined
  /** Address space: more than a program touches. Node itself needs about 2 GiB of it, ffmpeg a few hundred MiB. */
  memoryBytes?: number | undefined
  /** The largest file it may write: SIGXFSZ beyond. */
  fileBytes?: number | undefined
  openFiles?: number | undefined
  /** Counts everything its user runs, and does not bind root. */
  processes?: number | undefined
}

/** The options of `runProgram()`. */
export interface ProgramOptions {
  /** A name that is looked up in PATH, or a path, which is relative to `cwd`. */
  program: string
  /** Given to the program as they are: there is no shell, so nothing in them is expanded or split. */
  args?: readonly string[] | undefined
  cwd?: string | undefined
  /** All the program gets, beside PATH, LANG, LC_ALL, TZ and TMPDIR. Nothing else is inherited. */
  env?: Readonly<Record<string, string>> | undefined
  /** What it reads from stdin, which is closed otherwise. */
  input?: string | Uint8Array | Readable | undefined
  /** Stops the program; `attempt.signal` in a handler. */
  signal?: AbortSignal | undefined
  /** One hour unless said; `Infinity` to leave it to the signal. */
  timeoutMs?: number | undefined
  /** How long a program that was told to stop (SIGTERM) may take before it is killed (SIGKILL). */
  killAfterMs?: number | undefined
  /** Ignored unless said. A file is written by the program itself; `onLine` is called for each line as it comes. */
  stdout?: 'ignore' | 'text' | { file: string } | { onLine: (line: string) => void } | undefined
  /** With `stdout: 'text'`: a program that says more is stopped. */
  stdoutBytesMax?: number | undefined
  /** Appended to, as it comes and unredacted. */
  stderrFile?: string | undefined
  /** What one run may add to the file. Of more, the beginning and the end are kept. */
  stderrBytesMax?: number | undefined
  /** How much of the end of stderr the result or the failure carries. */
  stderrTailBytes?: number | undefined
  onStderrLine?: ((line: string) => void) | undefined
  /** Picks the cause of a failure from the tail of stderr; its last line unless given. */
  causeIn?: ((stderrTail: string) => string) | undefined
  /** Longer lines are cut before a callback sees them. */
  lineBytesMax?: number | undefined
  limits?: ProgramLimits | undefined
  /** What this is about ('input', 'output', ...), for rules that classify by subject. */
  subject?: string | undefined
  clock?: Clock | undefined
}

const DEFAULTS = {
  args: [] as readonly string[],
  env: {} as Readonly<Record<string, string>>,
  timeoutMs: 60 * 60 * 1000,
  killAfterMs: 5000,
  stdout: 'ignore',
  stdoutBytesMax: 1 << 20,
  stderrBytesMax: 10 << 20,
  stderrTailBytes: 4096,
  lineBytesMax: 8192,
  limits: {} as ProgramLimits,
  clock: systemClock,
} as const satisfies Partial<ProgramOptions>

type Defaulted = keyof typeof DEFAULTS
export type CheckedOptions = Omit<ProgramOptions, Defaulted> & {
  [Key in Defaulted]-?: NonNullable<ProgramOptions[Key]>
}

/** What Node's timers can count; a longer delay would end at once or early. */
const TIMER_MS_MAX = 2 ** 31 - 1

const NUMBERS: readonly [keyof ProgramOptions, min: number, max: number][] = [
  ['timeoutMs', 1, TIMER_MS_MAX],
  ['killAfterMs', 0, TIMER_MS_MAX],
  ['stdoutBytesMax', 1, 1 << 29],
  ['stderrBytesMax', 0, Number.MAX_SAFE_INTEGER],
  ['stderrTailBytes', 256, 1 << 20],
  ['lineBytesMax', 1, 1 << 24],
]

const LIMIT_NAMES = optionNames<ProgramLimits>({
  cpuSeconds: true,
  memoryBytes: true,
  fileBytes: true,
  openFiles: true,
  processes: true,
})

const OPTION_NAMES = optionNames<ProgramOptions>({
  program: true,
  args: true,
  cwd: true,
  env: true,
  input: true,
  signal: true,
  timeoutMs: true,
  killAfterMs: true,
  stdout: true,
  stdoutBytesMax: true,
  stderrFile: true,
  stderrBytesMax: true,
  stderrTailBytes: true,
  onStderrLine: true,
  causeIn: true,
  lineBytesMax: true,
  limits: true,
  subject: true,
  clock: true,
})

/** Fills in the defaults, or names everything that is wrong. */
export function checkOptions(given: ProgramOptions): CheckedOptions {
  refuseUnknownOptions('runProgram()', given, OPTION_NAMES)
  const said = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined))
  const options = { ...DEFAULTS, ...said } as CheckedOptions
  const problems = [
    ...commandProblems(options),
    ...streamProblems(options),
    ...NUMBERS.flatMap(([name, min, max]) => numberProblems(name, options[name], min, max)),
    ...limitProblems(options.limits),
  ]
  if (problems.length === 0) return options
  throw new RedressError('OPTION_INVALID', `runProgram: ${problems.join('; ')}.`, { problems })
}

function commandProblems({ program, args, cwd, env, subject, signal }: CheckedOptions): string[] {
  const problems = [...textProblems('program', program, true), ...textProblems('cwd', cwd ?? '.', true)]
  if (!Array.isArray(args)) problems.push('args must be a list of strings: there is no shell to split a text')
  else problems.push(...args.flatMap((arg, index) => textProblems(`args[${index}]`, arg)))
  if (!isRecord(env)) problems.push('env must be an object of strings')
  else {
    for (const [name, value] of Object.entries(env)) {
      if (!/^[^=\0]+$/.test(name)) problems.push(`env has the name ${JSON.stringify(name)}, which no variable can have`)
      problems.push(...textProblems(`env.${name}`, value))
    }
  }
  if (subject !== undefined) problems.push(...textProblems('subject', subject))
  if (signal !== undefined && !(signal instanceof AbortSignal)) problems.push('signal must be an AbortSignal')
  return problems
}

function streamProblems({ input, stdout, stderrFile, onStderrLine, causeIn }: CheckedOptions): string[] {
  const problems: string[] = []
  if (input instanceof Readable) {
    if (input.destroyed || input.readableEnded) problems.push('input is a stream that has ended already')
  } else if (input !== undefined && typeof input !== 'string' && !(input instanceof Uint8Array)) {
    problems.push('input must be a string, bytes or a Readable')
  }
  if (isRecord(stdout) && 'file' in stdout) problems.push(...textProblems('stdout.file', stdout.file, true))
  else if (stdout !== 'ignore' && stdout !== 'text' && !(isRecord(stdout) && typeof stdout.onLine === 'function')) {
    problems.push("stdout must be 'ignore', 'text', { file } or { onLine }")
  }
  if (stderrFile !== undefined) problems.push(...textProblems('stderrFile', stderrFile, true))
  if (onStderrLine !== undefined && typeof onStderrLine !== 'function') problems.push('onStderrLine must be a function')
  if (causeIn !== undefined && typeof causeIn !== 'function') problems.push('causeIn must be a function')
  return problems
}

function limitProblems(limits: ProgramLimits): string[] {
  refuseUnknownOptions('limits of runProgram()', limits, LIMIT_NAMES)
  return Object.entries(limits).flatMap(([name, value]) =>
    value === undefined ? [] : numberProblems(`limits.${name}`, value, 1, Number.MAX_SAFE_INTEGER),
  )
}

/** The kernel ends a text at its first NUL byte: what follows would be lost, and with it what the caller meant. */
function textProblems(name: string, value: unknown, isNeeded = false): string[] {
  if (typeof value !== 'string') return [`${name} must be a string`]
  if (value.includes('\0')) return [`${name} has a NUL byte in it`]
  return isNeeded && value === '' ? [`${name} is empty`] : []
}

function numberProblems(name: string, value: unknown, min: number, max: number): string[] {
  if (name === 'timeoutMs' && value === Number.POSITIVE_INFINITY) return []
  const isFine = typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max
  return isFine ? [] : [`${name} must be a whole number from ${min} to ${max}, not ${String(value)}`]
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
