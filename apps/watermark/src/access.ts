import { type Refusal, Refused } from '@redress/shared/routes'
import type { FastifyRequest } from 'fastify'
import { RedressError } from 'redress'
import type { Caller, MountTools } from 'redress/http'

/** The owner of campaigns: an account, or a token without an account. */
export const ownerOf = ({ account, name }: Caller): string => account ?? name

/** The owner whose rows the caller may see; null for all. */
export const visibleOwner = (caller: Caller): string | null => (caller.role === 'owner' ? ownerOf(caller) : null)

/** A campaign is a batch: reading and changing campaigns needs the scopes of batches. */
const SCOPES = { read: 'batches.show', write: 'batches.retry-failed' } as const

/** Requires a signed-in caller with the scope of a campaign operation. */
export async function requireCaller(
  { findCaller }: MountTools,
  request: FastifyRequest,
  toDo: keyof typeof SCOPES,
): Promise<Caller> {
  const caller = await findCaller(request)
  if (caller === null) throw new RedressError('SIGN_IN_REQUIRED', 'Sign in to use campaigns.')
  const scope = SCOPES[toDo]
  if (!hasScope(caller, scope)) {
    throw new RedressError('ROLE_TOO_LOW', `${scope} is not in the scopes of ${caller.name}.`)
  }
  if (toDo === 'write' && caller.role === 'viewer') {
    throw new RedressError('ROLE_TOO_LOW', `${caller.name} may view campaigns, but not change them.`)
  }
  return caller
}

const hasScope = ({ scopes }: Caller, scope: string): boolean =>
  scopes === null || scopes.some((one) => one === scope || one === 'batches.*')

/** Pages hide actions that the caller may not take. */
export const mayWrite = (caller: Caller): boolean => caller.role !== 'viewer' && hasScope(caller, SCOPES.write)

/** Another owner's rows are answered as not found (W28). */
export const notFound = (what: 'asset' | 'campaign' | 'token' | 'detection'): Refused =>
  new Refused({
    status: 404,
    code: `${what.toUpperCase()}_NOT_FOUND`,
    message: `There is no such ${what}.`,
    action: 'Check the address.',
  })

export const NOT_PUBLISHED: Refusal = {
  status: 409,
  code: 'CAMPAIGN_NOT_PUBLISHED',
  message: 'This campaign is a draft: it has no links and no copies yet.',
  action: 'Publish it first.',
}
