import type * as batches from '../../scripts/batches/batches.ts'
import type * as history from '../../scripts/history.ts'
import type * as types from '../../scripts/jobs/types.ts'
import type * as meters from '../../scripts/limits/meters.ts'
import { type AtOnce, atOnce } from '../../scripts/tx/script.ts'
import type { SqliteTx } from '../connection/tx.ts'

/** Scripts as hot code of this driver calls them, inside its own transaction. */
export type History = AtOnce<typeof history.history>
export type Batches = AtOnce<batches.Batches>
export type RetryMeters = AtOnce<typeof meters.retryMeters>

export type Types = ReturnType<typeof typesAtOnce>

/** The job types as hot code of this driver asks for them, inside its own transaction: a known type needs no script. */
export function typesAtOnce(given: types.Types, tx: SqliteTx) {
  const { known, knownByName, knownByKey, refresh, keepUp, byKey, byName, needed, register } = given
  const scripts = atOnce(tx, { refresh, keepUp, byKey, byName, needed, register })
  return {
    ...scripts,
    known,
    all() {
      scripts.refresh()
      return known()
    },
    byKey: (key: number) => knownByKey(key) ?? scripts.byKey(key),
    byName: (name: string) => knownByName(name) ?? scripts.byName(name),
    needed: (name: string) => knownByName(name) ?? scripts.needed(name),
  }
}
