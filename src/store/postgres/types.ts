import { isCounted } from '../../core/policy.ts'
import {
  type KnownType,
  missingType,
  policyColumns,
  refuseWeakening,
  type TypeRow,
  typeReader,
  undeclaredType,
} from '../known-type.ts'
import type { StoredType, TypeDeclaration } from '../store.ts'
import type { Pool, Sql, Tx } from './client.ts'
import { startFilling } from './limit-keys.ts'

interface VersionedTypeRow extends TypeRow {
  version: number | null
}

export type Types = ReturnType<typeof openTypes>

/** The job types as they were last read. `refresh` before anything that must not miss what another process declared. */
export function openTypes(sql: Pool) {
  let byName = new Map<string, KnownType>()
  let byKey = new Map<number, KnownType>()
  const readTypes = typeReader()
  /** Grows with each declaration that changes something. */
  let seenVersion = -1
  const keptUp = new WeakSet<Tx>()

  const load = async (on: Sql): Promise<{ version: number; known: KnownType[] }> => {
    // In one statement, so that the number is the one of just these types.
    const rows = await on<VersionedTypeRow[]>`
      SELECT key, name, queue, policy, stuck_after, registered_at, (SELECT position FROM cursors WHERE name = 'types') AS version
      FROM job_types ORDER BY name`
    return { version: rows[0]?.version ?? 0, known: readTypes(rows) }
  }

  const refresh = async (on: Sql = sql): Promise<void> => {
    const { version, known } = await load(on)
    // An answer that was overtaken by a newer one.
    if (version < seenVersion) return
    seenVersion = version
    byName = new Map(known.map((type) => [type.name, type]))
    byKey = new Map(known.map((type) => [type.key, type]))
  }

  return {
    refresh,

    /** Of what was last read; a statement can compare it with that of its own moment, in `cursors`. */
    version: (): number => seenVersion,

    /**
     * For writers of jobs, whom what another process declared binds from its commit on. The lock is shared among them;
     * only a declaration that gives jobs a limit waits for it, so that it finds every job that was made without one.
     */
    async keepUp(tx: Tx): Promise<void> {
      if (keptUp.has(tx)) return
      keptUp.add(tx)
      const [, [row]] = await Promise.all([
        tx`LOCK TABLE job_types IN ROW EXCLUSIVE MODE`,
        tx<{ version: number }[]>`SELECT position AS version FROM cursors WHERE name = 'types'`,
      ])
      if ((row?.version ?? 0) !== seenVersion) await refresh(tx)
    },

    /**
     * In a transaction that no other declaration shares: a locked policy is compared with the one in force, not with
     * one being replaced. This process sees the declaration after the commit, with its next read. With `isAlone`, a type
     * that becomes limited is declared under a lock that keeps other sessions from writing jobs.
     */
    async register(tx: Tx, types: readonly TypeDeclaration[], nowMs: number, isAlone: boolean): Promise<void> {
      const known = new Map((await load(tx)).known.map((type) => [type.name, type]))
      let changed = 0
      for (const type of types) {
        const before = known.get(type.name)
        refuseWeakening(before, type)
        const { text, stuckAfterMs } = policyColumns(type.policy)
        const [row] = await tx<{ key: number }[]>`
          INSERT INTO job_types (name, queue, policy, stuck_after, forward_only, registered_at)
          VALUES (${type.name}, ${type.queue}, ${text}, ${stuckAfterMs}, ${type.policy.forwardOnly ? 1 : 0}, ${nowMs})
          ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, policy = excluded.policy,
            stuck_after = excluded.stuck_after, forward_only = excluded.forward_only, registered_at = excluded.registered_at
          WHERE job_types.policy <> excluded.policy OR job_types.queue <> excluded.queue
            OR job_types.stuck_after IS DISTINCT FROM excluded.stuck_after
          RETURNING key`
        if (row === undefined) continue
        changed++
        known.set(type.name, { ...type, key: row.key, registeredAtMs: nowMs })
        if (before !== undefined && isCounted(type.policy) && !isCounted(before.policy)) {
          // A claim in flight would lease jobs without a key, and a submission would add some. The lock waits for
          // them to end, and later ones see the new policy.
          if (isAlone) await tx`LOCK TABLE job_types, jobs IN SHARE MODE`
          await startFilling(tx, row.key)
        }
      }
      if (changed === 0) return
      await tx`
        INSERT INTO cursors (name, position) VALUES ('types', 1)
        ON CONFLICT (name) DO UPDATE SET position = cursors.position + 1`
    },

    all: (): StoredType[] =>
      [...byName.values()].map(({ name, queue, policy, registeredAtMs }) => ({ name, queue, policy, registeredAtMs })),

    known: (): KnownType[] => [...byName.values()],

    async byKey(key: number, on: Sql = sql): Promise<KnownType> {
      if (!byKey.has(key)) await refresh(on)
      const type = byKey.get(key)
      if (type === undefined) throw missingType(key)
      return type
    },

    /** As it was last read. */
    knownByName: (name: string): KnownType | undefined => byName.get(name),

    /** As they were last read, for code that has refreshed. */
    knownByKey: (key: number): KnownType | undefined => byKey.get(key),

    async byName(name: string, on: Sql = sql): Promise<KnownType | undefined> {
      if (!byName.has(name)) await refresh(on)
      return byName.get(name)
    },

    async needed(name: string, on: Sql = sql): Promise<KnownType> {
      if (!byName.has(name)) await refresh(on)
      const type = byName.get(name)
      if (type === undefined) throw undeclaredType(name)
      return type
    },
  }
}
