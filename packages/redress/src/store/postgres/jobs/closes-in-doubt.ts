import { recordedKindsOf } from '../../../core/job/change.ts'
import type { JobKey } from '../../contract/store.ts'
import type { Tx } from '../connection/client.ts'
import { numbers, texts } from '../connection/values.ts'
import type { AttemptEnd } from './closing-rows.ts'

type Of = Pick<AttemptEnd, 'key' | 'attempt' | 'worker'>

/**
 * Closes whose commit was sent and never answered. Their worker sends them again. If they were committed, the fence would
 * refuse them, and the history would show a lost lease that was not lost. So the history is searched first for this end: of
 * the same attempt and worker, with the same kind and duration.
 */
export function openClosesInDoubt() {
  const names = new Set<string>()
  const nameOf = ({ key, attempt, worker }: Of): string => `${key} ${attempt} ${worker}`

  return {
    add(ends: readonly AttemptEnd[]): void {
      for (const end of ends) names.add(nameOf(end))
    },

    remove(ends: readonly AttemptEnd[]): void {
      if (names.size > 0) for (const end of ends) names.delete(nameOf(end))
    },

    has: (end: Of): boolean => names.size > 0 && names.has(nameOf(end)),

    /** The keys of those that were committed after all. */
    async recorded(tx: Tx, ends: readonly AttemptEnd[]): Promise<ReadonlySet<JobKey>> {
      const kinds = ends.map(({ change }) => recordedKindsOf(change))
      const rows = await tx<{ key: JobKey }[]>`
        SELECT given.key
        FROM unnest(${numbers(ends.map(({ key }) => key))}::bigint[], ${numbers(ends.map(({ attempt }) => attempt))}::bigint[],
            ${numbers(ends.map(({ worker }) => worker))}::bigint[], ${numbers(ends.map(({ ranMs }) => ranMs))}::bigint[],
            ${texts(kinds.map(({ kind }) => kind))}::text[], ${texts(kinds.map(({ otherKind }) => otherKind))}::text[],
            ${texts(ends.map(codeOf))}::text[])
          AS given (key, attempt, worker, ran, kind, other_kind, code)
        WHERE EXISTS (
          SELECT 1 FROM events WHERE events.job = given.key AND events.attempt = given.attempt
            AND events.worker = given.worker AND events.duration_ms IS NOT DISTINCT FROM given.ran
            AND (events.kind = given.other_kind OR events.kind = given.kind
              AND (given.code IS NULL OR (events.data::json ->> 'code') = given.code)))`
      return new Set(rows.map(({ key }) => key))
    },
  }
}

function codeOf({ change }: AttemptEnd): string | null {
  if (change.to === 'complete' || change.to === 'cancelled') return null
  return change.failure === null ? null : change.failure.code
}
