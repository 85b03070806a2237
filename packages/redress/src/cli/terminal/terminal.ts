import type { Tone } from '../../core/explain/explain.ts'

export type Style = Tone | 'quiet' | 'strong'

/** Where text goes, and what it may look like there. */
export interface Terminal {
  /** null where nobody looks: then nothing is cut to fit. */
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
