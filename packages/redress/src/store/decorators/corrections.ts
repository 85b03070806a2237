import { RedressError } from '../../core/errors.ts'
import { isoTime } from '../../core/text/duration.ts'

/** A log line written before the change that it announces. */
export interface AheadLine {
  ts: string
  job_id: string
  type: string
  worker_id?: string | null
  from?: string | null
  to?: string
  event?: string
  attempt?: number
}

/** A log line that the store's answer made false, and the reason. */
export interface Untrue {
  line: AheadLine
  reason: string
}

export type SetTimer = (delayMs: number, wake: () => void) => { cancel(): void }

interface CorrectionsOptions {
  append: (entries: readonly object[]) => Promise<void>
  nowMs: () => Promise<number>
  setTimer: SetTimer
  /** A correction could not be written. It is kept, and written before the next line. */
  broken: (error: unknown) => void
}

/**
 * After this long without an answer, the log records the outcome as unknown. Shorter than the worker's timeout for a
 * retry.
 */
const UNANSWERED_MS = 5_000

/**
 * Corrects a log that is written before the store changes. A change that the store refuses gets a line `refused`. A
 * change with an unknown outcome gets `unknown`, and later `done` if it was made.
 */
export function openCorrections({ append, nowMs, setTimer, broken }: CorrectionsOptions) {
  let owed: object[] = []

  const write = async (entries: readonly object[]): Promise<void> => {
    const due = owed
    owed = []
    if (due.length + entries.length === 0) return
    try {
      await append([...due, ...entries])
    } catch (error) {
      owed = [...due, ...owed]
      throw error
    }
  }

  const correct = async (corrections: readonly object[]): Promise<void> => {
    owed.push(...corrections)
    try {
      await write([])
    } catch (error) {
      broken(error)
    }
  }

  const correctionOf = (line: AheadLine, event: 'refused' | 'unknown' | 'done', reason: string, ts = line.ts) => ({
    ts,
    job_id: line.job_id,
    type: line.type,
    ...(line.worker_id === undefined ? {} : { worker_id: line.worker_id }),
    event,
    of: line.event ?? line.to,
    ...(line.attempt === undefined ? {} : { attempt: line.attempt }),
    reason,
  })

  /** A store that has just failed may not be able to tell the time. */
  const now = (line: AheadLine): Promise<string> =>
    nowMs().then(
      (ms) => isoTime(ms),
      () => line.ts,
    )

  const unknown = (lines: readonly AheadLine[], reason: string): Promise<void> =>
    correct(lines.map((line) => correctionOf(line, 'unknown', reason)))

  return {
    append: write,

    /** Makes the change that these lines announced, then corrects the lines if the store's answer contradicts them. */
    async settling<T>(
      lines: readonly AheadLine[],
      change: () => Promise<T>,
      untrueAfter: (answer: T) => readonly Untrue[] | Promise<readonly Untrue[]>,
    ): Promise<T> {
      const [first] = lines
      if (first === undefined) return change()
      let isUnknown = false
      const timer = setTimer(UNANSWERED_MS, () => {
        isUnknown = true
        void unknown(lines, `the store has not answered for ${UNANSWERED_MS / 1_000} s`)
      })
      let answer: T
      try {
        answer = await change()
      } catch (error) {
        if (isRefusal(error)) {
          const ts = await now(first)
          await correct(lines.map((line) => correctionOf(line, 'refused', error.code, ts)))
        } else if (!isUnknown) await unknown(lines, error instanceof Error ? error.message : String(error))
        throw error
      } finally {
        timer.cancel()
      }
      const untrue = await Promise.resolve(untrueAfter(answer)).catch(async (error: unknown) => {
        await unknown(lines, `the store answered, but checking the change failed: ${String(error)}`)
        return []
      })
      const ts = untrue.length > 0 || isUnknown ? await now(first) : first.ts
      const isUntrue = (line: AheadLine) => untrue.some((one) => one.line === line)
      const done = isUnknown ? lines.filter((line) => !isUntrue(line)) : []
      const corrections = [
        ...untrue.map(({ line, reason }) => correctionOf(line, 'refused', reason, ts)),
        ...done.map((line) => correctionOf(line, 'done', 'the store answered late', ts)),
      ]
      if (corrections.length > 0) await correct(corrections)
      return answer
    },
  }
}

/** The store refused the change. After any other error, the outcome is unknown. */
function isRefusal(error: unknown): error is RedressError {
  return error instanceof RedressError && (error.code === 'BACKLOG_FULL' || error.httpStatus < 500)
}
