import { signal } from '@preact/signals'
import { type Caller, inScope, mayRole } from '../../../src/operations/caller.ts'
import { CATALOG, type CatalogEntry, type OperationName } from '../../../src/operations/catalog.ts'

export type Me = Pick<Caller, 'name' | 'role' | 'account' | 'scopes'>

/** null until the server has told. */
export const me = signal<Me | null>(null)
/** The session is over: what is shown stays, and nothing new comes. */
export const signedOut = signal(false)

/** Why this person may not do it; null where they may. The server decides; this only spares a click. */
export function whyNot(name: OperationName): string | null {
  const known = me.value
  const entry: CatalogEntry = CATALOG[name]
  if (known === null) return 'You are not signed in.'
  if (!mayRole(known.role, entry)) return `This needs the role ${entry.role}; ${known.name} has ${known.role}.`
  return inScope(known.scopes, name) ? null : `This is not in the scopes of ${known.name}.`
}

export const isOwner = (): boolean => me.value?.role === 'owner'
