import { RedressError } from '../core/errors.ts'
import { printable } from '../core/text/printable.ts'
import { redactAddresses, redactAndClip, redactValue } from '../core/text/redact.ts'
import { idleTimer, systemClock } from '../runtime/clock.ts'
import { type Log, NEVER_LOGGED, silentLog } from '../runtime/log.ts'

/** More lines about the same thing within this time are counted and not written. */
const PERIOD_MS = 60_000
const LINES_MAX = 10
/** More different things than this are counted as one. */
const KINDS_MAX = 500
const STACK_CHARS_MAX = 4_000

interface Output {
  write(line: string): void
  /** Lines for people; otherwise one JSON object per line. */
  isTerminal: boolean
  hasColour: boolean
  nowMs(): number
  /** Must not keep the process alive. */
  later(ms: number, wake: () => void): void
}

type Level = 'info' | 'warn' | 'error'

interface Kind {
  level: Level
  fields: Record<string, unknown>
  message: string
  sinceMs: number
  lines: number
  leftOut: number
}

/**
 * The log of a program that names none: warnings and errors on standard error. A storm of failures must not fill a disk or
 * hide everything else, so lines about the same thing are bounded.
 */
export class DefaultLog implements Log {
  readonly #output: Output
  readonly #kinds = new Map<string, Kind>()

  constructor(output: Output) {
    this.#output = output
  }

  debug(): void {}
  info(): void {}

  warn(fields: object, message: string): void {
    this.#bounded('warn', fields as Record<string, unknown>, message)
  }

  error(fields: object, message: string): void {
    this.#bounded('error', fields as Record<string, unknown>, message)
  }

  /** Written although it is not a warning: what a person who starts or stops the program must see. */
  notice(fields: object, message: string): void {
    this.#write('info', fields as Record<string, unknown>, message)
  }

  /** Says what was left out so far. */
  flush(): void {
    for (const kind of this.#kinds.values()) this.#tellLeftOut(kind)
    this.#kinds.clear()
  }

  #bounded(level: Level, fields: Record<string, unknown>, message: string): void {
    const kind = this.#kindOf(level, fields, message)
    if (kind.lines < LINES_MAX) {
      kind.lines++
      this.#write(level, fields, message)
      return
    }
    kind.leftOut++
  }

  #kindOf(level: Level, fields: Record<string, unknown>, message: string): Kind {
    const { type, error_code } = fields
    const known = `${level} ${message} ${String(type)} ${String(error_code)}`
    const name = this.#kinds.has(known) || this.#kinds.size < KINDS_MAX ? known : 'more'
    const found = this.#kinds.get(name)
    if (found !== undefined) return found
    const about = name === 'more' ? {} : { type, error_code }
    const text = name === 'more' ? 'lines of other kinds' : message
    const kind: Kind = { level, fields: about, message: text, sinceMs: this.#output.nowMs(), lines: 0, leftOut: 0 }
    this.#kinds.set(name, kind)
    this.#output.later(PERIOD_MS, () => {
      if (this.#kinds.get(name) !== kind) return
      this.#kinds.delete(name)
      this.#tellLeftOut(kind)
    })
    return kind
  }

  #tellLeftOut({ level, fields, message, sinceMs, leftOut }: Kind): void {
    if (leftOut === 0) return
    const seconds = Math.max(1, Math.round((this.#output.nowMs() - sinceMs) / 1_000))
    const more = `${message}: ${leftOut} more in the last ${seconds} s were not logged`
    this.#write(level, { ...fields, left_out: leftOut }, more)
  }

  #write(level: Level, fields: Record<string, unknown>, message: string): void {
    const { isTerminal, write, nowMs } = this.#output
    const time = new Date(nowMs()).toISOString()
    const safe = safeFields(fields)
    write(
      redactAddresses(
        isTerminal
          ? this.#forPeople(time, level, safe, message)
          : JSON.stringify({ level, time, ...safe, msg: message }),
      ),
    )
  }

  #forPeople(time: string, level: Level, { err, ...fields }: Record<string, unknown>, message: string): string {
    const paint = (code: number, text: string) => (this.#output.hasColour ? `\u001b[${code}m${text}\u001b[0m` : text)
    const { message: said, stack } = (err ?? {}) as { message?: unknown; stack?: unknown }
    const shown = Object.entries({ ...fields, ...(said !== undefined && { error: said }) })
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => paint(DIM, `${name}=`) + plain(value))
    const at = paint(DIM, time.slice(11, 19))
    const line = [at, paint(COLOURS[level], level.toUpperCase().padEnd(5)), printable(message), ...shown].join(' ')
    const frames =
      typeof stack === 'string'
        ? stack
            .split('\n')
            .slice(1)
            .map((frame) => `\n    ${printable(frame.trim())}`)
        : []
    return level === 'error' ? line + frames.join('') : line
  }
}

const DIM = 2
const COLOURS: Readonly<Record<Level, number>> = { info: 36, warn: 33, error: 31 }

/** A word as it is, everything else in quotes: then control characters are escaped, too. */
function plain(value: unknown): string {
  if (typeof value === 'string' && /^[\w.:/@[\]+-]+$/.test(value)) return value
  return printable(JSON.stringify(value) ?? String(value))
}

function safeFields(fields: Record<string, unknown>): Record<string, unknown> {
  const { err, ...others } = fields
  for (const name of NEVER_LOGGED) delete others[name]
  const safe = redactValue(others) as Record<string, unknown>
  if (err === undefined) return safe
  if (!(err instanceof Error)) return { ...safe, err: redactValue(err) }
  const stack = redactAndClip(String(err.stack ?? ''), STACK_CHARS_MAX)
  return { ...safe, err: { ...(redactValue(err) as object), stack } }
}

function toStandardError(): Output {
  const { NO_COLOR, TERM } = process.env
  const isTerminal = process.stderr.isTTY === true
  return {
    isTerminal,
    hasColour: isTerminal && !NO_COLOR && TERM !== 'dumb',
    // Unlike a write to the stream, this ignores a standard error that is closed.
    write: (line) => console.error('%s', line),
    nowMs: systemClock.nowMs,
    later: idleTimer,
  }
}

let shared: Log | null = null

/** Where apps log that are given no log. The command line and the tests set their own. */
export function setDefaultLog(log: Log | null): void {
  shared = log
}

/** The log that an app or a worker was given: `false` is none, and `undefined` is the default. */
export function logOf(given: Log | false | undefined): Log {
  if (given === false) return silentLog
  if (given === undefined) {
    shared ??= new DefaultLog(toStandardError())
    return shared
  }
  const missing = (['debug', 'info', 'warn', 'error'] as const).find(
    (level) => typeof (given as Partial<Log> | null)?.[level] !== 'function',
  )
  if (missing === undefined) return given
  throw new RedressError(
    'OPTION_INVALID',
    `log must be false, or a logger with debug, info, warn and error; ${missing} is missing.`,
  )
}

/** A line that a person must see who starts or stops the program, whatever the level. */
export function notice(log: Log, fields: object, message: string): void {
  if (log instanceof DefaultLog) log.notice(fields, message)
  else log.info(fields, message)
}
