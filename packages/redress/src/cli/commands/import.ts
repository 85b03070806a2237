import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type App, redress } from '../../app/app.ts'
import { FROM_OPTION, REDIS_OPTION } from '../../app/import/address.ts'
import type { ImportProblem, ImportReport, TypeMap } from '../../app/import/run.ts'
import { IMPORTED_STATES, type Source, type SourceSchedule, SYSTEMS, type SystemName } from '../../app/import/source.ts'
import { placeOf } from '../../app/store/open-store.ts'
import { RedressError } from '../../core/errors.ts'
import { failureLogOf } from '../apps/apps.ts'
import type { Command } from '../language/commands.ts'
import { ownOption, type Parsed, usage } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { chooseStore, refuseMissingStore } from '../target/store-option.ts'
import { columns } from '../terminal/columns.ts'
import { progressOn } from '../terminal/progress.ts'
import { type Terminal, terminalOf } from '../terminal/terminal.ts'

const STATES = [...new Set(Object.values(IMPORTED_STATES).flat())]

export const importProgram: Program = {
  options: [
    ownOption('redis URL', 'text', 'bullmq: the Redis server, such as redis://127.0.0.1:6379'),
    ownOption('prefix TEXT', 'text', 'bullmq: prefix of its keys', { fallback: 'bull' }),
    ownOption('from URL', 'text', 'pg-boss: the database, such as postgres://user@host/name'),
    ownOption('schema NAME', 'text', 'pg-boss: schema of its tables', { fallback: 'pgboss' }),
    ownOption('queue NAMES', 'text', 'only these queues, separated by commas', { isList: true }),
    ownOption('map LIST', 'text', `job types for queues or names: 'mail/welcome=mail.send,pdf=pdf.convert'`, {
      isList: true,
    }),
    ownOption('include STATES', 'text', `only these states: ${STATES.join(', ')}`, { isList: true, fallback: 'all' }),
    ownOption('app FILE', 'text', 'module that exports your app: its job types are declared, and inputs are checked'),
    ownOption('dry-run', 'flag', 'only show what would be imported, and every problem'),
    ownOption(
      'despite-workers',
      'flag',
      'import although workers of BullMQ run: a job that they take meanwhile may run twice',
    ),
  ],
  places: [{ name: 'system', description: Object.keys(SYSTEMS).join(' or ') }],
  examples: [
    'redress import bullmq --redis redis://127.0.0.1:6379 --app src/jobs.ts --dry-run',
    `redress import bullmq --redis redis://127.0.0.1:6379 --queue mail --map 'mail/welcome=mail.send' --app src/jobs.ts`,
    'redress import pg-boss --from postgres://user@host/name --app src/jobs.ts',
  ],
  run,
}

async function run(command: Command, { values, positionals: [system] }: Parsed): Promise<number> {
  if (system === undefined || !Object.hasOwn(SYSTEMS, system)) {
    throw usage(command, `There is no import from "${system}"; use ${Object.keys(SYSTEMS).join(' or ')}.`)
  }
  const name = system as SystemName
  const states = statesOf(command, name, values.include)
  const map = mapOf(command, values.map)
  const isDryRun = values['dry-run'] === true
  const source = await openSource(command, name, values)
  const progress = progressOn(process.stderr, process.env)
  let app: App | null = null
  try {
    if (!isDryRun && values['despite-workers'] !== true) await refuseWorkers(source)
    app = await openApp(values, isDryRun)
    const { runImport } = await import('../../app/import/run.ts')
    const report = await runImport(app, source, {
      states,
      map,
      isDryRun,
      onProgress: (done) => progress.show({ what: `${done} jobs`, done, total: done }),
    })
    progress.clear()
    const isChecked = values.app !== undefined
    if (values.json === true) {
      process.stdout.write(`${JSON.stringify({ isDone: !isDryRun, isChecked, ...report }, null, 2)}\n`)
    } else {
      const terminal = terminalOf(process.stdout, process.env, Date.now())
      process.stdout.write(inWords(report, { source, isDryRun, isChecked }, terminal))
    }
    return report.isComplete ? 0 : 1
  } finally {
    progress.clear()
    await source.stop()
    await app?.stop()
  }
}

const listOf = (value: string | boolean | undefined): string[] | null =>
  typeof value === 'string' ? value.split(',').map((part) => part.trim()) : null

function statesOf(command: Command, system: SystemName, value: string | boolean | undefined): readonly string[] {
  const all: readonly string[] = IMPORTED_STATES[system]
  const asked = listOf(value)
  if (asked === null || (asked.length === 1 && asked[0] === 'all')) return all
  const unknown = asked.find((state) => !all.includes(state))
  if (unknown === undefined) return all.filter((state) => asked.includes(state))
  throw usage(command, `--include must name some of ${all.join(', ')}, not "${unknown}".`)
}

function mapOf(command: Command, value: string | boolean | undefined): TypeMap {
  const map = new Map<string, string>()
  for (const entry of listOf(value) ?? []) {
    const end = entry.lastIndexOf('=')
    if (end < 1 || end === entry.length - 1) {
      throw usage(command, `--map must be like 'queue/name=type' or 'queue=type', not "${entry}".`)
    }
    map.set(entry.slice(0, end), entry.slice(end + 1))
  }
  return map
}

