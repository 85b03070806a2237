import type { StatementSync } from 'node:sqlite'
import type { JobKey } from '../../contract/store.ts'
import { addEvent, addFailure, history } from '../../scripts/history.ts'
import { REMOVED_EVENTS } from '../../scripts/jobs/pruning.ts'
import type { Tx } from '../../scripts/tx/context.ts'
import { atOnce, type Script } from '../../scripts/tx/script.ts'
import type { Sql } from '../../scripts/tx/sql.ts'
import type { SqliteTx } from '../connection/tx.ts'
import type { History } from './at-once.ts'

/** The history as hot code writes it. Nearly every change of a job adds a row here, so these are sent without a script. */
export function historyAtOnce(tx: SqliteTx): History {
  const event = direct(tx, addEvent)
  const failure = direct(tx, addFailure)
  return {
    ...atOnce(tx, history),
    event: (...args) => void event(...args),
    failure: (failed) => Number(failure(failed).lastInsertRowid),
  }
}

/** A statement that always has the same text. */
function direct<Args extends unknown[]>(tx: SqliteTx, statementOf: (...args: Args) => Sql) {
  let statement: StatementSync | null = null
  return (...args: Args) => {
    const made = statementOf(...args)
    statement ??= tx.connection.prepare(made.text)
    return statement.run(...(made.values as (string | number | null)[]))
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
