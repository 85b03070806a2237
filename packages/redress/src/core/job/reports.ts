import { publicLine } from '../text/public-line.ts'
import { type Bounds, redactAndClip, redactText, redactValue } from '../text/redact.ts'

/**
 * The events in which a running handler reports: a line of its log, or its progress. They are on the feed with the events
 * of the history, and change nothing: the state of a job is rebuilt without them.
 */
export type ReportKind = 'log' | 'progress'

export const LOG_LINES_MAX = 1_000
const LOG_CHARS_MAX = 2_000
const FIELD_BOUNDS: Partial<Bounds> = {
  depthMax: 5,
  keysMax: 50,
  itemsMax: 50,
  textCharsMax: 1_000,
  totalCharsMax: 4_000,
}

/** A line of `attempt.log`, redacted and bounded. */
export interface LogEntry {
  message: string
  fields: Record<string, unknown> | null
}

export function logEntryOf(message: unknown, fields: unknown): LogEntry {
  if (typeof message !== 'string') {
    throw new TypeError(`attempt.log takes a text, and an object for the rest; got ${kindOf(message)}`)
  }
  if (fields !== undefined && (typeof fields !== 'object' || fields === null || Array.isArray(fields))) {
    throw new TypeError(`the fields of attempt.log must be an object such as { page: 3 }; got ${kindOf(fields)}`)
  }
  return {
    message: redactAndClip(message, LOG_CHARS_MAX),
    fields: fields === undefined ? null : fieldsOf(fields),
  }
}

/** Some objects become a text, such as a URL. */
function fieldsOf(given: object): Record<string, unknown> {
  const kept = redactValue(given, FIELD_BOUNDS)
  return typeof kept === 'object' && kept !== null && !Array.isArray(kept) ? { ...kept } : { value: kept }
}

/** How far an attempt is. */
export interface Progress {
  /** From 0 to 1. */
  fraction: number
  done: number | null
  total: number | null
  /** For people, also for the owner of the job: one line. */
  note: string | null
}

/** As a handler gives it: a fraction from 0 to 1, or how much of how much is done. */
export type ProgressGiven = number | { done: number; total: number; note?: string }

/** Sums of fractions end a little above 1. */
const ROUNDING = 1e-6

export function progressOf(given: unknown): Progress {
  if (typeof given === 'number') {
    if (given >= 0 && given <= 1 + ROUNDING)
      return { fraction: Math.min(1, given), done: null, total: null, note: null }
    throw new TypeError(
      `progress must be a number from 0 to 1; got ${given}. For other units call progress({ done: 30, total: 100 }).`,
    )
  }
  if (typeof given !== 'object' || given === null) {
    throw new TypeError(`progress must be a number from 0 to 1, or { done, total, note }; got ${kindOf(given)}`)
  }
  const { done, total, note, ...rest } = given as Record<string, unknown>
  const [unknown] = Object.keys(rest)
  if (unknown !== undefined) throw new TypeError(`progress has no field ${unknown}; it has done, total and note`)
  if (!isAmount(done) || !isAmount(total)) {
    throw new TypeError(
      `done and total of progress must be numbers of at least 0; got ${shown(done)} and ${shown(total)}`,
    )
  }
  if (note !== undefined && typeof note !== 'string') {
    throw new TypeError(`note of progress must be a text; got ${kindOf(note)}`)
  }
  // A total is often an estimate: more than all of it is all of it, and nothing to do is done.
  const fraction = done >= total ? 1 : done / total
  return { fraction, done, total, note: note === undefined ? null : publicLine(redactText(note)) }
}

const isAmount = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value) && value >= 0

const shown = (value: unknown): string => (typeof value === 'number' ? String(value) : kindOf(value))

const kindOf = (value: unknown): string => (value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value)

const EVENT_MS_MIN = 1_000
const EVENT_SHARE = 1 / 100

/**
 * The least time between two progress events of an attempt that has run this long: a second, and a hundredth of its time.
 * So a bar moves in steps of a hundredth, and an attempt of a day leaves some 800 events, not 86,400.
 */
export const progressEventMs = (ranMs: number): number => Math.max(EVENT_MS_MIN, Math.ceil(ranMs * EVENT_SHARE))

/** The data of a report on the feed. */
export interface ReportData {
  /** `log`: the number of the line in its attempt, from 1. */
  line?: number
  message?: string
  fields?: Record<string, unknown>
  /** `progress`: from 0 to 1. */
  progress?: number
  done?: number
  total?: number
  note?: string
}

export const progressData = ({ fraction, done, total, note }: Progress): ReportData => ({
  progress: fraction,
  ...(done !== null && { done }),
  ...(total !== null && { total }),
  ...(note !== null && { note }),
})
