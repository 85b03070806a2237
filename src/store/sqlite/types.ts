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
import type { Connection } from './connection.ts'

/** Each in the words of an index, so that jobs that have ended are not walked through. */
const UNDER_WAY = [
  'lease_until IS NOT NULL AND orphaned_at IS NULL',
  'orphaned_at IS NOT NULL AND lease_until IS NOT NULL',
]
/** How many jobs get their key in one transaction. */
const JOBS_PER_STEP = 2_000
const FILLING = 'limiting '

export type Types = ReturnType<typeof openTypes>

export function openTypes(connection: Connection) {
  const upsert = connection.prepare(`
    INSERT INTO job_types (name, queue, policy, stuck_after, forward_only, registered_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, policy = excluded.policy,
      stuck_after = excluded.stuck_after, forward_only = excluded.forward_only, registered_at = excluded.registered_at
    WHERE policy <> excluded.policy OR queue <> excluded.queue OR stuck_after IS NOT excluded.stuck_after`)
  const select = connection.prepare(
    'SELECT key, name, queue, policy, stuck_after, registered_at FROM job_types ORDER BY name',
  )
  const dataVersion = connection.prepare('PRAGMA data_version')
  const keyUnderWay = UNDER_WAY.map((underWay) =>
    connection.prepare(`UPDATE jobs SET limit_key = '' WHERE type = ? AND limit_key IS NULL AND ${underWay}`),
  )
  const startFilling = connection.prepare(
    'INSERT INTO cursors (name, position) VALUES (?, 0) ON CONFLICT (name) DO UPDATE SET position = 0',
  )
  const filling = connection.prepare(`SELECT name, position FROM cursors WHERE name LIKE '${FILLING}%' LIMIT 1`)
  const nextOfType = connection.prepare(
    `SELECT key FROM job_specs WHERE type = ? AND key > ? ORDER BY key LIMIT ${JOBS_PER_STEP}`,
  )
  const fillKeys = connection.prepare(`
    UPDATE jobs SET limit_key = ''
    WHERE key IN (SELECT value FROM json_each(?)) AND limit_key IS NULL AND finished_at IS NULL`)
  const filledTo = connection.prepare('UPDATE cursors SET position = ? WHERE name = ?')
  const endFilling = connection.prepare('DELETE FROM cursors WHERE name = ?')
  let seenVersion = -1
  let byName = new Map<string, KnownType>()
  let byKey = new Map<number, KnownType>()
  const readTypes = typeReader()

  const reload = (): void => {
    const known = readTypes(select.all() as unknown as TypeRow[])
    byName = new Map(known.map((type) => [type.name, type]))
    byKey = new Map(known.map((type) => [type.key, type]))
  }

  const find = <Key>(key: Key, within: () => Map<Key, KnownType>): KnownType | undefined => {
    const known = within().get(key)
    if (known !== undefined) return known
    // Another process may have declared it since we looked.
    reload()
    return within().get(key)
  }

  return {
    /** For readers that must not miss what another process declared since. */
    refresh: reload,

    /** For writers, whom what another process declared binds from its commit on. Free where nobody else writes. */
    keepUp(): void {
      const { data_version } = dataVersion.get() as { data_version: number }
      if (data_version === seenVersion) return
      seenVersion = data_version
      reload()
    },

    register(types: readonly TypeDeclaration[], nowMs: number): void {
      reload()
      for (const type of types) {
        const before = byName.get(type.name)
        refuseWeakening(before, type)
        const { text, stuckAfterMs } = policyColumns(type.policy)
        upsert.run(type.name, type.queue, text, stuckAfterMs, type.policy.forwardOnly ? 1 : 0, nowMs)
        // Jobs older than the limit count like any other. Running ones get a key at once, because the claim counts by
        // key.
        if (before !== undefined && isCounted(type.policy) && !isCounted(before.policy)) {
          for (const statement of keyUnderWay) statement.run(before.key)
          startFilling.run(`${FILLING}${before.key}`)
        }
      }
      reload()
    },

    /**
     * Assigns a key to the next jobs that are older than their type's limit. The others get theirs when they are
     * claimed. Without a key they would be skipped when one key blocks the head of the queue. A row of `cursors`
     * stores the position, so that any process can continue.
     */
    fillLimitKeys(): void {
      const cursor = filling.get() as { name: string; position: number } | undefined
      if (cursor === undefined) return
      const rows = nextOfType.all(Number(cursor.name.slice(FILLING.length)), cursor.position) as { key: number }[]
      const keys = rows.map(({ key }) => key)
      fillKeys.run(JSON.stringify(keys))
      if (keys.length === JOBS_PER_STEP) filledTo.run(keys.at(-1) as number, cursor.name)
      else endFilling.run(cursor.name)
    },

    /** Whether a limited type may still have jobs without a key. */
    isFilling: (): boolean => filling.get() !== undefined,

    all(): StoredType[] {
      reload()
      return [...byName.values()].map(({ name, queue, policy, registeredAtMs }) => ({
        name,
        queue,
        policy,
        registeredAtMs,
      }))
    },

    /** As they were last read. */
    known: (): KnownType[] => [...byName.values()],

    byKey(key: number): KnownType {
      const type = find(key, () => byKey)
      if (type === undefined) throw missingType(key)
      return type
    },

    byName(name: string): KnownType | undefined {
      return find(name, () => byName)
    },

    needed(name: string): KnownType {
      const type = find(name, () => byName)
      if (type === undefined) throw undeclaredType(name)
      return type
    },
  }
}
