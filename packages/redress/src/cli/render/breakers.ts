import { formatMs } from '../../core/text/duration.ts'
import type { BreakerView } from '../../operations/breakers/breakers.ts'
import type { OutputOf } from '../../operations/table.ts'
import { quoted } from '../language/commands.ts'
import { type Column, columns, facts } from '../terminal/columns.ts'
import type { Style } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

const STYLES: Readonly<Record<BreakerView['status'], Style>> = { closed: 'good', open: 'bad', 'half-open': 'waiting' }

function breakers({ breakers: shown }: OutputOf<'breakers.list'>, { terminal }: Rendering): string {
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

function breaker(shown: OutputOf<'breakers.show'>, { terminal }: Rendering): string {
  const { window, policy, calls, history, probe, types } = shown
  const lines: [string, string | number | null][] = [
    ['breaker', shown.name],
    ['why', shown.why],
    ['changes', shown.nextChangeAt],
    [
      'window',
      `${window.failed} of ${window.calls} calls failed; it opens at ${policy.ratio * 100} % of ${policy.minCalls} or more`,
    ],
    ['looks at', `the newest ${policy.windowCalls} calls, none older than ${formatMs(policy.windowMs)}`],
    [
      'tries',
      `after ${formatMs(policy.cooldownMs)}, ${policy.halfOpenProbes} at a time, ${policy.probesToClose} in a row close it`,
    ],
    ['full speed', `${formatMs(policy.rampMs)} after it closed`],
    ['types', types.map(({ name, mode }) => `${name} (${mode})`).join(', ')],
    ['under way', shown.allowed === null ? shown.underWay : `${shown.underWay} of ${shown.allowed} allowed`],
    ['held jobs', shown.heldJobs],
    [
      'last probe',
      probe.last === null ? null : `${probe.last.at}  ${probe.last.passed ? 'passed' : `failed: ${probe.last.said}`}`,
    ],
  ]
  const state = `${terminal.paint('quiet', 'state'.padEnd(10))}  ${terminal.paint(STYLES[shown.status], stateOf(shown))}\n`
  const tables = [
    calls.length === 0 ? '' : columns(calls, CALLS, terminal),
    history.length === 0 ? '' : columns(history, HISTORY, terminal),
  ]
  return [`${state}${facts(lines, terminal)}`, ...tables.filter((table) => table !== '')].join('\n')
}

const CALLS: readonly Column<Shown['calls'][number]>[] = [
  { title: 'CALLS AT', of: ({ at }) => at },
  { title: 'SUCCEEDED', of: ({ succeeded }) => succeeded, isNumber: true },
  { title: 'FAILED', of: ({ failed }) => failed, isNumber: true },
]

const HISTORY: readonly Column<Shown['history'][number]>[] = [
  { title: 'AT', of: ({ at }) => at },
  { title: 'WAS', of: ({ kind }) => kind },
  { title: 'WHO', of: ({ actor }) => actor, charsMin: 8 },
  { title: 'WHY', of: ({ reason }) => reason, charsMin: 12 },
]

type Shown = OutputOf<'breakers.show'>

/** A forced state is shown together with the computed one. */
function stateOf({ status, computed, forced }: BreakerView): string {
  return forced === null ? status : `${status} (forced; else ${computed.status})`
}

function breakerAct({ did, breaker, isDone }: OutputOf<'breakers.open'>, { hint, command }: Rendering): string {
  if (isDone && breaker.forced !== null) {
    hint(`Release it: ${command('breakers', 'release', breaker.name)} --reason ${quoted('say why')}`)
  }
  return `${did}\n`
}

export const breakerRenderers = {
  'breakers.list': breakers,
  'breakers.show': breaker,
  'breakers.open': breakerAct,
  'breakers.close': breakerAct,
  'breakers.release': breakerAct,
  'breakers.probe': breakerAct,
} satisfies Partial<Renderers>
