import type { PackedThrown } from './thrown.ts'

/** What an attempt is, for a handler on the other side. */
interface AttemptFacts {
  jobId: string
  type: string
  number: number
  owner: string | null
  retriedFrom: string | null
  traceparent: string | null
}

/** From the worker to the thread or process of a handler. */
export type ToHandler =
  | { kind: 'run'; run: number; input: unknown; attempt: AttemptFacts; resultBytesMax: number }
  | { kind: 'abort'; run: number; reason: PackedThrown }

/** From the thread or process of a handler to the worker. */
export type FromHandler =
  /** The module is loaded. */
  | { kind: 'loaded' }
  /** The handler is about to be called. */
  | { kind: 'begun'; run: number }
  /** The newest progress, and context that was added since the last message. */
  | { kind: 'state'; run: number; progress: unknown; context: Record<string, unknown> | null }
  | { kind: 'log'; run: number; message: string; fields: Record<string, unknown> | undefined }
  /** The result as JSON; null when there is none. */
  | { kind: 'done'; run: number; result: string | null }
  | { kind: 'result-invalid'; run: number; message: string }
  | { kind: 'threw'; run: number; thrown: PackedThrown }
  /** An error that no code caught. What else it left behind is not known, so nothing runs here any more. */
  | { kind: 'uncaught'; thrown: PackedThrown }
  | { kind: 'not-loaded'; problem: string; cause: PackedThrown | null }

/** A thread shares its port with the handler, whose own messages look different. */
export interface FromThread {
  redress: FromHandler
}
