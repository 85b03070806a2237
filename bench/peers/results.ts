import type { Cost } from '../processor-time.ts'
import { CASES, type Case } from './cases.ts'
import type { System } from './system.ts'
import { systemsOf } from './systems.ts'

/** What one child process measured. */
export interface Sample {
  cost: Cost
  latencies: number[] | null
}

/** A system in a case: its figures, or why it has none. */
export type Outcome = { samples: Sample[] } | { none: string }

export interface Results {
  date: string
  jobs: number
  rounds: number
  node: string
  machine: string
  postgres: string
  sqlite: string
  /** Null where the machine has none. */
  redis: string | null
  peers: Readonly<Record<string, string>>
  /** By case and system: see `keyOf`. */
  outcomes: Record<string, { jobs: number; outcome: Outcome }>
}

export const keyOf = (given: Case, system: System): string => `${given.id} ${system.id}`

/** Medians of all rounds. */
interface Figures {
  perSecond: number
  nodeUs: number
  /** Null: unknown, or the database has no process of its own. */
  serverUs: number | null
  perProcessorSecond: number | null
  p50Ms: number | null
  p99Ms: number | null
}

export interface Line {
  system: System
  jobs: number
  figures: Figures | null
  /** In place of figures. */
  none: string
}

/** All cases that were measured, each with its systems. */
export function linesOf(results: Results): { given: Case; lines: Line[] }[] {
  return CASES.flatMap((given) => {
    const lines = systemsOf(given).flatMap((system): Line[] => {
      const found = results.outcomes[keyOf(given, system)]
      if (found === undefined) return []
      const { jobs, outcome } = found
      if ('none' in outcome) return [{ system, jobs, figures: null, none: outcome.none }]
      return [{ system, jobs, figures: figuresOf(given, jobs, outcome.samples), none: '' }]
    })
    return lines.length === 0 ? [] : [{ given, lines }]
  })
}

function figuresOf({ store }: Case, jobs: number, samples: readonly Sample[]): Figures {
  const median = (of: (sample: Sample) => number | null): number | null => {
    const known = samples.map(of).filter((figure) => figure !== null)
    return known.length === 0 ? null : quantile(known, 0.5)
  }
  const nodeUs = median(({ cost }) => cost.nodeUs / jobs) as number
  const serverUs = median(({ cost }) => (cost.serverUs === null ? null : cost.serverUs / jobs))
  const isWhole = store === 'sqlite' || serverUs !== null
  return {
    perSecond: median(({ cost }) => (jobs * 1000) / cost.ms) as number,
    nodeUs,
    serverUs,
    perProcessorSecond: isWhole ? 1_000_000 / (nodeUs + (serverUs ?? 0)) : null,
    p50Ms: median(({ latencies }) => latencies && quantile(latencies, 0.5)),
    p99Ms: median(({ latencies }) => latencies && quantile(latencies, 0.99)),
  }
}

export function quantile(figures: readonly number[], q: number): number {
  const sorted = figures.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

/** A table of one case: a head, and a line of texts per system. Ratios are to Redress in the same run. */
export function tableOf(given: Case, lines: readonly Line[]): string[][] {
  const isLatency = given.kind === 'latency'
  const redress = lines.find(({ system }) => system.id === 'redress')?.figures
  const value = (figures: Figures): number => (isLatency ? (figures.p50Ms as number) : figures.perSecond)
  const head = [
    'system',
    ...(isLatency ? ['p50 ms', 'p99 ms'] : ['jobs/s']),
    'ratio to Redress',
    'Node us/job',
    'database us/job',
    'jobs per processor second',
    'jobs',
  ]
  return [
    head,
    ...lines.map(({ system, jobs, figures, none }) => {
      if (figures === null) return [system.title, none, ...head.slice(2).map(() => '')]
      const rates = isLatency ? [decimal(figures.p50Ms), decimal(figures.p99Ms)] : [whole(figures.perSecond)]
      const ratio = redress ? `${(value(figures) / value(redress)).toFixed(2)}x` : ''
      const inProcess = system.backend === 'sqlite' ? 'in Node' : 'unknown'
      return [
        system.title,
        ...rates,
        ratio,
        tenth(figures.nodeUs),
        figures.serverUs === null ? inProcess : tenth(figures.serverUs),
        figures.perProcessorSecond === null ? 'unknown' : whole(figures.perProcessorSecond),
        whole(jobs),
      ]
    }),
  ]
}

export const whole = (figure: number): string => Math.round(figure).toLocaleString('en-US')
const tenth = (figure: number): string => (figure >= 100 ? whole(figure) : figure.toFixed(1))
const decimal = (figure: number | null): string => (figure === null ? '' : figure.toFixed(2))

/** The same table as text in columns. */
export function columnsOf(table: readonly string[][]): string {
  const widths = (table[0] ?? []).map((_, at) => Math.max(...table.map((row) => row[at]?.length ?? 0)))
  return table
    .map((row) =>
      row
        .map((text, at) => (at === 0 ? text.padEnd(widths[at] as number) : text.padStart(widths[at] as number)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
