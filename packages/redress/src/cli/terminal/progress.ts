import { terminalOf } from './terminal.ts'

interface Progress {
  what: string
  done: number
  total: number
}

export interface ProgressLine {
  show(progress: Progress): void
  clear(): void
}

const SHOWN_EVERY_MS = 100
const BAR_CHARS = 20

/** One line that is overwritten on a terminal; nothing elsewhere. */
export function progressOn(stream: NodeJS.WriteStream, env: NodeJS.ProcessEnv): ProgressLine {
  if (stream.isTTY !== true || env.TERM === 'dumb') return { show: () => undefined, clear: () => undefined }
  const { paint, columns } = terminalOf(stream, env, 0)
  let shownAtMs = Number.NEGATIVE_INFINITY
  let isShown = false
  return {
    show({ what, done, total }) {
      const nowMs = performance.now()
      if (nowMs - shownAtMs < SHOWN_EVERY_MS && done < total) return
      shownAtMs = nowMs
      isShown = true
      const share = total === 0 ? 1 : Math.min(1, Math.max(0, done / total))
      const full = Math.round(share * BAR_CHARS)
      const bar = `${paint('good', '#'.repeat(full))}${paint('quiet', '-'.repeat(BAR_CHARS - full))}`
      const room = (columns ?? 80) - BAR_CHARS - '[]  100 %  '.length
      stream.write(`\r\u001b[K[${bar}] ${String(Math.floor(share * 100)).padStart(3)} %  ${what.slice(0, room)}`)
    },
    clear() {
      if (isShown) stream.write('\r\u001b[K')
      isShown = false
    },
  }
}
