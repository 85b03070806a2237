import type { FastifyRequest } from 'fastify'
import type { Caller, MountTools } from 'redress/http'
import { refusal } from './failures/refusals.ts'

/**
 * A fetchbox job is a batch, so reading and changing it needs the scopes of batches. Submitting needs `jobs.submit`.
 */
const SCOPES = { read: 'batches.show', submit: 'jobs.submit', purge: 'batches.cancel' } as const

/** The tenant whose jobs the caller may see; null for all. */
export const visibleTenant = (caller: Caller): string | null =>
  caller.role === 'owner' ? (caller.account ?? '') : null

export async function requireCaller(
  { findCaller }: MountTools,
  request: FastifyRequest,
  toDo: keyof typeof SCOPES,
): Promise<Caller> {
  const caller = await findCaller(request)
  if (caller === null) throw refusal(request.headers.authorization === undefined ? 'AUTH_MISSING' : 'AUTH_INVALID')
  const scope = SCOPES[toDo]
  const group = `${scope.split('.')[0]}.*`
  if (caller.scopes !== null && !caller.scopes.includes(scope) && !caller.scopes.includes(group)) {
    throw refusal('AUTH_ROLE', { said: `It needs the scope ${scope}.` })
  }
  if (toDo !== 'read' && caller.role === 'viewer') throw refusal('AUTH_ROLE', { said: 'It needs the role operator.' })
  return caller
}

/** ASCII only: HTTP clients encode other characters differently, and the job would belong to an unknown tenant. */
const TENANT = /^[\x20-\x7e]{1,200}$/

/** For whom a job is: owners work for themselves, operators for whom they name. */
export function tenantOf({ headers }: FastifyRequest, { role, account, name }: Caller): string {
  const given = headers['x-fetchbox-tenant']
  const own = account ?? name
  if (given === undefined || given === own) return own
  if (role === 'owner') throw refusal('AUTH_TENANT')
  if (typeof given === 'string' && TENANT.test(given)) return given
  throw refusal('VALIDATION_INVALID_FIELD', { said: 'X-Fetchbox-Tenant: must be 1 to 200 characters of ASCII' })
}
