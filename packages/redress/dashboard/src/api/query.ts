import { type Signal, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { OperationName } from '../../../src/operations/catalog.ts'
import type { InputOf, OutputOf } from '../../../src/operations/table.ts'
import { type Changes, onChanges } from './live.ts'
import { perform, Refused } from './perform.ts'

/** An answer of the server, kept up to date. */
export interface Query<Name extends OperationName> {
  data: OutputOf<Name> | null
  /** Why the last asking failed; `data` is then what was known before. */
  problem: Refused | null
  isLoading: boolean
  /** When `data` was read. */
  atMs: number | null
  reload(): Promise<void>
}

export interface Following {
  /** Whether what happened may have changed the answer. Without it, anything may. */
  follows?: (changes: Changes) => boolean
  /** Asks again so often, for what no event tells of. */
  everyMs?: number
  /** Asks not more often than this, however much happens. What whoever looks has done is asked for at once. */
  restMs?: number
}

interface Known {
  value: Signal<Omit<Query<OperationName>, 'reload'>>
  reload(): Promise<void>
}

const KNOWN_MAX = 60
/** What a page showed is shown again at once when somebody comes back to it, and is then read anew. */
const known = new Map<string, Known>()

const NOTHING = { data: null, problem: null, isLoading: true, atMs: null }

function knownOf(name: OperationName, input: object): Known {
  const key = `${name} ${JSON.stringify(input)}`
  const found = known.get(key)
  if (found !== undefined) {
    known.delete(key)
    known.set(key, found)
    return found
  }
  const value: Known['value'] = signal(NOTHING)
  let running: Promise<void> | null = null
  const ask = async (): Promise<void> => {
    value.value = { ...value.value, isLoading: true }
    try {
      const data = (await perform(name, input as never)) as never
      value.value = { data, problem: null, isLoading: false, atMs: Date.now() }
    } catch (error) {
      const problem = error instanceof Refused ? error : new Refused('PAGE_FAILED', String(error))
      value.value = { ...value.value, problem, isLoading: false }
    }
  }
  const made: Known = {
    value,
    reload: () => {
      running ??= ask().finally(() => {
        running = null
      })
      return running
    },
  }
  known.set(key, made)
  if (known.size > KNOWN_MAX) known.delete(known.keys().next().value as string)
  return made
}

const REST_MS = 500
/** However slow an answer is, the server spends no more than this share of its time on it for one page. */
const SHARE_MAX = 1 / 5

/** Asks for an operation that reads, and again whenever the answer may have changed. `null` asks for nothing. */
export function useQuery<Name extends OperationName>(
  name: Name,
  input: InputOf<Name> | null,
  { follows, everyMs, restMs: restMsMin = REST_MS }: Following = {},
): Query<Name> {
  const key = input === null ? null : JSON.stringify(input)
  const entry = input === null ? null : knownOf(name, input)
  useEffect(() => {
    if (entry === null) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let [isAsking, isResting, isDue, isUrgent, isOver] = [false, false, false, false, false]
    const run = async (): Promise<void> => {
      clearTimeout(timer)
      isDue = false
      isUrgent = false
      isAsking = true
      const beganMs = performance.now()
      await entry.reload()
      isAsking = false
      if (isOver) return
      // What was asked for before the act may be answered as it was before the act.
      if (isUrgent) return run()
      isResting = true
      const restMs = Math.max(restMsMin, (performance.now() - beganMs) / SHARE_MAX)
      timer = setTimeout(() => {
        isResting = false
        if (isDue) void run()
        else if (everyMs !== undefined) timer = setTimeout(() => void wanted(false), Math.max(0, everyMs - restMs))
      }, restMs)
    }
    const wanted = (isOwn: boolean): void => {
      isDue = true
      if (document.hidden) return
      if (isAsking) isUrgent ||= isOwn
      else if (isOwn || !isResting) void run()
    }
    const leave = onChanges((changes) => {
      if (changes.isMore || follows === undefined || follows(changes)) wanted(changes.isOwn === true)
    })
    void run()
    return () => {
      isOver = true
      clearTimeout(timer)
      leave()
    }
  }, [name, key])
  if (entry === null) return { ...NOTHING, isLoading: false, reload: async () => undefined }
  return { ...(entry.value.value as Omit<Query<Name>, 'reload'>), reload: entry.reload }
}

// ---- what a page follows -------------------------------------------------------------------------------------------

const PREFIX = /^[a-z-]+:/

/** 'job' for whatever happens to any job; 'job:ID' for one. */
export const about =
  (...subjects: readonly string[]) =>
  (changes: Changes): boolean =>
    subjects.some((subject) =>
      PREFIX.test(subject)
        ? changes.subjects.includes(subject)
        : changes.subjects.some((one) => one.startsWith(`${subject}:`)),
    )
