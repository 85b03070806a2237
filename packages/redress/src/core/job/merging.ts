import type { Status } from './states.ts'

/**
 * How a submission meets the jobs of its type that were submitted with the same key. `debounce` and `throttle` give a
 * waiting job the new input; `singleton` finds a waiting job and changes nothing.
 */
export type Merge =
  | { kind: 'debounce'; key: string; waitMs: number; maxWaitMs: number | null }
  | { kind: 'throttle'; key: string; everyMs: number }
  | { kind: 'singleton'; key: string }

/** The newest job that was made with the key. */
export interface KeyHolder {
  /** Debounce: when it was submitted. Throttle: when it was or will be due. */
  atMs: number
  status: Status
  attempt: number
}

/** What a submission with a key comes to. */
export type Merged =
  | { kind: 'found' }
  /** The holder gets the new input. A time of null leaves its time as it is. */
  | { kind: 'replace'; dueAtMs: number | null }
  /** A new job becomes the holder; `dueAtMs` is null if it is due at once. */
  | { kind: 'new'; dueAtMs: number | null; atMs: number }

/** Keys of different kinds never meet. */
export const nameOfKey = ({ kind, key }: Merge): string => `${kind} ${key}`

export function mergedWith(merge: Merge, holder: KeyHolder | null, nowMs: number): Merged {
  switch (merge.kind) {
    case 'singleton':
      return holder?.status === 'queued' ? { kind: 'found' } : { kind: 'new', dueAtMs: null, atMs: nowMs }
    case 'debounce': {
      const dueAtMs = nowMs + merge.waitMs
      if (holder === null || !isUntouched(holder)) return { kind: 'new', dueAtMs, atMs: nowMs }
      const lastAtMs = merge.maxWaitMs === null ? dueAtMs : holder.atMs + merge.maxWaitMs
      // Never in the past: the history shows when the job became due.
      return { kind: 'replace', dueAtMs: Math.max(nowMs, Math.min(dueAtMs, lastAtMs)) }
    }
    case 'throttle':
      return throttled(holder, merge.everyMs, nowMs)
  }
}

function throttled(holder: KeyHolder | null, everyMs: number, nowMs: number): Merged {
  if (holder === null) return { kind: 'new', dueAtMs: null, atMs: nowMs }
  if (holder.atMs > nowMs) {
    // The job of the next period. If it was cancelled or begun early, another one takes its time.
    if (isUntouched(holder)) return { kind: 'replace', dueAtMs: null }
    return { kind: 'new', dueAtMs: holder.atMs, atMs: holder.atMs }
  }
  const periodEndsAtMs = holder.atMs + everyMs
  if (periodEndsAtMs <= nowMs) return { kind: 'new', dueAtMs: null, atMs: nowMs }
  return { kind: 'new', dueAtMs: periodEndsAtMs, atMs: periodEndsAtMs }
}

/** Only the input of a job that no worker has ever had can be replaced. */
const isUntouched = ({ status, attempt }: KeyHolder): boolean => status === 'queued' && attempt === 0

const LOOK_AGAIN_MS = 3_600_000

/** When the store may look whether the key is still needed. Until then it is. */
export function keyNeededUntilMs(merge: Merge, atMs: number, nowMs: number): number {
  return merge.kind === 'throttle' ? atMs + merge.everyMs : nowMs + LOOK_AGAIN_MS
}

/** The same for a key whose time has come: null if no submission can meet its job any more. */
export const keyNeededAgainMs = (name: string, status: Status | null, nowMs: number): number | null =>
  status === 'queued' && !name.startsWith('throttle ') ? nowMs + LOOK_AGAIN_MS : null

/** When a submitted job may start; null for at once. A time in the past means at once. */
export function dueAtMsOf({ delayMs, runAtMs }: { delayMs: number; runAtMs?: number }, nowMs: number): number | null {
  if (runAtMs !== undefined) return runAtMs > nowMs ? runAtMs : null
  return delayMs > 0 ? nowMs + delayMs : null
}

/** When a job expires that no worker has begun by then. The time counts from when the job is due. */
export const expiresAtMsOf = (
  { ttlMs }: { ttlMs?: number | undefined },
  dueAtMs: number | null,
  nowMs: number,
): number | null => (ttlMs === undefined ? null : (dueAtMs ?? nowMs) + ttlMs)
