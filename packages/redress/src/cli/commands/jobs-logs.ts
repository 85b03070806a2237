import type { OutputOf } from '../../operations/table.ts'
import { ownOption } from '../language/parse.ts'
import { logLine } from '../render/jobs.ts'
import type { Target } from '../target/target.ts'
import { terminalOf } from '../terminal/terminal.ts'
import { atMost, ENDED, LOOK_AGAIN_MS, listen } from './jobs-wait.ts'

export const FOLLOW_OPTION = ownOption('follow', 'flag', 'also print new lines, until the job has ended or Ctrl-C')

interface FollowOptions {
  input: Record<string, unknown>
  isJson: boolean
}

/** Prints the lines that there are, and new ones until the job has ended. */
export async function followLogs(target: Target, id: string, { input, isJson }: FollowOptions): Promise<number> {
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  for (const signal of SIGNALS) process.once(signal, onSignal)
  const isStopped = new Promise<void>((resolve) => stop.signal.addEventListener('abort', () => resolve()))
  const terminal = terminalOf(process.stdout, process.env, Date.now())
  const changes = listen(target, [`job:${id}`, `log:${id}`], stop.signal)
  let asked: Record<string, unknown> = { ...input, id }
  try {
    while (!stop.signal.aborted) {
      const heard = changes.next()
      // Asked before the lines are read: the last lines of an attempt are stored with its end.
      const { status } = await target.perform('jobs.show', { id })
      const page: OutputOf<'jobs.logs'> = await target.perform('jobs.logs', asked as { id: string })
      for (const line of page.lines)
        process.stdout.write(isJson ? `${JSON.stringify(line)}\n` : logLine(line, terminal))
      const last = page.lines.at(-1)
      if (last !== undefined) {
        const { tail: _, ...rest } = asked
        asked = { ...rest, cursor: String(last.seq) }
      }
      if (page.nextCursor !== null) continue
      if (ENDED.has(status)) return 0
      await atMost(LOOK_AGAIN_MS, Promise.race([heard, isStopped]))
    }
    return 0
  } finally {
    for (const signal of SIGNALS) process.off(signal, onSignal)
    stop.abort()
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const
