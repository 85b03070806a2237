import type { EventView } from '../../../../src/core/views/job.ts'
import { Clock } from '../../parts/Time.tsx'
import type { PastHold } from '../../words/past-holds.ts'
import { duration } from '../../words/time.ts'
import { type Phase, phasesOf } from '../../words/timeline.ts'

interface Props {
  events: readonly EventView[]
  /** The store's clock. */
  at: string
  isHeld: boolean
  holds: readonly PastHold[]
}

const WIDTH = 1_000
const HEIGHT = 28
const WIDTH_MIN = 3

/** The life of a job to scale. Shape says what colour says, too: what runs is tall, what waits is a line. */
export function Timeline({ events, at, isHeld, holds }: Props) {
  const phases = phasesOf(events, { nowMs: Date.parse(at), isHeld, holds })
  const first = phases[0]
  const last = phases.at(-1)
  if (first === undefined || last === undefined) return null
  const wholeMs = Math.max(1, last.toMs - first.fromMs)
  const x = (ms: number): number => ((ms - first.fromMs) / wholeMs) * (WIDTH - WIDTH_MIN)
  return (
    <div class="timeline">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={summary(phases)}>
        {phases.map((phase) => {
          const height = HEIGHTS[phase.kind]
          return (
            <rect
              key={`${phase.fromMs} ${phase.kind}`}
              class={`phase ${phase.kind} ${phase.outcome?.replace(' ', '-') ?? ''}`}
              x={x(phase.fromMs)}
              y={(HEIGHT - height) / 2}
              width={Math.max(WIDTH_MIN, x(phase.toMs) - x(phase.fromMs))}
              height={height}
            >
              <title>{words(phase)}</title>
            </rect>
          )
        })}
      </svg>
      <p class="ends quiet">
        <Clock at={iso(first.fromMs)} />
        <span>{duration(wholeMs)}</span>
        {last.isOpen ? <span>now</span> : <Clock at={iso(last.toMs)} />}
      </p>
      <details>
        <summary>The same in words</summary>
        <ol>
          {phases.map((phase) => (
            <li key={`${phase.fromMs} ${phase.kind}`}>
              <Clock at={iso(phase.fromMs)} /> {words(phase)}
            </li>
          ))}
        </ol>
      </details>
    </div>
  )
}

const HEIGHTS: Readonly<Record<Phase['kind'], number>> = {
  waiting: 6,
  delayed: 2,
  held: 12,
  running: HEIGHT,
  orphaned: 18,
  ended: 1,
}

const iso = (ms: number): string => new Date(ms).toISOString()

const DID: Readonly<Record<Phase['kind'], [was: string, is: string]>> = {
  waiting: ['waited for a worker', 'waits for a worker'],
  delayed: ['was put off', 'is put off'],
  held: ['was held back', 'is held back'],
  running: ['ran', 'runs'],
  orphaned: ['had lost its worker', 'has lost its worker'],
  ended: ['had ended', 'has ended'],
}

/** 'Attempt 2 ran for 3 s and failed', 'It waits for a worker, for 20 s so far' */
function words({ kind, fromMs, toMs, attempt, by, outcome, isOpen }: Phase): string {
  const who = kind === 'running' ? `Attempt ${attempt}` : 'It'
  const did = DID[kind][isOpen ? 1 : 0]
  const end =
    kind !== 'running' || outcome === null ? '' : outcome === 'failed' ? ' and failed' : `, and was ${outcome}`
  const whom = by === null ? '' : ` by ${by}`
  return `${who} ${did}${whom} for ${duration(toMs - fromMs)}${isOpen ? ' so far' : ''}${end}.`
}

/** How long of each, in all. */
function summary(phases: readonly Phase[]): string {
  const totals = new Map<Phase['kind'], number>()
  for (const { kind, fromMs, toMs } of phases) totals.set(kind, (totals.get(kind) ?? 0) + toMs - fromMs)
  return `Timeline: it ${[...totals].map(([kind, ms]) => `${DID[kind][0]} for ${duration(ms)}`).join(', ')}.`
}
