import type { Status } from '../../core/states.ts'
import type { BatchKey } from '../store.ts'
import type { Connection } from './connection.ts'
import type { History } from './history.ts'

export type Batches = ReturnType<typeof openBatches>

export function openBatches(_connection: Connection, _history: History) {
  return {
    /** A job of the batch went from one state to another. Called in the transaction that moves it. */
    moved(_batch: BatchKey, _from: Status, _to: Status, _isPermanent: boolean, _nowMs: number): void {},
  }
}
