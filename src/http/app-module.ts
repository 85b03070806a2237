import type { App } from '../app/app.ts'
import type { Log } from '../runtime/log.ts'
import type { CopiedCount } from '../store/copy/copy.ts'
import type { Mount } from './server.ts'

export type { CopiedCount } from '../store/copy/copy.ts'

/** A system on the engine: job types, routes and pages under one name. What `redress start --apps` serves. */
export interface AppModule {
  readonly name: string
  /** Declares what it has on the app. Nothing runs yet, and nothing is waited for that may be away. */
  install(app: App, surroundings: Surroundings): InstalledApp | Promise<InstalledApp>
  /**
   * Where it keeps rows of its own beside the jobs: brings them from one store to another (`redress copy`), or with
   * `to` null only says how many there are. Asked after the jobs are there.
   */
  copyRows?(from: string, to: string | null): Promise<readonly CopiedCount[]>
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
