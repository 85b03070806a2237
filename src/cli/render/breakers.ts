import type { BreakerView } from '../../operations/breakers.ts'
import type { OutputOf } from '../../operations/table.ts'
import { columns } from '../columns.ts'
import { quoted } from '../command-name.ts'
import type { Style } from '../terminal.ts'
import type { Rendering } from './rendering.ts'

const STYLES: Readonly<Record<BreakerView['status'], Style>> = { closed: 'good', open: 'bad', 'half-open': 'waiting' }

export function breakers({ breakers: shown }: OutputOf<'breakers.list'>, { terminal }: Rendering): string {
  return columns(
    shown,
    [
      { title: 'BREAKER', of: (breaker) => breaker.name, charsMin: 8 },
      { title: 'STATE', of: stateOf, style: ({ status }) => STYLES[status] },
      { title: 'CALLS', of: ({ window }) => window.calls, isNumber: true },
      { title: 'FAILED', of: ({ window }) => window.failed, isNumber: true },
      { title: 'HELD', of: ({ heldJobs }) => heldJobs, isNumber: true },
      { title: 'MODE', of: ({ mode }) => mode },
      { title: 'WHY', of: ({ why }) => why, charsMin: 12 },
    ],
    terminal,
  )
}

/** What was computed is shown beside what a person forced. */
function stateOf({ status, computed, forced }: BreakerView): string {
  return forced === null ? status : `${status} (forced; else ${computed.status})`
}

export function breakerAct({ did, breaker, isDone }: OutputOf<'breakers.open'>, { hint, command }: Rendering): string {
  if (isDone && breaker.forced !== null) {
    hint(`To end it: ${command('breakers', 'release', breaker.name)} --reason ${quoted('say why')}`)
  }
  return `${did}\n`
}
