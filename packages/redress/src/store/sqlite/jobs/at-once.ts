import type { JobKey } from '../../contract/store.ts'
import type * as batches from '../../scripts/batches.ts'
import { EVENT_INSERT, eventValues, FAILURE_INSERT, failureValues, history } from '../../scripts/history.ts'
import { REMOVED_EVENTS } from '../../scripts/jobs/pruning.ts'
import type * as types from '../../scripts/jobs/types.ts'
import type { retryMeters } from '../../scripts/limits/meters.ts'
import type { Tx } from '../../scripts/tx/context.ts'
import { type AtOnce, atOnce, type Script } from '../../scripts/tx/script.ts'
import type { SqliteTx } from '../connection/tx.ts'

/** Scripts as hot code of this driver calls them, inside its own transaction. */
export type History = AtOnce<typeof history>
export type Batches = AtOnce<batches.Batches>
export type RetryMeters = AtOnce<typeof retryMeters>

export type Types = ReturnType<typeof typesAtOnce>

/** The job types as hot code of this driver asks for them, inside its own transaction: a known type needs no script. */
export function typesAtOnce(given: types.Types, tx: SqliteTx) {
  const { knownByName, knownByKey, refresh, keepUp, byKey, byName, needed, register } = given
  const scripts = atOnce(tx, { refresh, keepUp, byKey, byName, needed, register })
  return {
    ...scripts,
    byKey: (key: number) => knownByKey(key) ?? scripts.byKey(key),
    byName: (name: string) => knownByName(name) ?? scripts.byName(name),
    needed: (name: string) => knownByName(name) ?? scripts.needed(name),
  }
}

/** The history as hot code writes it. Nearly every change of a job adds a row here, so these are sent without a script. */
export function historyAtOnce(tx: SqliteTx): History {
  const { connection } = tx
  const addEvent = connection.prepare(EVENT_INSERT.join('?'))
  const addFailure = connection.prepare(FAILURE_INSERT.join('?'))
  return {
    ...atOnce(tx, history),
    event: (...event) => void addEvent.run(...eventValues(...event)),
    failure: (failed) => Number(addFailure.run(...failureValues(failed)).lastInsertRowid),
  }
}

/**
 * The newest event and the newest failure stay: their numbers must not be given again, because readers and counters
 * continue from a number. A trigger marks the removed events; the one that stays is marked here.
 */
export function* removeHistory(tx: Tx, jobs: readonly JobKey[]): Script<void> {
  const ofJobs = tx.dialect.inNumbers(jobs)
  yield* tx.run`DELETE FROM events WHERE job ${ofJobs} AND seq < (SELECT max(seq) FROM events)`
  yield* tx.run`
    INSERT INTO cursors (name, position)
    SELECT ${REMOVED_EVENTS}, max(seq) FROM events WHERE job ${ofJobs} HAVING max(seq) > 0
    ON CONFLICT (name) DO UPDATE SET position = max(position, excluded.position)`
  yield* tx.run`DELETE FROM failures WHERE job ${ofJobs} AND seq < (SELECT max(seq) FROM failures)`
}
