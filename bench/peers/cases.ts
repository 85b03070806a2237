/** What is measured. `width` is the number of handlers that run at once, or of submissions in flight. */
export interface Case {
  id: string
  store: 'postgres' | 'sqlite'
  kind: CaseKind
  title: string
  width: number
  /** The share of `--jobs` that this case takes: fewer where each job is a commit of its own. */
  share: number
  /** Drawn as bars on the page. */
  plot: boolean
  /** The systems of this case, where it is not for all. */
  only?: readonly string[]
}

export type CaseKind = 'drain' | 'drain-default' | 'fail-once' | 'submit' | 'bulk' | 'latency'

/** The tuned setting of graphile-worker that is its best in some runs. */
const AT_24 = ['redress', 'floor', 'graphile-500', 'graphile-2000']

const one = (
  store: Case['store'],
  kind: CaseKind,
  width: number,
  share: number,
  title: string,
  more: Partial<Case> = {},
): Case => ({ id: `${store}-${kind}-${width}`, store, kind, width, share, title, plot: false, ...more })

const PLOT = { plot: true } as const

export const CASES: readonly Case[] = [
  one('postgres', 'drain', 10, 1, 'PostgreSQL: drain, 10 handlers at once', PLOT),
  one('postgres', 'drain', 24, 1, 'PostgreSQL: drain, 24 handlers at once', { only: AT_24 }),
  one('postgres', 'drain', 50, 1, 'PostgreSQL: drain, 50 handlers at once', PLOT),
  one('postgres', 'drain-default', 10, 1 / 5, 'PostgreSQL: drain with default settings, 10 handlers at once', PLOT),
  one('postgres', 'drain-default', 50, 1 / 5, 'PostgreSQL: drain with default settings, 50 handlers at once'),
  one('postgres', 'fail-once', 10, 1 / 2, 'PostgreSQL: every job fails once, 10 handlers at once', PLOT),
  one('postgres', 'submit', 1, 1 / 50, 'PostgreSQL: submit, 1 in flight'),
  one('postgres', 'submit', 16, 1 / 10, 'PostgreSQL: submit, 16 in flight', PLOT),
  one('postgres', 'bulk', 1_000, 1, 'PostgreSQL: submit in bulk, 1,000 jobs per call', PLOT),
  one('postgres', 'latency', 1, 1, 'PostgreSQL: latency of an idle worker', PLOT),
  one('sqlite', 'drain', 10, 1, 'SQLite: drain, 10 handlers at once', PLOT),
  one('sqlite', 'fail-once', 10, 1 / 2, 'SQLite: every job fails once, 10 handlers at once', PLOT),
  one('sqlite', 'submit', 1, 1 / 50, 'SQLite: submit, 1 in flight'),
  one('sqlite', 'submit', 16, 1 / 10, 'SQLite: submit, 16 in flight'),
  one('sqlite', 'bulk', 1_000, 1, 'SQLite: submit in bulk, 1,000 jobs per call'),
  one('sqlite', 'latency', 1, 1, 'SQLite: latency of an idle worker', PLOT),
]

const LATENCIES_MAX = 500

/** How many jobs one system gets in one case. */
export const jobsOf = ({ kind, share }: Case, jobs: number, most: number): number =>
  Math.min(Math.ceil(jobs * share), most, kind === 'latency' ? LATENCIES_MAX : Number.POSITIVE_INFINITY)