async function openSource(command: Command, system: SystemName, values: Parsed['values']): Promise<Source> {
  const queues = listOf(values.queue)
  const foreign =
    system === 'bullmq' ? (['from', 'schema'] as const) : (['redis', 'prefix', 'despite-workers'] as const)
  const wrong = foreign.find((option) => values[option] !== undefined)
  if (wrong !== undefined) throw usage(command, `--${wrong} is not an option of \`redress import ${system}\`.`)
  const { redis, from, prefix, schema, app } = values
  if (system === 'bullmq') {
    if (typeof redis !== 'string') throw usage(command, '--redis is missing.')
    if (!REDIS_OPTION.scheme.test(redis)) throw usage(command, '--redis must begin with redis:// or rediss://.')
    const folders = [process.cwd(), ...(typeof app === 'string' ? [dirname(resolve(app))] : [])]
    const { openBullmq } = await import('../../app/import/bullmq.ts')
    return openBullmq({ url: redis, queues, prefix: typeof prefix === 'string' ? prefix : 'bull', folders })
  }
  if (typeof from !== 'string') throw usage(command, '--from is missing.')
  if (!FROM_OPTION.scheme.test(from)) throw usage(command, '--from must begin with postgres://.')
  const { openPgBoss } = await import('../../app/import/pg-boss.ts')
  return openPgBoss({ url: from, schema: typeof schema === 'string' ? schema : 'pgboss', queues })
}

async function refuseWorkers(source: Source): Promise<void> {
  const workers = await source.workers()
  if (workers === null || workers === 0) return
  throw new RedressError('STORE_IN_USE', `Workers are connected to ${source.place}. Nothing was imported.`, {
    action: 'Stop them or pause the queues first: a job that they take during the import would run twice.',
  })
}

/** A dry run must not create a store: where there is none, it looks at an empty one in memory. */
async function openApp(values: Parsed['values'], isDryRun: boolean): Promise<App> {
  const choice = chooseStore(values)
  const file = values.app
  if (typeof file !== 'string') {
    refuseMissingStore(choice.location)
    return redress({ store: choice.location, failureLog: failureLogOf(choice.location) })
  }
  const { loadApp } = await import('../apps/load.ts')
  const place = placeOf(choice.location)
  const isMissing = place.kind === 'file' && !existsSync(place.path)
  return loadApp(file, isDryRun && isMissing ? { location: 'sqlite::memory:', flags: '', isGiven: true } : choice)
}

function inWords(
  { counts, problems, schedules, totals, isComplete }: ImportReport,
  { source, isDryRun, isChecked }: { source: Source; isDryRun: boolean; isChecked: boolean },
  terminal: Terminal,
): string {
  const table = columns(
    counts,
    [
      { title: 'QUEUE', of: ({ queue }) => queue, charsMin: 8 },
      { title: 'NAME', of: ({ name }) => name, charsMin: 8 },
      { title: 'STATE', of: ({ state }) => state },
      { title: 'TYPE', of: ({ type }) => type, charsMin: 8 },
      { title: 'SOURCE', of: (count) => count.source, isNumber: true },
      { title: isDryRun ? 'TO IMPORT' : 'IMPORTED', of: ({ imported }) => imported, isNumber: true },
      { title: 'ALREADY', of: ({ already }) => already, isNumber: true },
      {
        title: 'SKIPPED',
        of: ({ skipped }) => skipped,
        isNumber: true,
        style: ({ skipped }) => (skipped > 0 ? 'waiting' : 'plain'),
      },
    ],
    terminal,
  )
  const { imported, already, skipped } = totals
  const sum = `${totals.source} jobs = ${imported} ${isDryRun ? 'to import' : 'imported'} + ${already} imported before + ${skipped} skipped`
  const verdict = isComplete ? '' : ' Some jobs need a decision: see the reasons above, then run the import again.'
  return [
    table,
    ...sectionOf('Skipped:', problems.filter(({ isSkipped }) => isSkipped).map(problemText)),
    ...sectionOf('Imported, but:', problems.filter(({ isSkipped }) => !isSkipped).map(problemText)),
    ...sectionOf('Schedules to declare:', schedules.map(scheduleText)),
    ...(isChecked ? [] : ['The inputs were not checked: give --app with the module that declares the job types.', '']),
    `${isDryRun ? 'Nothing was done. ' : ''}${SYSTEMS[source.system]} at ${source.place}, which is only read: ${sum}.${verdict}`,
    '',
  ].join('\n')
}

const sectionOf = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`), '']

function problemText({ queue, name, state, count, why, jobs }: ImportProblem): string {
  const which = name === null ? queue : `${queue}/${name}`
  const shown = jobs.length === 0 ? '' : ` (${jobs.join(', ')}${count > jobs.length ? ', ...' : ''})`
  return `${count} ${state} of ${which}: ${why}${shown}`
}

function scheduleText({ queue, name, cron, everyMs, timezone, input, note }: SourceSchedule): string {
  const when =
    cron === null
      ? everyMs === null
        ? ''
        : `every: '${everyMs % 1000 === 0 ? `${everyMs / 1000}s` : `${everyMs}ms`}'`
      : `cron: ${JSON.stringify(cron)}`
  const parts = [when, timezone && `timezone: ${JSON.stringify(timezone)}`, `input: ${JSON.stringify(input)}`]
  const more = note === null ? '' : ` (${note})`
  return `${queue}: app.schedule(${JSON.stringify(name)}, { job: ..., ${parts.filter(Boolean).join(', ')} })${more}`
}
