import type { Connection } from './connection.ts'
import type { History } from './history.ts'
import type { Steps } from './long-reads.ts'
import type { Types } from './types.ts'

/** What each part of the store works with. */
export interface SqliteContext {
  connection: Connection
  types: Types
  history: History
  nowMs: () => number
  /** Runs in a transaction that is on disk when the promise resolves; calls of one turn share it. */
  write<T>(doing: string, run: () => T): Promise<T>
  read<T>(doing: string, run: () => T): Promise<T>
  /** For reads that may scan a whole table. */
  readInSteps<T>(doing: string, steps: Steps<T>): Promise<T>
  /** Tells workers of this process, after the commit, that there may be work. */
  hintWork(): void
}
