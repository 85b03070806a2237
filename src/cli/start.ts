import type { App } from '../app/app.ts'
import { placeText } from '../app/open-store.ts'
import { outcomeLog } from '../app/outcome-log.ts'
import { durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { channelOfType, isOwnType } from '../core/notices.ts'
import type { LogLevel } from '../runtime/json-log.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import { commandName, quoted } from './command-name.ts'
import type { Program } from './invoke.ts'
import { logLastWords } from './last-words.ts'
import { type OptionSpec, ownOption, type Parsed } from './parse.ts'
import { stopOnSignals } from './stop-on-signals.ts'
import { chooseStore, type StoreChoice } from './store-option.ts'

const WORKER_OPTIONS: readonly OptionSpec[] = [
  ownOption('concurrency', 'number', 'jobs that run at once', { fallback: '10' }),
  ownOption('grace TIME', 'text', 'how long running jobs may take to finish when it is told to stop', {
    fallback: '30s',
  }),
  ownOption('log-level', 'choice', 'what is logged, as JSON lines on standard error', {
    fallback: 'info',
    choices: ['debug', 'info', 'warn', 'error'],
  }),
  ownOption('log-complete', 'flag', 'log the jobs that completed at level info, not only at debug'),
  ownOption('quiet', 'flag', 'no log and no introduction'),
]

export const start: Program = {
  options: [ownOption('app FILE', 'text', 'module that exports an app; the sample when left out'), ...WORKER_OPTIONS],
  places: [],
  examples: ['redress start', 'redress start --app app.ts --data /var/lib/redress --concurrency 4'],
  run: (_command, parsed) => serve(parsed, parsed.values.app as string | undefined),
}

export const worker: Program = {
  options: WORKER_OPTIONS,
  places: [{ name: 'file', description: 'module whose default export (or `app`) was made by redress()' }],
  examples: ['redress worker app.ts', 'redress worker app.ts --concurrency 4 --data /var/lib/redress'],
  run: (_command, parsed) => serve(parsed, parsed.positionals[0]),
}

/** Works until it is told to stop. */
async function serve({ values }: Parsed, file: string | undefined): Promise<void> {
  const choice = chooseStore(values)
  if (values.concurrency !== undefined && !(Number(values.concurrency) >= 1)) {
    throw new RedressError('OPTION_INVALID', `--concurrency must be at least 1, not ${values.concurrency}.`)
  }
  const graceMs = durationMs(typeof values.grace === 'string' ? values.grace : '30s', '--grace')
  const app = await appOf(file, choice)
  const isQuiet = values.quiet === true
  const log: Log = isQuiet
    ? silentLog
    : (await import('../runtime/json-log.ts')).jsonLog({ level: (values['log-level'] ?? 'info') as LogLevel })
  logLastWords(log)
  // Before the first job is claimed: a signal that nobody listens to would kill the worker with it in its hands.
  const stopped = stopOnSignals(app, graceMs, isQuiet)
  const working = await app.work({
    log,
    tell: outcomeLog(log, { complete: values['log-complete'] === true ? 'info' : 'debug' }),
    ...(typeof values.concurrency === 'string' && { concurrency: Number(values.concurrency) }),
  })
  if (values.json === true) process.stdout.write(`${JSON.stringify(factsOf(app, working.id))}\n`)
  else if (!isQuiet) process.stdout.write(introduction(app, working.id, file === undefined, choice))
  await stopped
}

async function appOf(file: string | undefined, choice: StoreChoice): Promise<App> {
  if (file === undefined) return (await import('./sample.ts')).sampleApp(choice.location)
  const app = await (await import('./load-app.ts')).loadApp(file, choice)
  if (choice.isGiven && app.location !== choice.location) {
    process.stderr.write(
      `${file} names its own store (${app.location ?? 'an open one'}); --data and --store do not reach it.\n`,
    )
  }
  return app
}

function factsOf(app: App, workerId: string): { store: string | null; types: string[]; worker: string } {
  return { store: app.location, types: app.types, worker: workerId }
}

function introduction(app: App, workerId: string, isSample: boolean, choice: StoreChoice): string {
  const { location } = app
  const file = location === null ? 'one that the app opened' : placeText(location)
  // The app may keep its jobs elsewhere than these options say.
  const flags = location === null || location === choice.location ? choice.flags : ` --store ${quoted(location)}`
  const me = (words: string) => `  ${commandName()} ${words}${flags}\n`
  const sample = `submit sample.convert '{"file":"a.pdf","gateway":"down"}'`
  // Deliveries of notices are jobs, too, but nobody submits one by hand.
  const types = app.types.filter((type) => !isOwnType(type))
  const channels = app.types.flatMap((type) => channelOfType(type) ?? [])
  const submit = isSample ? sample : `submit ${types[0] ?? 'TYPE'} '{}'`
  return [
    `redress is working${isSample ? ', with a sample app that fails on purpose' : ''}.\n\n`,
    `  store   ${file}\n`,
    `  types   ${types.join(', ') || 'none: the app declares no job type'}\n`,
    ...(channels.length === 0 ? [] : [`  tells   ${channels.join(', ')}\n`]),
    `  worker  ${workerId}\n`,
    '\nIn another terminal, submit a job, look at it, and ask why:\n\n',
    me(submit),
    me('jobs list'),
    me('explain JOB'),
    '\nCtrl-C stops it: running jobs may finish, and what has not begun goes back to the queue.\n\n',
  ].join('')
}
