import type { StoredWorker } from '../store/store.ts'

/** An idle worker shows itself every ten seconds; after three silences it is taken for gone. */
const SEEN_MS_MAX = 30_000

export function standingOf(
  { stoppedAtMs, seenAtMs }: Pick<StoredWorker, 'stoppedAtMs' | 'seenAtMs'>,
  nowMs: number,
): 'working' | 'silent' | 'stopped' {
  if (stoppedAtMs !== null) return 'stopped'
  return nowMs - seenAtMs <= SEEN_MS_MAX ? 'working' : 'silent'
}
