import type { App } from '../app/app.ts'
import { outcomeLog } from '../app/outcome-log.ts'
import { durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import type { HttpServer } from '../http/server.ts'
import type { LogLevel } from '../runtime/json-log.ts'
import { type Log, silentLog } from '../runtime/log.ts'
import type { Export } from '../runtime/otlp/start-export.ts'
import type { Worker } from '../worker/worker.ts'
import { firstSignIn } from './first-sign-in.ts'
import { HTTP_OPTIONS, type HttpChoice, readHttpOptions } from './http-options.ts'
import { introduction, type Started } from './introduction.ts'
import type { Program } from './invoke.ts'
import { logLastWords } from './last-words.ts'
import { type OptionSpec, ownOption, type Parsed } from './parse.ts'
import { stopOnSignals } from './stop-on-signals.ts'
import { chooseStore, type StoreChoice } from './store-option.ts'
import { traceExport } from './trace-export.ts'

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
  options: [
    ownOption('app FILE', 'text', 'module that exports an app; the sample when left out'),
    ...HTTP_OPTIONS,
    ...WORKER_OPTIONS,
  ],
  places: [],
  examples: [
    'redress start',
    'redress start --app app.ts --data /var/lib/redress --concurrency 4',
    'redress start --app app.ts --host 0.0.0.0 --public-url https://jobs.example.org --store "$DATABASE_URL"',
  ],
  run: (_command, parsed) => serve(parsed, parsed.values.app as string | undefined, readHttpOptions(parsed.values)),
}

export const worker: Program = {
  options: WORKER_OPTIONS,
  places: [{ name: 'file', description: 'module whose default export (or `app`) was made by redress()' }],
  examples: ['redress worker app.ts', 'redress worker app.ts --concurrency 4 --data /var/lib/redress'],
  run: (_command, parsed) => serve(parsed, parsed.positionals[0], WORKER_ONLY),
}

const WORKER_ONLY: HttpChoice = { server: null, hasWorker: true, isRetried: false }

/** Serves and works until it is told to stop. */
async function serve({ values }: Parsed, file: string | undefined, http: HttpChoice): Promise<void> {
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
  const traces = await traceExport(log)
  const parts: { server: HttpServer | null; worker: Worker | null } = { server: null, worker: null }
  // Before the first job is claimed: a signal that nobody listens to would kill the worker with it in its hands.
  const stopped = stopOnSignals(() => stopAll(app, parts, traces, graceMs), graceMs, isQuiet)
  try {
    if (!http.isRetried) await app.store()
    if (http.server !== null) {
      const { startServer } = await import('../http/server.ts')
      parts.server = await startServer({ app, log, ...http.server })
      await storeOf(app, parts.server, isQuiet)
    }
    if (http.hasWorker) {
      parts.worker = await app.work({
        log,
        tell: outcomeLog(log, { complete: values['log-complete'] === true ? 'info' : 'debug' }),
        ...(typeof values.concurrency === 'string' && { concurrency: Number(values.concurrency) }),
      })
    }
    if (!isQuiet) await introduce(app, parts, { values, choice, isSample: file === undefined, http })
  } catch (error) {
    // What has begun must not keep the process, nor go on behind the error.
    await parts.server?.stop({ graceMs: 0 })
    await app.stop({ graceMs: 0 })
    throw error
  }
  await stopped
}

/** While the store is away the server says so to whoever looks, and asks again. What is wrong for good is an error now. */
async function storeOf(app: App, server: HttpServer, isQuiet: boolean): Promise<void> {
  try {
    await app.store()
  } catch (error) {
    if (!(error instanceof RedressError) || error.exitCode !== EXIT_NOT_NOW) throw error
    if (!isQuiet) {
      process.stderr.write(`${error.code}: ${error.message}\nServing on ${server.url} meanwhile; it is tried again.\n`)
    }
    await server.ready
  }
}

const EXIT_NOT_NOW = 5

async function introduce(
  app: App,
  { server, worker }: { server: HttpServer | null; worker: Worker | null },
  context: { values: Parsed['values']; choice: StoreChoice; isSample: boolean; http: HttpChoice },
): Promise<void> {
  const isOpen = context.http.server?.auth === 'none'
  const signIn = server === null || isOpen ? null : await firstSignIn(app, server.publicUrl)
  const started: Started = {
    app,
    worker: worker?.id ?? null,
    url: server?.url ?? null,
    publicUrl: server?.publicUrl ?? null,
    isOpen,
    signIn,
    isSample: context.isSample,
  }
  if (context.values.json !== true) process.stdout.write(introduction(started, context.choice))
  else {
    const { url, publicUrl } = started
    const facts = { store: app.location, types: app.types, worker: started.worker, url, publicUrl, signIn }
    process.stdout.write(`${JSON.stringify(facts)}\n`)
  }
}

/** No new requests and no new jobs from now on; what runs may finish, and needs the store until then. */
async function stopAll(
  app: App,
  { server, worker }: { server: HttpServer | null; worker: Worker | null },
  traces: Export | null,
  graceMs: number,
): Promise<void> {
  await Promise.all([server?.stop({ graceMs }), worker?.stop({ graceMs })])
  await app.stop({ graceMs })
  await traces?.stop()
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
