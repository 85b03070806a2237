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
  registered_at: number
}

/** Reads all of them at a time. Reading a policy is dear, and it is nearly always the one that was read before. */
export function typeReader(): (rows: readonly TypeRow[]) => KnownType[] {
  let byText = new Map<string, Policy>()
  return (rows) => {
    const read = new Map(rows.map(({ policy }) => [policy, byText.get(policy) ?? storedPolicy(JSON.parse(policy))]))
    byText = read
    return rows.map(({ key, name, queue, policy, registered_at }) => ({
      ...{ key, name, queue },
      policy: read.get(policy) as Policy,
      registeredAtMs: registered_at,
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
