import type { Case } from './cases.ts'
import { plot } from './plot.ts'
import { type Line, linesOf, type Results, tableOf, whole } from './results.ts'
import { SYSTEMS } from './systems.ts'

/** The files of `docs/` that show a run: the page and its plots, by their paths in `docs/`. */
export function pageOf(results: Results): Map<string, string> {
  const cases = linesOf(results)
  const files = new Map<string, string>()
  for (const { given, lines } of cases) {
    if (given.plot) files.set(imageOf(given), plotOf(given, lines))
  }
  const sections = cases.map(({ given, lines }) => {
    const [head = [], ...rows] = tableOf(given, lines)
    const table = [head, head.map((_, at) => (at === 0 ? '---' : '---:')), ...rows]
    return [
      `### ${given.title}`,
      given.plot ? `![Bars of the table below](${imageOf(given)})` : '',
      table.map((row) => `| ${row.join(' | ')} |`).join('\n'),
      noteOf(given),
    ]
      .filter((part) => part !== '')
      .join('\n\n')
  })
  files.set(
    'benchmarks.md',
    `${[introOf(results), '## Figures', ...sections, KEPT, settingsOf(results)].join('\n\n')}\n`,
  )
  return files
}

const imageOf = ({ id }: Case): string => `images/bench-${id}.svg`

function plotOf(given: Case, lines: readonly Line[]): string {
  const isLatency = given.kind === 'latency'
  const bars = lines.flatMap(({ system, figures }) => {
    if (figures === null) return []
    const value = isLatency ? (figures.p50Ms as number) : figures.perSecond
    const text = isLatency ? `${value.toFixed(2)} ms` : whole(value)
    return [{ label: system.title, value, text, isOwn: system.id.startsWith('redress') }]
  })
  return plot(`${given.title}, ${isLatency ? 'p50, less is better' : 'jobs per second'}`, bars)
}

const NOTES: Partial<Record<Case['kind'], string>> = {
  'drain-default':
    'No setting is changed except the number of handlers. pg-boss runs one job per worker and polling interval (2 s), so its rate follows from that interval. BullMQ has the same settings in all drains.',
  'fail-once':
    'The first attempt of each job fails and the second completes; a rate counts completed jobs. graphile-worker waits for at least 2.7 s before a retry, and no setting changes this. So the benchmark runs all first attempts, sets `run_at` to now with one statement that is not counted, and then runs the second attempts. Neither the wait nor that statement counts, which favours graphile-worker. plainjob has no retries.',
  latency:
    'Milliseconds from the call that submits a job to the first line of its handler, in one process, one job at a time. pg-boss without LISTEN/NOTIFY waits for its next poll. The floor is a submission and a claim, one after the other. The processor time of Node includes about 500 us per job in which the benchmark waits for a random moment, except for the floor.',
}

const noteOf = ({ kind }: Case): string => NOTES[kind] ?? ''

/** Fewer jobs or rounds than the defaults. */
const isShort = ({ jobs, rounds }: Results): boolean => jobs < 200_000 || rounds < 3
const SHORT = `**These figures are preliminary.** They come from a run that is too short to compare systems: start-up counts, and one busy
moment of the machine changes a figure.

`

const introOf = (results: Results): string => `# Benchmarks

\`npm run bench -- --peers\` measures Redress, four other job queues and a floor of bare SQL, and writes this page.

**Only ratios within one run count.** The rates depend on the machine, its disk and what else it does. Two runs can differ by a
factor of two. Processor time per job varies by about 10 %, so compare that first. Measure on your own machine before you decide.

${isShort(results) ? SHORT : ''}| this run | |
|---|---|
| date | ${results.date} |
| jobs | ${whole(results.jobs)} per drain; the last column of each table has the number of that case |
| rounds | ${results.rounds}; each figure is the median |
| machine | ${results.machine} |
| Node | ${results.node}, for all systems |
| PostgreSQL | ${results.postgres}; one server for all systems |
| SQLite | ${results.sqlite} |
| Redis | ${results.redis ?? 'none on this machine, so BullMQ was not measured'} |
| versions | ${Object.entries(results.peers)
  .map(([name, version]) => `${name} ${version}`)
  .join(', ')} |

## How to read the figures

- **jobs/s**: completed or submitted jobs per second of wall time. A drain counts from the start of the worker until the last completion
  is stored. The handlers do nothing.
- **ratio to Redress**: the rate (or the latency) of the system, divided by that of Redress in the same case.
- **Node us/job**: processor time of the Node process per job, in microseconds, with all its threads.
- **database us/job**: processor time of all processes of the database server per job. SQLite runs in the Node process.
- **jobs per processor second**: jobs for one second of processor time, of Node and the database together.
- **none**: the system has no such mode. It does not mean zero.
- **bare SQL (floor)**: the transitions of Redress, written by hand as SQL in batches on its tables. It has no handlers, leases, timers or
  decisions. The difference to Redress is what the engine costs.

Each system runs in its own process on an empty database. The systems of a case follow each other in every round.`

const KEPT = `## What each system keeps

Rates alone do not compare these systems: they store different things.

| system | history of each attempt | fence against a worker that lost its job | audit trail | finished jobs | durable when acknowledged |
|---|---|---|---|---|---|
| Redress | yes, each transition and each failure | yes: every write of a worker is compared with its attempt number | yes | kept until the retention of the type | yes, with \`fsync\` |
| graphile-worker | no: only the last error and a counter | no: a completion names only the job; a job is locked for 4 h | no | deleted | yes, with \`fsync\` |
| pg-boss | no: only the last output and a counter | yes: a completion is compared with the retry count; a job expires after 15 min | no | kept for 7 days | yes, with \`fsync\` |
| plainjob | no, and no retries | no: a job is queued again after 30 min | no | kept for 7 days | only with \`synchronous = FULL\` |
| BullMQ on Redis | no: stack traces and a counter | yes: a lock token per job | no | kept until removed | no: \`appendfsync everysec\` can lose the last second |`

const settingsOf = (results: Results): string => `## Settings

| system | settings |
|---|---|
${[...new Map(SYSTEMS.map(({ title, settings }) => [title, settings]))]
  .map(([title, settings]) => `| ${title} | ${settings} |`)
  .join('\n')}

All systems log nothing. The peers submit in bulk with their own call for it, 1,000 jobs at a time.
pg-boss runs with rrule-temporal 2.2.7, which reads its recurring schedules; no case uses schedules.

## Repeat it

\`\`\`sh
npm ci
npm run bench -- --peers --jobs ${results.jobs} --rounds ${results.rounds}
\`\`\`

The first run installs the peers into \`node_modules/.cache/bench-peers\`, for which it needs the npm registry. BullMQ is measured if
a \`redis-server\` is on the machine. \`--peers --quick\` measures a few jobs once and does not write this page.
\`npm run bench -- --help\` lists the other measurements: growth, scale, memory and profiles.`
