import type { JobView } from '../../../../src/core/views/job.ts'
import { useQuery } from '../../api/query.ts'
import { whyNot } from '../../api/session.ts'
import type { KnownValues } from '../../words/completion.ts'

const GROUPS_MAX = 200
const NEVER = { follows: () => false }

const different = (values: readonly (string | null)[]): string[] =>
  [...new Set(values.filter((value) => value !== null))].toSorted()

/** What a filter can be completed with: what is declared, and what was seen. */
export function useKnownValues(rows: readonly JobView[]): KnownValues {
  const types = useQuery('types.list', whyNot('types.list') === null ? {} : null, NEVER)
  const groups = useQuery('failures.list', whyNot('failures.list') === null ? { limit: GROUPS_MAX } : null, NEVER)
  const declared = types.data?.types ?? []
  return {
    type: different([...declared.map(({ name }) => name), ...rows.map(({ type }) => type)]),
    queue: different([...declared.map(({ queue }) => queue), ...rows.map(({ queue }) => queue)]),
    code: different([
      ...(groups.data?.groups ?? []).map(({ code }) => code),
      ...rows.map(({ errorCode }) => errorCode),
    ]),
    owner: different(rows.map(({ owner }) => owner)),
    batch: different(rows.map(({ batchId }) => batchId)),
  }
}
