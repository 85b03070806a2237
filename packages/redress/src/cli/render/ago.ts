import { formatMs } from '../../core/text/duration.ts'
import type { Terminal } from '../terminal/terminal.ts'

/** '3 m ago', or 'in 5 s' for what is still to come. */
export function ago(at: string | null, { nowMs }: Terminal): string | null {
  if (at === null) return null
  const ms = nowMs - Date.parse(at)
  // By clocks of two processes: 'in 2 ms' about the past would only puzzle.
  if (Math.abs(ms) < 1000) return 'now'
  const rounded = formatMs(Math.round(Math.abs(ms) / 1000) * 1000)
  return ms < 0 ? `in ${rounded}` : `${rounded} ago`
}

/** '3 m': only the largest unit, where there is little room. */
export function age(at: string, { nowMs }: Terminal): string {
  const [count, unit] = formatMs(Math.max(0, nowMs - Date.parse(at))).split(' ')
  return `${Math.floor(Number(count))} ${unit}`
}
