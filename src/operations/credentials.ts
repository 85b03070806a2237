import { z } from 'zod'
import { durationMs } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { isoTimeOrNull } from '../core/iso-time.ts'
import { hashOf, makeSecret } from '../runtime/secret.ts'
import type { CredentialKind } from '../store/accounts.ts'
import { refuseNoAccount } from './accounts.ts'
import { checkBy } from './by.ts'
import { ROLES, type Role } from './caller.ts'
import type { Context } from './operation.ts'
import { readScopes, type scopesField } from './scopes.ts'

/** What tokens and links have in common: somebody who may come in, as whom, and for how long. */

const ROLE_MEANS = 'what it allows: viewer looks, operator acts, admin lets others in; owner sees only its own account'
export const roleField = z.enum(ROLES).describe(ROLE_MEANS)
export const roleFieldOr = (role: Role) => z.enum(ROLES).default(role).describe(ROLE_MEANS)

/** Of what was made, or with `dryRun` would be. */
export const credentialFacts = {
  isDone: z.boolean(),
  did: z.string().describe('one sentence: what was done, or would be'),
  id: z.string().nullable().describe('what it is called by: no secret'),
  name: z.string(),
  role: z.enum(ROLES),
  account: z.string().nullable(),
  scopes: z.array(z.string()).nullable().describe('null: all that the role allows'),
  expiresAt: z.string().nullable(),
}

interface Asked {
  name: string
  role: Role
  account?: string | undefined
  scopes?: z.infer<typeof scopesField>
  actor: string
  reason: string
  dryRun: boolean
}

interface Made {
  /** Shown once, and kept nowhere; null with `dryRun`. */
  secret: string | null
  id: string | null
  name: string
  role: Role
  account: string | null
  scopes: string[] | null
  expiresAt: string | null
}

export async function makeCredential(
  { store, makeId }: Pick<Context, 'store' | 'makeId'>,
  kind: Exclude<CredentialKind, 'session'>,
  { name, role, account: accountName, scopes: given, actor, reason, dryRun }: Asked,
  forMs: number | null,
): Promise<Made> {
  const account = accountName ?? null
  checkBy({ actor, reason }, `${kind} ${name}`)
  if (role === 'owner' && account === null) {
    throw new RedressError('OPTION_INVALID', 'account: an owner needs one; its jobs are what it sees.')
  }
  const scopes = readScopes(given, role)
  if (account !== null) await refuseNoAccount(store, account)
  const facts = { name, role, account, scopes }
  if (dryRun) {
    const expiresAt = forMs === null ? null : isoTimeOrNull((await store.nowMs()) + forMs)
    return { ...facts, secret: null, id: null, expiresAt }
  }
  const secret = makeSecret(kind)
  const id = makeId()
  const credential = { ...facts, id, kind, hash: hashOf(secret), forMs }
  const answer = await store.addCredential({ credential, by: { actor, reason } })
  // Somebody disabled it since we looked.
  if (answer === 'no-account') throw new RedressError('ACCOUNT_NOT_FOUND', `The account ${account} is disabled.`)
  const [stored] = await store.credentials({ id, limit: 1, beforeKey: null })
  return { ...facts, secret, id, expiresAt: isoTimeOrNull(stored?.expiresAtMs ?? null) }
}

/** A time that is over at once, or that nobody will see the end of, is a slip. */
export function lifetimeMs(value: string | number, field: string, msMax: number): number {
  const ms = durationMs(value, field)
  if (ms > 0 && ms <= msMax) return ms
  const limit = ms === 0 ? 'must be longer than nothing' : `must be at most ${msMax / 86_400_000} days`
  throw new RedressError('OPTION_INVALID', `${field}: ${limit}.`)
}
