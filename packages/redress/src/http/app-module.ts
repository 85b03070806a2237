import type { App } from '../app/app.ts'
import type { RedressError } from '../core/errors.ts'
import type { OperationName } from '../operations/catalog.ts'
import type { OutputOf } from '../operations/table.ts'
import type { Log } from '../runtime/log.ts'
import type { CopiedCount } from '../store/copy/copy.ts'
import type { Mount } from './server.ts'

export type { CopiedCount } from '../store/copy/copy.ts'

/** A system on the engine: job types, routes, pages and commands under one name. `redress start --apps` serves it. */
export interface AppModule {
  readonly name: string
  /** Declares its job types and schedules on the app. Nothing runs yet, and it must not wait for other services. */
  install(app: App, context: InstallContext): InstalledApp | Promise<InstalledApp>
  /**
   * For an app that keeps rows of its own beside the jobs: copies them from one store to another (`redress copy`), after
   * the jobs were copied. With `to` null it only counts them.
   */
  copyRows?(from: string, to: string | null): Promise<readonly CopiedCount[]>
  /** Commands that it adds to `redress`; a package declares their first words in its package.json. */
  commands?: readonly AppCommand[]
}

/** What an app module gets when it is installed. */
export interface InstallContext {
  /** A folder for files of its own, beside the store's; not made yet. */
  home: string
  env: Readonly<Record<string, string | undefined>>
  log: Log
}

/** What an app module adds to the server. */
export interface InstalledApp {
  mount?: Mount
  /** Where people begin: '/convert'. */
  page?: string
  /** Called before the first job is claimed: starts services that its jobs need. */
  start?(): Promise<void>
  /** After the last job has ended. */
  stop?(): Promise<void>
}

/** A command that an app adds to the command line: `redress proxx validate card.json`. */
export interface AppCommand {
  /** Its words, then its arguments: 'proxx validate <file>'. `<file>` is required, `[file]` is optional. */
  usage: string
  summary: string
  /** What each argument is, by its name. */
  arguments?: Readonly<Record<string, string>>
  options?: readonly CommandOption[]
  examples?: readonly string[]
  /** Exit codes with a special meaning in this command; `redress help` lists the common ones. */
  exitCodes?: Readonly<Record<number, string>>
  /** Adds `--server` and `--token-file`: `open()` then reaches the server that they name. */
  server?: boolean
  /** Adds `--actor`, the person who acts on a store. A server knows its callers by their tokens. */
  actor?: boolean
  /** A number is the exit code; without one it is 0. Whatever it throws is printed as the errors of other commands are. */
  run(call: CommandCall): Promise<number> | Promise<void>
}

/** One option of a command that an app adds to the command line. */
export interface CommandOption {
  /** Without the dashes. */
  name: string
  kind: 'text' | 'number' | 'flag' | 'choice'
  description: string
  /** Stands for the value in the help: 'FILE'. */
  value?: string
  choices?: readonly string[]
  /** The value when it is left out, for the help. */
  fallback?: string
}

/** One call of a command: what was typed, where to act, and how to answer. */
export interface CommandCall {
  /** In the order of `usage`; optional ones may be absent. */
  arguments: readonly string[]
  /** With `--json`, standard output must hold nothing but JSON. */
  isJson: boolean
  text(option: string): string | undefined
  flag(option: string): boolean
  /** A whole number from `least` on; any other value is refused. */
  number(option: string, least: number): number | undefined
  /** '30s' or '5m' in milliseconds. */
  durationMs(option: string): number | undefined
  /** Opens the store that `--data` or `--store` names, or the server that `--server` names. Stop it at the end. */
  open(options?: OpenOptions): Promise<CommandTarget>
  /** To standard output. Control characters are removed from whatever is printed. */
  print(text: string): void
  printJson(value: unknown): void
  /** For a stream of answers: one line each. */
  printJsonLine(value: unknown): void
  printTable<Row>(rows: readonly Row[], columns: readonly TableColumn<Row>[]): void
  /** To standard error, for people: hints and progress. */
  note(text: string): void
  /** JSON lines on standard error, as `redress start` writes them. */
  log(level: 'debug' | 'info' | 'warn' | 'error'): Promise<Log>
  /** How redress is called from this folder, for lines that a person can paste: 'npx redress'. */
  commandName: string
  /** An error about the usage. */
  usage(message: string): RedressError
}

export interface OpenOptions {
  /** Creates a missing store. Otherwise a missing store is an error, because its path is probably wrong. */
  mayBeMissing?: boolean
}

export interface TableColumn<Row> {
  title: string
  of: (row: Row) => string | number | null
}

export interface OpenTarget {
  /** The options that lead another command to the same target, with a space before them. */
  flags: string
  /** Performs an operation of the table, on the store or by the server. */
  perform<Name extends OperationName>(name: Name, input: object): Promise<OutputOf<Name>>
  stop(): Promise<void>
}

interface StoreTarget extends OpenTarget {
  kind: 'store'
  app: App
  actor: string
  /** What `install` of the app gets; its log is silent. */
  installContext: InstallContext
}

export interface ServerTarget extends OpenTarget {
  kind: 'server'
  /** Sends a request to the server, and throws its refusal as a RedressError. */
  ask(request: ServerRequest): Promise<unknown>
}

/** Where a command of an app does its work: on a store, or through a server. */
export type CommandTarget = StoreTarget | ServerTarget

interface ServerRequest {
  method: string
  path: string
  /** JSON, or null. */
  body: string | null
  /** An unanswered request that mutates may have been done: the error then says so. */
  mutates: boolean
  /** How long the answer may take. */
  withinMs?: number
}
