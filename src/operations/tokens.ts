import { z } from 'zod'
import { DURATION_MS_MAX } from '../core/duration.ts'
import { RedressError } from '../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../core/iso-time.ts'
import { isName } from '../core/name.ts'
import type { StoredCredential } from '../store/accounts.ts'
import type { Store } from '../store/store.ts'
import { accountNameField, newFields } from './accounts.ts'
import { checkBy } from './by.ts'
import { ROLES } from './caller.ts'
import { credentialFacts, lifetimeMs, makeCredential, roleField } from './credentials.ts'
import { actFields, limitField, operation } from './operation.ts'
import { scopesField } from './scopes.ts'

const LIST_MAX = 1_000
const KINDS = ['token', 'session', 'link'] as const
const STATES = ['active', 'expired', 'revoked', 'used', 'disabled'] as const

const tokenView = z.object({
  id: z.string(),
  kind: z.enum(KINDS),
  name: z.string(),
  role: z.enum(ROLES),
  account: z.string().nullable(),
  scopes: z.array(z.string()).nullable().describe('null: all that the role allows'),
  state: z.enum(STATES).describe('disabled: its account is'),
  createdAt: z.string(),
  createdBy: z.string(),
  expiresAt: z.string().nullable(),
  lastUsedAt: z.string().nullable().describe('to the minute'),
  revokedAt: z.string().nullable(),
})
export type TokenView = z.infer<typeof tokenView>

export const createToken = operation('tokens.create', {
  input: z.strictObject({
    name: z
      .string()
      .refine(isName, 'must begin with a letter, then letters, digits and . _ : -')
      .describe('who uses it: the audit trail calls them so, unless it has an account'),
    role: roleField,
    account: accountNameField.optional().describe('the account it stands for; needed for an owner'),
    scopes: scopesField,
    expires: z.union([z.string(), z.number()]).default('90d').describe(`how long it is good: '90d', '12h', or 'never'`),
    ...newFields,
  }),
  output: z.object({ ...credentialFacts, token: z.string().nullable().describe('the secret: it is not shown again') }),
  run: async (context, { expires, ...asked }) => {
    const forMs = expires === 'never' ? null : lifetimeMs(expires, 'expires', DURATION_MS_MAX)
    const { secret, ...made } = await makeCredential(context, 'token', asked, forMs)
    const until = made.expiresAt === null ? 'for ever' : `until ${made.expiresAt}`
    const what = `token ${made.name} with the role ${made.role}, good ${until}`
    if (secret === null)
      return { isDone: false, did: `Nothing was done. This makes the ${what}.`, ...made, token: null }
    return { isDone: true, did: `Here is the ${what}.`, ...made, token: secret }
  },
})

export const listTokens = operation('tokens.list', {
  input: z.strictObject({
    kind: z.enum(KINDS).default('token').describe('tokens, sessions of browsers, or sign-in links'),
    limit: limitField(LIST_MAX),
    cursor: z.coerce.number().int().min(1).optional().describe('go on after the last page, with its nextCursor'),
  }),
  output: z.object({ tokens: z.array(tokenView), nextCursor: z.string().nullable() }),
  run: async ({ store }, { kind, limit, cursor }) => {
    const found = await store.credentials({ kind, limit: limit + 1, beforeKey: cursor ?? null })
    const shown = found.slice(0, limit)
    return {
      tokens: await viewTokens(store, shown),
      nextCursor: found.length > shown.length ? String(shown.at(-1)?.key) : null,
    }
  },
})

const { dryRun, actor, reason } = actFields

export const revokeToken = operation('tokens.revoke', {
  input: z.strictObject({ id: z.string().min(1).describe('id of the token, session or link'), actor, reason, dryRun }),
  output: z.object({ isDone: z.boolean(), did: z.string(), token: tokenView }),
  run: async ({ store }, { id, dryRun: isDry, ...by }) => {
    const before = await neededToken(store, id)
    checkBy(by, `token ${id}`)
    const what = `${before.kind} ${before.name} (${before.role})`
    const already = `Nothing was done: the ${what} was revoked already.`
    if (before.revokedAt !== null) return { isDone: false, did: already, token: before }
    if (isDry) return { isDone: false, did: `Nothing was done. This ends the ${what} for good.`, token: before }
    const isDone = (await store.revokeCredential({ id, by })) === 'revoked'
    const token = await neededToken(store, id)
    return { isDone, did: isDone ? `The ${what} is worth nothing now.` : already, token }
  },
})

async function neededToken(store: Store, id: string): Promise<TokenView> {
  const [token] = await viewTokens(store, await store.credentials({ id, limit: 1, beforeKey: null }))
  if (token === undefined) throw new RedressError('TOKEN_NOT_FOUND', `There is no token ${id}.`)
  return token
}

async function viewTokens(store: Store, rows: readonly StoredCredential[]): Promise<TokenView[]> {
  if (rows.length === 0) return []
  const [nowMs, accounts] = await Promise.all([store.nowMs(), store.accounts()])
  const disabled = new Set(accounts.filter(({ disabledAtMs }) => disabledAtMs !== null).map(({ name }) => name))
  const stateOf = ({ kind, revokedAtMs, expiresAtMs, usedAtMs, account }: StoredCredential): TokenView['state'] => {
    if (revokedAtMs !== null) return 'revoked'
    if (kind === 'link' && usedAtMs !== null) return 'used'
    if (account !== null && disabled.has(account)) return 'disabled'
    return expiresAtMs !== null && expiresAtMs <= nowMs ? 'expired' : 'active'
  }
  return rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    name: row.name,
    role: row.role,
    account: row.account,
    scopes: row.scopes === null ? null : [...row.scopes],
    state: stateOf(row),
    createdAt: isoTime(row.createdAtMs),
    createdBy: row.createdBy,
    expiresAt: isoTimeOrNull(row.expiresAtMs),
    lastUsedAt: isoTimeOrNull(row.usedAtMs),
    revokedAt: isoTimeOrNull(row.revokedAtMs),
  }))
}
