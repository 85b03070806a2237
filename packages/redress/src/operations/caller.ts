import { RedressError } from '../core/errors.ts'
import type { CatalogEntry, OperationName } from './catalog.ts'

/** From the lowest to the highest. An owner is beside them: it may do less, and only with its own jobs. */
export const ROLES = ['owner', 'viewer', 'operator', 'admin'] as const
/** The role of a caller, the weakest first: owner, viewer, operator, admin. */
export type Role = (typeof ROLES)[number]

/** The caller of an operation, as a door has authenticated it. */
export interface Caller {
  /** Name in the audit trail: that of an account or a token. */
  name: string
  role: Role
  /** The account whose jobs are its own; needed for the role `owner`. */
  account: string | null
  /** Names of operations ('jobs.list') or groups of them ('jobs.*'); null for all that the role allows. */
  scopes: readonly string[] | null
  /** A person at a browser or a command line; programs hand in jobs without an entry in the audit trail. */
  isPerson: boolean
}

/** Anyone with direct access to the store has full control. */
export const LOCAL_ADMIN: Caller = { name: 'local', role: 'admin', account: null, scopes: null, isPerson: true }

const rank = (role: Role): number => ROLES.indexOf(role)

/** Whether this role may run the operation at all; ownership is checked separately. */
export const mayRole = (role: Role, { role: least, allowsOwners }: CatalogEntry): boolean =>
  role === 'owner' ? allowsOwners === true : rank(role) >= rank(least)

export const inScope = (scopes: readonly string[] | null, name: OperationName): boolean =>
  scopes === null ||
  scopes.some((scope) => scope === name || (scope.endsWith('.*') && name.startsWith(scope.slice(0, -1))))

/** As people write them: one by one, or with commas between them. */
export function splitScopes(given: string | readonly string[]): string[] {
  const parts = [given].flat().flatMap((part) => String(part).split(','))
  return [...new Set(parts.map((part) => part.trim()).filter((part) => part !== ''))]
}

/** A caller cannot grant more than it has: its own scopes are the default and the limit. */
function scopesWithin(own: readonly string[], asked: unknown, who: string): readonly string[] {
  if (asked === undefined) return own
  const scopes = splitScopes(asked as string | string[])
  const beyond = scopes.find((scope) => !own.includes(scope) && !own.includes(`${scope.split('.')[0]}.*`))
  if (beyond === undefined) return scopes
  throw new RedressError('ROLE_TOO_LOW', `${who} cannot grant ${beyond}, which is not in its own scopes.`)
}

/** Throws unless this caller may run the operation, and returns the input with actor and owner filled in. */
export function admitted(
  caller: Caller,
  name: OperationName,
  entry: CatalogEntry,
  input: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  if (!mayRole(caller.role, entry)) {
    throw new RedressError('ROLE_TOO_LOW', `${name} needs the role ${entry.role}; ${caller.name} has ${caller.role}.`)
  }
  if (!inScope(caller.scopes, name)) {
    throw new RedressError('ROLE_TOO_LOW', `${name} is not in the scopes of ${caller.name}.`)
  }
  const by = entry.needsActor === true && (caller.isPerson || name !== 'jobs.submit') ? { actor: caller.name } : {}
  const scopes =
    entry.grantsAccess === true && caller.scopes !== null
      ? { scopes: scopesWithin(caller.scopes, input.scopes, caller.name) }
      : {}
  const { actor: _, ...rest } = input
  if (caller.role !== 'owner') return entry.needsActor === true ? { ...rest, ...by, ...scopes } : { ...input }
  // A new input is a new job, which owners cannot submit: it could name things of another owner.
  if (name === 'jobs.retry' && input.input !== undefined) {
    throw new RedressError(
      'ROLE_TOO_LOW',
      `A retry with a new input needs the role ${entry.role}; ${caller.name} has owner.`,
    )
  }
  // Whatever was asked for: only their own is looked at.
  if (caller.account === null) throw new RedressError('ROLE_TOO_LOW', `${caller.name} has no account of its own.`)
  if (entry.needsActor !== true) return { ...input, owner: caller.account }
  const reason = isMissing(rest.reason) ? { reason: OWNERS_REASON } : {}
  return { ...rest, ...reason, ...by, owner: caller.account }
}

/** An owner need not give a reason to act on their own jobs. */
const OWNERS_REASON = 'asked by its owner'

const isMissing = (reason: unknown): boolean =>
  reason === undefined || (typeof reason === 'string' && reason.trim() === '')
