import * as scripts from '../scripts/jobs/types.ts'
import { awaiting, type Script } from '../scripts/tx/script.ts'
import type { Sql } from './connection/client.ts'
import type { PgTx } from './connection/tx.ts'

export type Types = ReturnType<typeof awaitedTypes>

/** The job types as scripts ask for them. */
export function openTypes(): scripts.Types {
  const types = scripts.openTypes()
  const keptUp = new WeakSet<object>()
  return {
    ...types,
    /**
     * Once per transaction. Writers of jobs share the lock. Only a declaration that gives jobs a limit waits for them, so
     * that it finds every job that was made without one.
     */
    *keepUp(tx): Script<void> {
      if (keptUp.has(tx)) return
      keptUp.add(tx)
      yield* tx.together(tx.run`LOCK TABLE job_types IN ROW EXCLUSIVE MODE`, types.keepUp(tx))
    },
  }
}

/** The job types as hot code of this driver asks for them. */
export function awaitedTypes(types: scripts.Types, txOf: (on: Sql) => PgTx, pool: Sql) {
  return {
    ...{ known: types.known, all: types.known, version: types.version },
    ...{ knownByName: types.knownByName, knownByKey: types.knownByKey },
    refresh: (on: Sql = pool) => awaiting(types.refresh(txOf(on))),
    keepUp: (on: Sql) => awaiting(types.keepUp(txOf(on))),
    byKey: (key: number, on: Sql = pool) => awaiting(types.byKey(txOf(on), key)),
    byName: (name: string, on: Sql = pool) => awaiting(types.byName(txOf(on), name)),
    needed: (name: string, on: Sql = pool) => awaiting(types.needed(txOf(on), name)),
  }
}
