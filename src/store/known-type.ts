import { RedressError } from '../core/errors.ts'
import { type Policy, storedPolicy, weakens } from '../core/policy.ts'
import type { TypeDeclaration } from './store.ts'

/** A declared job type, as a driver keeps it in its hands. */
export interface KnownType extends TypeDeclaration {
  key: number
  registeredAtMs: number
}

/** Its row, in every driver. */
export interface TypeRow {
  key: number
  name: string
  queue: string
  policy: string
  stuck_after: number | null
  registered_at: number
}

/**
 * A stored policy. `orphan.stuckAfter` has a column of its own: a process of the previous version may use the same
 * PostgreSQL store, and it rejects a policy with an unknown field.
 */
export function policyColumns(policy: Policy): { text: string; stuckAfterMs: number | null } {
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

/** Reads all of them at a time. Reading a policy is dear, and it is nearly always the one that was read before. */
export function typeReader(): (rows: readonly TypeRow[]) => KnownType[] {
  let byText = new Map<string, Policy>()
  return (rows) => {
    const read = new Map(rows.map((row) => [textOf(row), byText.get(textOf(row)) ?? policyOf(row)]))
    byText = read
    return rows.map((row) => ({
      ...{ key: row.key, name: row.name, queue: row.queue },
      policy: read.get(textOf(row)) as Policy,
      registeredAtMs: row.registered_at,
    }))
  }
}

/** A locked policy is compared with the one that is in force. */
export function refuseWeakening(before: KnownType | undefined, { name, policy }: TypeDeclaration): void {
  const weaker = before?.policy.locked ? weakens(before.policy, policy) : []
  if (weaker.length === 0) return
  throw new RedressError('POLICY_LOCKED', `The policy of ${name} is locked and may not be weakened.`, {
    problems: weaker,
  })
}

export const missingType = (key: number): RedressError =>
  new RedressError('STORE_FAILED', `The store has a job of type number ${key} but not that type.`)

export const undeclaredType = (name: string): RedressError =>
  new RedressError('TYPE_UNKNOWN', `No program has declared the job type ${name}.`)
