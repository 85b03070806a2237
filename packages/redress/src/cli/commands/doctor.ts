import { type Diagnosis, examine, type Finding, findOrphans } from '../../app/store/doctor.ts'
import { isoTime } from '../../core/text/duration.ts'
import { oneLine } from '../../core/text/printable.ts'
import { systemClock } from '../../runtime/clock.ts'
import { ownOption, type Parsed, SERVER_OPTIONS, usage } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { chooseStore } from '../target/store-option.ts'
import { chosenServer, openTarget } from '../target/target.ts'
import { columns } from '../terminal/columns.ts'
import { type Style, type Terminal, terminalOf } from '../terminal/terminal.ts'

export const doctor: Program = {
  options: [
    ownOption('deep', 'flag', 'also check the whole SQLite file for damage'),
    ownOption('strict', 'flag', 'exit with 1 for warnings too'),
    ownOption('orphans', 'flag', 'only check for orphans that wait for a person; exit with 1 if there are any'),
    ...SERVER_OPTIONS,
  ],
  places: [],
  examples: [
    'redress doctor',
    'redress doctor --store "$DATABASE_URL" --strict --json',
    'redress doctor --orphans',
    'redress doctor --orphans --server https://jobs.example.org --json',
  ],
  run: (command, parsed) => {
    const { orphans, deep, strict, server } = parsed.values
    if (orphans !== true && server !== undefined) {
      throw usage(command, '--server works only with --orphans; run all other checks next to the store.')
    }
    if (orphans !== true) return run(parsed)
    if (deep === true || strict === true) throw usage(command, '--orphans cannot be combined with --deep or --strict.')
    return runOrphans(parsed)
  },
}

interface Orphan {
  id: string
  type: string
  worker: string | null
  silentSince: string
}

const ORPHANS_ASKED_MAX = 1_000

/** A health check for monitors: whether a person is needed. Read-only, and works while no process of Redress runs. */
async function runOrphans({ values }: Parsed): Promise<number> {
  const { place, orphans } = await orphansAt(values)
  if (values.json === true)
    process.stdout.write(`${JSON.stringify({ store: place, count: orphans.length, orphans }, null, 2)}\n`)
  else if (orphans.length === 0) process.stdout.write('No orphans: every processing job has a worker.\n')
  else {
    const shape = [
      { title: 'JOB', of: ({ id }: Orphan) => id },
      { title: 'TYPE', of: ({ type }: Orphan) => type },
      { title: 'WORKER', of: ({ worker }: Orphan) => worker },
      { title: 'SILENT SINCE', of: ({ silentSince }: Orphan) => silentSince },
    ]
    process.stdout.write(columns(orphans, shape, terminalOf(process.stdout, process.env, Date.now())))
  }
  return orphans.length === 0 ? 0 : 1
}

async function orphansAt(values: Parsed['values']): Promise<{ place: string; orphans: Orphan[] }> {
  const server = chosenServer(values)
  if (server === null) {
    const { store, orphans } = await findOrphans(chooseStore(values).location, systemClock)
    const seen = ({ silentSinceMs, ...rest }: (typeof orphans)[number]) => ({
      ...rest,
      silentSince: isoTime(silentSinceMs),
    })
    return { place: store, orphans: orphans.map(seen) }
  }
  const target = await openTarget(values)
  try {
    const { jobs } = await target.perform('orphans.list', { limit: ORPHANS_ASKED_MAX })
    const seen = ({ id, type, worker, leaseUntil, orphanedAt }: (typeof jobs)[number]) => ({
      ...{ id, type, worker },
      silentSince: leaseUntil ?? orphanedAt ?? '',
    })
    return { place: target.server, orphans: jobs.map(seen) }
  } finally {
    await target.stop()
  }
}

async function run({ values }: Parsed): Promise<number> {
  const { location } = chooseStore(values)
  const diagnosis = await examine(location, { isDeep: values.deep === true, clock: systemClock })
  const terminal = terminalOf(process.stdout, process.env, Date.now())
  process.stdout.write(values.json === true ? `${JSON.stringify(diagnosis, null, 2)}\n` : inWords(diagnosis, terminal))
  const isFine = values.strict === true ? diagnosis.findings.every(({ level }) => level === 'ok') : diagnosis.isWell
  return isFine ? 0 : 1
}

const STYLES: Readonly<Record<Finding['level'], Style>> = { ok: 'good', warning: 'waiting', wrong: 'bad' }

function inWords({ store, findings }: Diagnosis, terminal: Terminal): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.map(({ check, level, says, fix }) => {
    const mark = terminal.paint(STYLES[level], level.padEnd('warning'.length))
    const how = fix === null ? '' : terminal.paint('quiet', ` -> ${oneLine(fix)}`)
    return `${mark}  ${check.padEnd(width)}  ${oneLine(says)}${how}`
  })
  return `${[`${store}`, '', ...lines, '', verdict(findings, terminal)].join('\n')}\n`
}

function verdict(findings: readonly Finding[], terminal: Terminal): string {
  const [bad, doubtful] = ['wrong', 'warning'].map((level) => findings.filter((one) => one.level === level).length)
  if (bad === 0 && doubtful === 0) return terminal.paint('good', 'No problems found.')
  return `${bad} wrong, ${doubtful} ${doubtful === 1 ? 'warning' : 'warnings'}.`
}
