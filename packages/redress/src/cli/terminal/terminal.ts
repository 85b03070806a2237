import { userInfo } from 'node:os'
import type { Tone } from '../../core/explain/explain.ts'
import { formatMs } from '../../core/text/duration.ts'

export type Style = Tone | 'quiet' | 'strong'

/** An output stream: its width and its colours. */
export interface Terminal {
  /** null if it is not a terminal: then nothing is truncated. */
  columns: number | null
  paint(style: Style, text: string): string
  nowMs: number
}

interface Stream {
  isTTY?: boolean
  columns?: number
}

const COLUMNS_MIN = 60
const CODES: Readonly<Record<Exclude<Style, 'plain'>, [open: number, close: number]>> = {
  bad: [31, 39],
  good: [32, 39],
  waiting: [33, 39],
  quiet: [2, 22],
  strong: [1, 22],
}

export function terminalOf(stream: Stream, env: NodeJS.ProcessEnv, nowMs: number): Terminal {
  const isTerminal = stream.isTTY === true
  // no-color.org: any value that is not empty.
  const hasColour = isTerminal && !env.NO_COLOR && env.TERM !== 'dumb'
  return {
    columns: isTerminal ? Math.max(COLUMNS_MIN, stream.columns ?? 80) : null,
    nowMs,
    paint(style, text) {
      if (!hasColour || style === 'plain' || text === '') return text
      const [open, close] = CODES[style]
      return `\u001b[${open}m${text}\u001b[${close}m`
    },
  }
}

/** The default actor. */
export function currentUser(): string {
  try {
    return process.env.USER || userInfo().username
  } catch {
    // A container may run as a number that has no name.
    return ''
  }
}

/** '3 m ago', or 'in 5 s' for a future time. */
export function ago(at: string | null, { nowMs }: Terminal): string | null {
  if (at === null) return null
  const ms = nowMs - Date.parse(at)
  // By clocks of two processes: 'in 2 ms' about the past would only puzzle.
  if (Math.abs(ms) < 1000) return 'now'
  const rounded = formatMs(Math.round(Math.abs(ms) / 1000) * 1000)
  return ms < 0 ? `in ${rounded}` : `${rounded} ago`
}

/** '3 m': only the largest unit. */
export function age(at: string, { nowMs }: Terminal): string {
  const [count, unit] = formatMs(Math.max(0, nowMs - Date.parse(at))).split(' ')
  return `${Math.floor(Number(count))} ${unit}`
}
