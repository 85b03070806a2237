import type { Log } from 'redress'
import type { ResourceView, Snapshot } from './jobs/views.ts'
import type { Requested, Resource } from './requests/manifest.ts'

/** What a handler is asked to make tasks of. */
interface HandledRequest extends Requested {
  type: string
  tenant: string
}

/** Says no, for a reason that the client may read. Not an error of the handler. */
export type Refuse = (reason: string) => never

interface BuildContext {
  refuse: Refuse
}

/** One download that is about to begin. */
interface PreparedTask extends Resource {
  /** Id of the fetchbox job. */
  job: string
  type: string
  tenant: string | null
}

interface PrepareContext {
  refuse: Refuse
  metadata: Readonly<Record<string, unknown>>
  /** Which try of the download this is, from 1. */
  attempt: number
  signal: AbortSignal
}

interface FinalizeContext {
  metadata: Readonly<Record<string, unknown>>
  /** Each resource as it ended, in the order of the manifest. */
  resources(): Promise<readonly ResourceView[]>
  signal: AbortSignal
  log: Log
}

/** What a type of job adds to fetching: plain functions, all of which may be left out. */
export interface JobHandler {
  /** At ingest, and nothing but a function of its argument: may add, drop and change resources. */
  buildTasks?(request: HandledRequest, context: BuildContext): readonly Resource[] | Promise<readonly Resource[]>
  /** In the worker, before each download: may change where it goes and with what. */
  prepare?(task: PreparedTask, context: PrepareContext): Prepared | undefined | Promise<Prepared | undefined>
  /** Once all resources have ended. What it answers is shown with the job. */
  finalize?(snapshot: Snapshot, context: FinalizeContext): unknown
}

interface Prepared {
  url?: string
  headers?: Readonly<Record<string, string>>
}

/** Thrown by `refuse`. */
export class HandlerRefusal extends Error {
  override readonly name = 'HandlerRefusal'
}

const REASON_CHARS_MAX = 200

export const refuse: Refuse = (reason) => {
  throw new HandlerRefusal(String(reason).slice(0, REASON_CHARS_MAX))
}
