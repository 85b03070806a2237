import { type App, redress } from '../../app/app.ts'
import type { TypeChoice } from '../../app/chosen-types.ts'
import { setDefaultLog } from '../../app/default-log.ts'
import { outcomeLog } from '../../app/events/outcome-log.ts'
import { shownLocation } from '../../app/store/open-store.ts'
import { RedressError } from '../../core/errors.ts'
import { durationMs } from '../../core/text/duration.ts'
import type { AppModule, InstalledApp } from '../../http/app-module.ts'
import type { HttpServer } from '../../http/server.ts'
import type { LogLevel } from '../../runtime/json-log.ts'
import { type Log, silentLog } from '../../runtime/log.ts'
import { loadPeers, manifest } from '../../runtime/manifest.ts'
import type { Export } from '../../tracing/start-export.ts'
import { isTraced } from '../../tracing/tracing.ts'
import type { Worker } from '../../worker/worker.ts'
import { chosenApps, failureLogOf, installApps } from '../apps/apps.ts'
import { namedApps, SAMPLE } from '../apps/installed.ts'
import { type OptionSpec, ownOption, type Parsed } from '../language/parse.ts'
import type { Program } from '../programs.ts'
import { chooseStore, type StoreChoice } from '../target/store-option.ts'
import { exitOnUncaughtErrors, stopOnSignals } from '../terminal/exit.ts'
import { HTTP_OPTIONS, type HttpChoice, readHttpOptions } from './http-options.ts'
import { firstSignIn, introduction, type Started } from './introduction.ts'

const WORKER_OPTIONS: readonly OptionSpec[] = [
  ownOption(
    'apps LIST',
    'text',
    'apps to run, separated by commas: installed apps (pdf-xml), packages, files (./app.ts) or sample; else $REDRESS_APPS',
  ),
  ownOption('concurrency', 'number', 'maximum number of jobs that run at once; else $WORKER_CONCURRENCY', {
    fallback: '10',
  }),
  ownOption('queues LIST', 'text', 'run only job types of these queues, separated by commas; else $WORKER_QUEUES'),
  ownOption('types LIST', 'text', 'run only these job types, separated by commas; else $WORKER_TYPES'),
  ownOption(
    'per-type LIST',
    'text',
    'maximum number of jobs of a type that run at once, such as pdf.convert=2,mail.send=5; else $WORKER_PER_TYPE',
  ),
  ownOption('grace TIME', 'text', 'how long running jobs may finish after a stop signal', {
    fallback: '30s',
  }),
  ownOption('log-level', 'choice', 'lowest level that is logged, as JSON lines on standard error', {
    fallback: 'info',
    choices: ['debug', 'info', 'warn', 'error'],
  }),
  ownOption('log-complete', 'flag', 'log completed jobs at level info instead of debug'),
  ownOption('quiet', 'flag', 'no log and no introduction'),
]

export const start: Program = {
  options: [
    ownOption(
      'app FILE',
      'text',
      'module that exports your app; without it and --apps, the sample and all installed apps run',
    ),
    ...HTTP_OPTIONS,
    ...WORKER_OPTIONS,
  ],
  places: [],
  examples: [
    'redress start',
    'redress start --apps pdf-xml,./my-app.ts --data /var/lib/redress',
    'redress start --app app.ts --data /var/lib/redress --concurrency 4',
    'redress start --app app.ts --host 0.0.0.0 --public-url https://jobs.example.org --store "$DATABASE_URL"',
  ],
  run: async (_command, parsed) => {
    const file = parsed.values.app as string | undefined
    const http = readHttpOptions(parsed.values)
    const apps = await chosenApps(parsed.values.apps, file !== undefined)
    await serve(parsed, { file, apps }, http)
  },
}

export const worker: Program = {
  options: WORKER_OPTIONS,
  places: [{ name: 'file', description: 'module whose default export (or `app`) is made by redress()' }],
  examples: [
    'redress worker app.ts',
    'redress worker app.ts --concurrency 4 --data /var/lib/redress',
    'redress worker --apps pdf-xml --store "$DATABASE_URL"',
    'redress worker app.ts --queues mail,pdf --per-type pdf.convert=2',
  ],
  run: async (_command, parsed) => {
    const file = parsed.positionals[0]
    if (file === undefined && namedApps(parsed.values.apps) === null) {
      throw new RedressError('USAGE', 'A worker needs an app: give a file, or --apps.')
    }
    await serve(parsed, { file, apps: await chosenApps(parsed.values.apps, file !== undefined) }, WORKER_ONLY)
  },
}

