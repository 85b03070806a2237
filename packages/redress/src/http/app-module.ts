import type { App } from '../app/app.ts'
import type { Log } from '../runtime/log.ts'
import type { CopiedCount } from '../store/copy/copy.ts'
import type { AppCommand } from './app-command.ts'
import type { Mount } from './server.ts'

export type { CopiedCount } from '../store/copy/copy.ts'

/** A system on the engine: job types, routes, pages and commands under one name. `redress start --apps` serves it. */
export interface AppModule {
  readonly name: string
  /** Declares its job types and schedules on the app. Nothing runs yet, and it must not wait for other services. */
  install(app: App, surroundings: Surroundings): InstalledApp | Promise<InstalledApp>
  /**
   * For an app that keeps rows of its own beside the jobs: copies them from one store to another (`redress copy`), after
   * the jobs were copied. With `to` null it only counts them.
   */
  copyRows?(from: string, to: string | null): Promise<readonly CopiedCount[]>
  /** Commands that it adds to `redress`; a package declares their first words in its package.json. */
  commands?: readonly AppCommand[]
}

export interface Surroundings {
  /** A folder for files of its own, beside the store's; not made yet. */
  home: string
  env: Readonly<Record<string, string | undefined>>
  log: Log
}

export interface InstalledApp {
  mount?: Mount
  /** Where people begin: '/convert'. */
  page?: string
  /** Before the first job is claimed: begins what its jobs need, a service of its own for instance. */
  start?(): Promise<void>
  /** After the last job has ended. */
  stop?(): Promise<void>
}
