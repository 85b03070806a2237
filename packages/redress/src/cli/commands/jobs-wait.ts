import { RedressError } from '../../core/errors.ts'
import { durationMs, formatMs } from '../../core/text/duration.ts'
import { oneLine, printable } from '../../core/text/printable.ts'
import type { OutputOf } from '../../operations/table.ts'
import { commandName } from '../language/commands.ts'
import { ownOption, SERVER_OPTIONS } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { openTarget, type Target } from '../target/target.ts'
import { progressOn } from '../terminal/progress.ts'

export const TIMEOUT_OPTION = ownOption(
  'timeout TIME',
  'text',
  'stop waiting after this time (30s, 5m); the job continues',
)

export const wait: Program = {
  options: [TIMEOUT_OPTION, ...SERVER_OPTIONS],
  places: [{ name: 'id', description: 'id of the job' }],
  examples: ['redress jobs wait JOB --timeout 5m', `redress submit sample.convert '{"file":"a.pdf"}' --wait`],
  async run(_command, { values, positionals }) {
    const timeoutMs = typeof values.timeout === 'string' ? durationMs(values.timeout, '--timeout') : null
    const target = await openTarget(values)
    try {
      return await waitAndTell(target, positionals[0] as string, { timeoutMs, isJson: values.json === true })
    } finally {
      await target.stop()
    }
  },
}

type Job = OutputOf<'jobs.show'>

interface WaitOptions {
  timeoutMs: number | null
  isJson: boolean
}

/** Returns 0 for a complete job; every other outcome throws its own error. */
export async function waitAndTell(target: Target, id: string, { timeoutMs, isJson }: WaitOptions): Promise<number> {
  const job = await untilEnded(target, id, timeoutMs)
  if (isJson) process.stdout.write(`${JSON.stringify(job, null, 2)}\n`)
  switch (job.status) {
    case 'complete':
      if (!isJson) process.stdout.write(`Job ${id} is complete.\n${resultLine(job)}`)
      return 0
    case 'failed': {
      if (!isJson) process.stdout.write(await verdictOn(target, id))
      throw new RedressError('JOB_FAILED', `Job ${id} failed: ${job.errorCode}: ${oneLine(job.errorMessage ?? '')}`, {
        action: `See \`${commandName()} explain ${id}${target.flags}\` for why, and what can be done.`,
        jobId: id,
      })
    }
    default:
      throw new RedressError('JOB_WRONG_STATE', `Job ${id} was ${job.status}.`, {
        action: 'Submit it again if it is still needed.',
        jobId: id,
      })
  }
}

/** The token may lack the right to explain; the failure itself is reported anyway. */
async function verdictOn(target: Target, id: string): Promise<string> {
  try {
    const { verdict } = await target.perform('jobs.explain', { id })
    return printable(`${verdict.join('\n')}\n`)
  } catch {
    return ''
  }
}

const resultLine = ({ result }: Job): string => (result === null ? '' : `${JSON.stringify(result)}\n`)

export const ENDED: ReadonlySet<string> = new Set(['complete', 'failed', 'cancelled'])
/** Poll interval: the event stream may be refused or break. */
export const LOOK_AGAIN_MS = 1_000
/** A server that is started anew is waited for; one that stays away is not. */
const AWAY_MS_MAX = 30_000

async function untilEnded(target: Target, id: string, timeoutMs: number | null): Promise<Job> {
  const startedMs = performance.now()
  const done = new AbortController()
  const changes = listen(target, [`job:${id}`], done.signal)
  const progress = progressOn(process.stderr, process.env)
  let answeredMs: number | null = null
  let orphanedAt: string | null = null
  try {
    for (;;) {
      const heard = changes.next()
      try {
        const job = await target.perform('jobs.show', { id })
        answeredMs = performance.now()
        if (ENDED.has(job.status)) return job
        // It may recover, but the waiting person must know that no worker runs it.
        if (job.orphanedAt !== null && job.orphanedAt !== orphanedAt) {
          progress.clear()
          process.stderr.write(`Job ${id} is an orphan: its worker is lost, and it waits for a decision.\n`)
        }
        orphanedAt = job.orphanedAt
        const { progressNote, progressDone, progressTotal } = job
        const note = progressNote === null ? '' : `, ${oneLine(progressNote)}`
        const [done, total] = progressTotal ? [progressDone ?? 0, progressTotal] : [job.progress, 1]
        progress.show({ what: `${job.status}: job ${id}${note}`, done, total })
      } catch (error) {
        const isPassing = error instanceof RedressError && error.exitCode === 5
        if (!isPassing || answeredMs === null || performance.now() - answeredMs > AWAY_MS_MAX) throw error
      }
      const leftMs = timeoutMs === null ? Number.POSITIVE_INFINITY : startedMs + timeoutMs - performance.now()
      if (leftMs <= 0) throw tooLong(id, timeoutMs as number)
      await atMost(Math.min(LOOK_AGAIN_MS, leftMs), heard)
    }
  } finally {
    progress.clear()
    done.abort()
  }
}

const tooLong = (id: string, timeoutMs: number): RedressError =>
  new RedressError('WAIT_TIMEOUT', `Job ${id} did not end within ${formatMs(timeoutMs)}.`, { jobId: id })

/** `next` resolves when something has happened to the job since it was called. */
export function listen(target: Target, topics: readonly string[], signal: AbortSignal): { next(): Promise<void> } {
  let wake = Promise.withResolvers<void>()
  const follow = async (): Promise<void> => {
    for await (const _ of target.follow({ topics, after: null, signal, onTrouble: () => undefined })) {
      wake.resolve()
      wake = Promise.withResolvers<void>()
    }
  }
  // Without the right to listen, polling alone is used.
  follow().catch(() => undefined)
  return { next: () => wake.promise }
}

export async function atMost(ms: number, earlier: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([earlier, late])
  clearTimeout(timer)
}
