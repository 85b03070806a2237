import { FAULTS } from '../../core/failure/failure.ts'
import { formatMs } from '../../core/text/duration.ts'
import type { OutputOf } from '../../operations/table.ts'
import { type Column, columns } from '../terminal/columns.ts'
import type { Renderers, Rendering } from './rendering.ts'

type Minute = OutputOf<'activity.show'>['minutes'][number]

const SHAPE: readonly Column<Minute>[] = [
  { title: 'MINUTE', of: ({ at }) => at.slice(0, 16).replace('T', ' ') },
  { title: 'COMPLETE', of: ({ complete }) => complete, isNumber: true },
  { title: 'FAILED', of: ({ failed }) => failed, isNumber: true },
  { title: 'CANCELLED', of: ({ cancelled }) => cancelled, isNumber: true },
  { title: 'WAIT P50', of: ({ waitP50Ms }) => inWords(waitP50Ms), isNumber: true },
  { title: 'WAIT P95', of: ({ waitP95Ms }) => inWords(waitP95Ms), isNumber: true },
  { title: 'FAILED ATTEMPTS', of: faultsOf, charsMin: 8 },
]

const inWords = (ms: number | null): string | null => (ms === null ? null : formatMs(ms))

function faultsOf({ faults }: Minute): string | null {
  const some = FAULTS.filter((fault) => faults[fault] > 0).map((fault) => `${fault} ${faults[fault]}`)
  return some.join(', ') || null
}

/** Empty minutes are left out of the table. */
function activity({ minutes, notCounted }: OutputOf<'activity.show'>, { terminal, hint }: Rendering): string {
  const busy = minutes.filter(
    ({ complete, failed, cancelled, faults, waitP50Ms }) =>
      complete + failed + cancelled > 0 || waitP50Ms !== null || FAULTS.some((fault) => faults[fault] > 0),
  )
  if (notCounted.length > 0) hint(`Not counted, because of their policy: ${notCounted.join(', ')}`)
  if (busy.length > 0) return columns(busy, SHAPE, terminal)
  hint(`Nothing happened in ${minutes.length === 1 ? 'this minute' : `the last ${minutes.length} minutes`}.`)
  return ''
}

export const activityRenderers = {
  'activity.show': activity,
} satisfies Partial<Renderers>
