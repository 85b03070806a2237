import { RedressError } from '../../../core/errors.ts'
import { isCounted, isLimited, type Policy, storedPolicy, weakens } from '../../../core/policy/policy.ts'
import type { StoredType, TypeDeclaration } from '../../contract/store.ts'
import { breakerRows } from '../limits/breakers.ts'
import type { ScriptContext, Tx } from '../tx/context.ts'
import type { Script } from '../tx/script.ts'
import { sql } from '../tx/sql.ts'

/** A declared job type with its key in the store. */
export interface KnownType extends StoredType {
  key: number
  /** Some of its jobs must run alone: see `enforceSingletons`. */
  hasSingletons: boolean
}

/** Whether a claim must count or compare before it takes jobs of this type. */
export const isGated = ({ policy, hasSingletons }: KnownType): boolean => hasSingletons || isLimited(policy)

interface TypeRow {
  key: number
  name: string
  queue: string
  policy: string
  stuck_after: number | null
  singletons: number | null
  registered_at: number
  version: number | null
}

export type Types = ReturnType<typeof openTypes>

/**
 * The declared job types, as this process last read them. A number in `cursors` grows with every declaration that changes
 * a type, so that a writer notices a declaration of another process.
 */
export function openTypes() {
  let byName = new Map<string, KnownType>()
  let byKey = new Map<number, KnownType>()
  let seenVersion = -1
  let policies = new Map<string, Policy>()
  let refreshes = 0

  /** Parses a policy only if its text has changed: parsing is expensive. */
  const toTypes = (rows: readonly TypeRow[]): KnownType[] => {
    const parsed = new Map(rows.map((row) => [textOf(row), policies.get(textOf(row)) ?? policyOf(row)]))
    policies = parsed
    return rows.map((row) => ({
      ...{ key: row.key, name: row.name, queue: row.queue },
      policy: parsed.get(textOf(row)) as Policy,
      registeredAtMs: row.registered_at,
      hasSingletons: row.singletons === 1,
    }))
  }

  const load = function* (tx: Tx): Script<{ version: number; known: KnownType[] }> {
    // In one statement, so that the version belongs to exactly these types.
    const rows = yield* tx.all<TypeRow>`
      SELECT key, name, queue, policy, stuck_after, singletons, registered_at,
        (SELECT position FROM cursors WHERE name = 'types') AS version
      FROM job_types ORDER BY name`
    return { version: rows[0]?.version ?? 0, known: toTypes(rows) }
  }

  /** Before a read that must not miss what another process declared. */
  const refresh = function* (tx: Tx): Script<void> {
    const refreshesBefore = refreshes
    const { version, known } = yield* load(tx)
    // Another answer came meanwhile and is newer. Asked after it, a lower version means that the store went back: to a
    // standby that lacked the last commits.
    if (version < seenVersion && refreshes !== refreshesBefore) return
    refreshes++
    seenVersion = version
    byName = new Map(known.map((type) => [type.name, type]))
    byKey = new Map(known.map((type) => [type.key, type]))
  }

  return {
    known: (): KnownType[] => [...byName.values()],
    knownByName: (name: string): KnownType | undefined => byName.get(name),
    knownByKey: (key: number): KnownType | undefined => byKey.get(key),
    /** The version that `known` belongs to. A statement compares it with the current one, in `cursors`. */
    version: (): number => seenVersion,

    refresh,

    /** After a rollback: the version that was read may be given to other types. */
    forget(): void {
      seenVersion = -1
    },

    /** Before a write of jobs: a declaration of another process counts from its commit on. */
    *keepUp(tx: Tx): Script<void> {
      const row = yield* tx.get<{ version: number }>`SELECT position AS version FROM cursors WHERE name = 'types'`
      if ((row?.version ?? 0) !== seenVersion) yield* refresh(tx)
    },

    *byKey(tx: Tx, key: number): Script<KnownType> {
      if (!byKey.has(key)) yield* refresh(tx)
      const type = byKey.get(key)
      if (type !== undefined) return type
      throw new RedressError('STORE_FAILED', `The store has a job of type number ${key} but not that type.`)
    },

    *byName(tx: Tx, name: string): Script<KnownType | undefined> {
      if (!byName.has(name)) yield* refresh(tx)
      return byName.get(name)
    },

    /** Throws for a type that no process has declared. */
    *needed(tx: Tx, name: string): Script<KnownType> {
      if (!byName.has(name)) yield* refresh(tx)
      const type = byName.get(name)
      if (type !== undefined) return type
      throw new RedressError('TYPE_UNKNOWN', `No program has declared the job type ${name}.`)
    },

    /**
     * Declarations run one after the other: a locked policy is compared with the one in force, not with one that is being
     * replaced. This process uses the new types from its next refresh on, because the transaction may be rolled back.
     */
    *register(
      tx: Tx,
      types: readonly TypeDeclaration[],
      nowMs: number,
      beforeLimiting: () => Script<void> = function* () {},
    ): Script<void> {
      const known = new Map((yield* load(tx)).known.map((type) => [type.name, type]))
      let isChanged = false
      for (const type of types) {
        const before = known.get(type.name)
        refuseWeakening(before, type)
        const { text, stuckAfterMs } = policyColumns(type.policy)
        const row = yield* tx.get<{ key: number }>`
          INSERT INTO job_types (name, queue, policy, stuck_after, forward_only, registered_at)
          VALUES (${type.name}, ${type.queue}, ${text}, ${stuckAfterMs}, ${type.policy.forwardOnly ? 1 : 0}, ${nowMs})
          ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, policy = excluded.policy,
            stuck_after = excluded.stuck_after, forward_only = excluded.forward_only, registered_at = excluded.registered_at
          WHERE job_types.policy <> excluded.policy OR job_types.queue <> excluded.queue
            OR job_types.stuck_after IS DISTINCT FROM excluded.stuck_after
          RETURNING key`
        if (row === undefined) continue
        isChanged = true
        known.set(type.name, {
          ...type,
          key: row.key,
          registeredAtMs: nowMs,
          hasSingletons: before?.hasSingletons ?? false,
        })
        if (before !== undefined && isCounted(type.policy) && !hasLimitKeys(before)) {
          yield* beforeLimiting()
          yield* startFilling(tx, row.key)
        }
      }
      for (const { policy } of types) {
        if (policy.breaker !== null) yield* breakerRows.declare(tx, policy.breaker, nowMs)
      }
      if (isChanged) yield* tellOthers(tx)
    },

    *markSingletons(
      tx: Tx,
      name: string,
      beforeLimiting: () => Script<void> = function* () {},
    ): Script<'unknown' | 'known' | 'changed'> {
      const before = (yield* load(tx)).known.find((type) => type.name === name)
      if (before === undefined) return 'unknown'
      if (before.hasSingletons) return 'known'
      yield* tx.run`UPDATE job_types SET singletons = 1 WHERE key = ${before.key}`
      if (!hasLimitKeys(before)) {
        yield* beforeLimiting()
        yield* startFilling(tx, before.key)
      }
      yield* tellOthers(tx)
      return 'changed'
    },
  }
}