/** The app of a module, installed apps, or both. */
interface Served {
  file: string | undefined
  apps: readonly AppModule[]
}

const WORKER_ONLY: HttpChoice = { server: null, hasWorker: true, isRetried: false }

interface Parts {
  server: HttpServer | null
  worker: Worker | null
  apps: readonly InstalledApp[]
}

function concurrencyOf(option: unknown): number | null {
  const given = typeof option === 'string' ? option : process.env.WORKER_CONCURRENCY || undefined
  if (given === undefined) return null
  if (Number.isInteger(Number(given)) && Number(given) >= 1) return Number(given)
  const name = option === undefined ? 'WORKER_CONCURRENCY' : '--concurrency'
  throw new RedressError('OPTION_INVALID', `${name} must be a whole number of at least 1, not ${given}.`)
}

const CHOICE_FLAGS = ['queues', 'types', 'per-type'] as const

/** Which jobs the worker runs: flags first, then the environment. */
function typeChoiceOf(values: Parsed['values']): TypeChoice {
  const { WORKER_QUEUES, WORKER_TYPES, WORKER_PER_TYPE } = process.env
  const queues = listOf('--queues', values.queues) ?? listOf('WORKER_QUEUES', WORKER_QUEUES || undefined)
  const types = listOf('--types', values.types) ?? listOf('WORKER_TYPES', WORKER_TYPES || undefined)
  const perType = slotsOf('--per-type', values['per-type']) ?? slotsOf('WORKER_PER_TYPE', WORKER_PER_TYPE || undefined)
  return {
    ...(queues !== null && { queues }),
    ...(types !== null && { types }),
    ...(perType !== null && { perType }),
  }
}

function listOf(option: string, given: unknown): string[] | null {
  if (typeof given !== 'string') return null
  const names = given.split(',').map((name) => name.trim())
  if (names.every((name) => name !== '')) return names
  throw new RedressError('OPTION_INVALID', `${option} must be names separated by commas, not ${JSON.stringify(given)}.`)
}

function slotsOf(option: string, given: unknown): Record<string, number> | null {
  const pairs = listOf(option, given)
  if (pairs === null) return null
  const slots = Object.fromEntries(
    pairs.map((pair) => {
      const [, type, slots] = /^([^=\s]+)\s*=\s*([1-9]\d*)$/.exec(pair) ?? []
      if (type !== undefined) return [type, Number(slots)]
      throw new RedressError('OPTION_INVALID', `${option} must be such as pdf.convert=2, not ${JSON.stringify(pair)}.`)
    }),
  )
  if (Object.keys(slots).length === pairs.length) return slots
  throw new RedressError('OPTION_INVALID', `${option} names a type twice: ${JSON.stringify(given)}.`)
}

/** Serves and works until a stop signal. */
async function serve({ values }: Parsed, served: Served, http: HttpChoice): Promise<void> {
  const choice = chooseStore(values)
  const concurrency = concurrencyOf(values.concurrency)
  const typeChoice = typeChoiceOf(values)
  const unused = CHOICE_FLAGS.find((flag) => !http.hasWorker && values[flag] !== undefined)
  if (unused !== undefined)
    throw new RedressError('USAGE', `--${unused} and --no-worker cannot be combined: no job runs here.`)
  const graceMs = durationMs(typeof values.grace === 'string' ? values.grace : '30s', '--grace')
  const isQuiet = values.quiet === true
  const log: Log = isQuiet
    ? silentLog
    : (await import('../../runtime/json-log.ts')).jsonLog({ level: (values['log-level'] ?? 'info') as LogLevel })
  setDefaultLog(log)
  const app = await appOf(served.file, choice)
  exitOnUncaughtErrors(log)
  const traces = await traceExport(log)
  const parts: Parts = { server: null, worker: null, apps: await installApps(served.apps, app, log) }
  // Before the first job is claimed: an unhandled signal would kill the worker while it holds a lease.
  const stopped = stopOnSignals(() => stopAll(app, parts, traces, graceMs), graceMs, isQuiet)
  try {
    if (!http.isRetried) await app.store()
    if (http.server !== null) {
      const { startServer } = await import('../../http/server.ts')
      const mounts = parts.apps.flatMap(({ mount }) => mount ?? [])
      parts.server = await startServer({ app, log, mounts, ...http.server })
      await storeOf(app, parts.server, isQuiet)
    }
    const tell = outcomeLog(log, { complete: values['log-complete'] === true ? 'info' : 'debug' })
    if (http.hasWorker) {
      for (const one of parts.apps) await one.start?.()
      parts.worker = await app.work({
        // The command stops its server, too: see stopOnSignals.
        signals: false,
        log,
        onOutcome: tell,
        ...typeChoice,
        ...(concurrency !== null && { concurrency }),
      })
    } else {
      await app.startMaintenance({ log, onOutcome: tell })
    }
    if (!isQuiet) await introduce(app, parts, { values, choice, names: served.apps.map(({ name }) => name), http })
  } catch (error) {
    // Parts that already run must neither keep the process alive nor continue after the error.
    await parts.server?.stop({ graceMs: 0 })
    await app.stop({ graceMs: 0 })
    await Promise.all(parts.apps.map((one) => one.stop?.()))
    throw error
  }
  await stopped
}

