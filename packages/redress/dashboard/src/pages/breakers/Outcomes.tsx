import type { OutputOf } from '../../../../src/operations/table.ts'
import { some } from '../../words/numbers.ts'

const SHOWN_MAX = 20

type Calls = OutputOf<'breakers.show'>['calls'][number]

/** The last calls, a mark each, the newest on the right. Within one second their order is not known: failed ones last. */
export function Outcomes({ calls }: { calls: readonly Calls[] }) {
  const outcomes = calls
    .toSorted((a, b) => (a.at < b.at ? -1 : 1))
    .flatMap(({ at, succeeded, failed }) => [
      ...Array.from({ length: Math.min(succeeded, SHOWN_MAX) }, (_, n) => ({ key: `${at} s${n}`, passed: true })),
      ...Array.from({ length: Math.min(failed, SHOWN_MAX) }, (_, n) => ({ key: `${at} f${n}`, passed: false })),
    ])
    .slice(-SHOWN_MAX)
  if (outcomes.length === 0) return null
  const failed = outcomes.filter(({ passed }) => !passed).length
  return (
    <p class="outcomes" role="img" aria-label={`Of the last ${some(outcomes.length, 'call')}, ${failed} failed`}>
      {outcomes.map(({ key, passed }) => (
        <span key={key} class={passed ? 'passed' : 'failed'}>
          {passed ? '✓' : '✕'}
        </span>
      ))}
    </p>
  )
}