/** Other processes read the types again before they next submit or claim. */
function* tellOthers(tx: Tx): Script<void> {
  yield* tx.run`
    INSERT INTO cursors (name, position) VALUES ('types', 1)
    ON CONFLICT (name) DO UPDATE SET position = cursors.position + 1`
}

export const typesOf = ({ read, types }: ScriptContext): Promise<StoredType[]> =>
  read('reading job types', function* (tx) {
    yield* types.refresh(tx)
    return types.known().map(({ key: _, hasSingletons: __, ...type }) => type)
  })

/**
 * `orphan.stuckAfter` has a column of its own: a process of the previous version may use the same PostgreSQL store, and it
 * rejects a policy with an unknown field.
 */
function policyColumns(policy: Policy): { text: string; stuckAfterMs: number | null } {
  const { stuckAfterMs, ...orphan } = policy.orphan
  return { text: JSON.stringify({ ...policy, orphan }), stuckAfterMs }
}

function policyOf({ policy, stuck_after }: TypeRow): Policy {
  const stored = JSON.parse(policy)
  return storedPolicy(
    stuck_after === null ? stored : { ...stored, orphan: { ...stored.orphan, stuckAfterMs: stuck_after } },
  )
}

const textOf = ({ policy, stuck_after }: TypeRow): string => `${stuck_after} ${policy}`