/** While the store is unreachable the server reports it and retries. A permanent error is thrown. */
async function storeOf(app: App, server: HttpServer, isQuiet: boolean): Promise<void> {
  try {
    await app.store()
  } catch (error) {
    if (!(error instanceof RedressError) || error.exitCode !== EXIT_NOT_NOW) throw error
    if (!isQuiet) {
      process.stderr.write(`${error.code}: ${error.message}\nServing on ${server.url} meanwhile, and retrying.\n`)
    }
    await server.ready
  }
}

const EXIT_NOT_NOW = 5

async function introduce(
  app: App,
  { server, worker, apps }: Parts,
  context: { values: Parsed['values']; choice: StoreChoice; names: readonly string[]; http: HttpChoice },
): Promise<void> {
  const isOpen = context.http.server?.auth === 'none'
  const signIn = server === null || isOpen ? null : await firstSignIn(app, server.publicUrl)
  const started: Started = {
    app,
    worker: worker?.id ?? null,
    types: worker?.types ?? app.types,
    url: server?.url ?? null,
    publicUrl: server?.publicUrl ?? null,
    isOpen,
    signIn,
    isSample: context.names.includes(SAMPLE),
    pages: apps.flatMap(({ page }) => page ?? []),
    hasSystems: context.names.some((name) => name !== SAMPLE),
  }
  if (context.values.json !== true) process.stdout.write(introduction(started, context.choice))
  else {
    const { url, publicUrl } = started
    const store = app.location === null ? null : shownLocation(app.location)
    const facts = { store, types: started.types, worker: started.worker, url, publicUrl, signIn }
    process.stdout.write(`${JSON.stringify(facts)}\n`)
  }
}

/** Accepts no new requests and jobs. Running ones may finish and need the store until then. */
async function stopAll(
  app: App,
  { server, worker, apps }: Parts,
  traces: Export | null,
  graceMs: number,
): Promise<void> {
  await Promise.all([server?.stop({ graceMs }), worker?.stop({ graceMs })])
  await app.stop({ graceMs })
  await Promise.all(apps.map((one) => one.stop?.()))
  await traces?.stop()
}

async function appOf(file: string | undefined, choice: StoreChoice): Promise<App> {
  const { location } = choice
  if (file === undefined) {
    // Not named where it is not given: the log says what named it.
    return redress({ failureLog: failureLogOf(location), ...(choice.isGiven && { store: location }) })
  }
  const app = await (await import('../apps/load.ts')).loadApp(file, choice)
  if (choice.isGiven && app.location !== choice.location) {
    process.stderr.write(
      `${file} uses its own store (${app.location === null ? 'an open store' : shownLocation(app.location)}); --data and --store are ignored.\n`,
    )
  }
  return app
}

/** Sends the spans of this process to the collector that the environment names, unless the app has set up tracing itself. */
async function traceExport(log: Log): Promise<Export | null> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, OTEL_SDK_DISABLED } = process.env
  if (!OTEL_EXPORTER_OTLP_ENDPOINT && !OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) return null
  if (OTEL_SDK_DISABLED?.trim().toLowerCase() === 'true' || isTraced()) return null
  const { startExport } = await loadPeers('OTEL_EXPORTER_OTLP_ENDPOINT', () => import('../../tracing/start-export.ts'))
  return startExport(process.env, manifest().version, log)
}