/** Whether every new job of the type has a limit key, '' if it has none of its own. */
export const hasLimitKeys = ({ policy, hasSingletons }: KnownType): boolean => hasSingletons || isCounted(policy)

/** A locked policy is compared with the one that is in force. */
function refuseWeakening(before: KnownType | undefined, { name, policy }: TypeDeclaration): void {
  const weaker = before?.policy.locked ? weakens(before.policy, policy) : []
  if (weaker.length === 0) return
  throw new RedressError('POLICY_LOCKED', `The policy of ${name} is locked and may not be weakened.`, {
    problems: weaker,
  })
}

// ---- jobs from before their type was limited ------------------------------------------------------------------------

/** How many jobs get their key in one transaction. */
const JOBS_PER_STEP = 2_000
/** The row of `cursors` with this name, followed by the type's key, stores how far its jobs have a limit key. */
export const FILLING = 'limiting '

/**
 * Jobs that are older than their type's limit count like any other. Jobs under way get a key at once, because the claim
 * counts by key. The others get theirs when they are claimed, or in bounded steps. Without a key they would be skipped
 * when one key blocks the head of the queue.
 */
function* startFilling(tx: Tx, type: number): Script<void> {
  yield* keyUnderWay(tx, type)
  yield* tx.run`
    INSERT INTO cursors (name, position) VALUES (${FILLING + type}, 0) ON CONFLICT (name) DO UPDATE SET position = 0`
}

/** The conditions are those of two partial indexes, so that jobs that have ended are not read. */
function* keyUnderWay(tx: Tx, type: number): Script<void> {
  const rows = yield* tx.all<{ key: number }>`
    SELECT key FROM jobs WHERE lease_until IS NOT NULL AND orphaned_at IS NULL AND type = ${type} AND limit_key IS NULL
    UNION ALL
    SELECT key FROM jobs
    WHERE orphaned_at IS NOT NULL AND lease_until IS NOT NULL AND type = ${type} AND limit_key IS NULL`
  yield* keyJobs(tx, rows)
}

function* keyJobs(tx: Tx, rows: readonly { key: number }[]): Script<void> {
  const keys = rows.map(({ key }) => key)
  yield* tx.run`
    UPDATE jobs SET limit_key = ''
    WHERE key ${tx.dialect.inNumbers(keys)} AND limit_key IS NULL AND finished_at IS NULL`
}

/** Gives every job of the types that became limited a key. Any process can continue where another one stopped. */
export async function fillLimitKeys({ read, write }: Pick<ScriptContext, 'read' | 'write'>): Promise<void> {
  const types = await read('looking for jobs without a limit key', function* (tx) {
    const rows = yield* tx.all<{ name: string }>`SELECT name FROM cursors WHERE name LIKE ${`${FILLING}%`}`
    return rows.map(({ name }) => Number(name.slice(FILLING.length)))
  })
  for (const type of types) {
    for (let isDone = false; !isDone; )
      isDone = await write('giving jobs their limit key', (tx) => fillStep(tx, type), { mayRepeat: true })
  }
}

/** Each database has an index that gives the jobs of a type in the order of their keys. */
const OF_TYPE = {
  sqlite: sql`job_specs WHERE`,
  postgres: sql`jobs WHERE lease_until IS NULL AND status = 'queued' AND`,
}

function* fillStep(tx: Tx, type: number): Script<boolean> {
  // Locked: one of several processes makes this step, and the others make the next ones.
  const cursor = yield* tx.get<{ position: number }>`
    SELECT position FROM cursors WHERE name = ${FILLING + type} ${tx.dialect.forUpdate}`
  if (cursor === undefined) return true
  if (cursor.position === 0) yield* keyUnderWay(tx, type)
  const rows = yield* tx.all<{ key: number }>`
    SELECT key FROM ${tx.dialect.choose(OF_TYPE)} type = ${type} AND key > ${cursor.position}
    ORDER BY key LIMIT ${JOBS_PER_STEP}`
  yield* keyJobs(tx, rows)
  if (rows.length < JOBS_PER_STEP) {
    yield* tx.run`DELETE FROM cursors WHERE name = ${FILLING + type}`
    return true
  }
  yield* tx.run`UPDATE cursors SET position = ${rows.at(-1)?.key ?? 0} WHERE name = ${FILLING + type}`
  return false
}
