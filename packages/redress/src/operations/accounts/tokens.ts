import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { DAY_MS, DURATION_MS_MAX, durationMs, isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { isName, nearest } from '../../core/text/names.ts'
import { hashOf, makeSecret } from '../../runtime/secret.ts'
import type { CredentialKind, StoredCredential } from '../../store/contract/accounts.ts'
import type { Store } from '../../store/contract/store.ts'
import { mayRole, ROLES, type Role, splitScopes } from '../caller.ts'
import { CATALOG, type OperationName } from '../catalog.ts'
import { actorFields, cursorField, durationInput, limitField, requireActorAndReason } from '../input-fields.ts'
import { type Context, operation } from '../operation.ts'
import { accountNameField, newFields, refuseNoAccount } from './accounts.ts'

/** Tokens and sign-in links: who has access, with which role and for how long. */

const LIST_MAX = 1_000
const KINDS = ['token', 'session', 'link'] as const
const STATES = ['active', 'expired', 'revoked', 'used', 'disabled'] as const

const ROLE_MEANS = 'viewer reads, operator changes jobs, admin manages access, owner has only the jobs of its account'
const roleField = z.enum(ROLES).describe(ROLE_MEANS)
const roleFieldOr = (role: Role) => z.enum(ROLES).default(role).describe(ROLE_MEANS)

const scopesField = z
  .union([z.string(), z.array(z.string())])
  .optional()
  .describe(`only these operations ('jobs.list') or groups ('jobs.*'), separated by commas; default: all of the role`)

/** Of the credential that was created, or would be with `dryRun`. */
const credentialFacts = {
  isDone: z.boolean(),
  did: z.string().describe('what was done, or would be, in one sentence'),
  id: z.string().nullable().describe('id for tokens.revoke; not secret'),
  name: z.string(),
  role: z.enum(ROLES),
  account: z.string().nullable(),
  scopes: z.array(z.string()).nullable().describe('null: all that the role allows'),
  expiresAt: z.string().nullable(),
}

const tokenView = z.object({
  id: z.string(),
  kind: z.enum(KINDS),
  name: z.string(),
  role: z.enum(ROLES),
  account: z.string().nullable(),
  scopes: z.array(z.string()).nullable().describe('null: all that the role allows'),
  state: z.enum(STATES).describe('disabled: its account is disabled'),
  createdAt: z.string(),
  createdBy: z.string(),
  expiresAt: z.string().nullable(),
  lastUsedAt: z.string().nullable().describe('to the minute'),
  revokedAt: z.string().nullable(),
})
export type TokenView = z.infer<typeof tokenView>

const createToken = operation('tokens.create', {
  input: z.strictObject({
    name: z
      .string()
      .refine(isName, 'must start with a letter, followed by letters, digits and . _ : -')
      .describe('name of its user in the audit trail, unless it has an account'),
    role: roleField,
    account: accountNameField.optional().describe('account that it acts for; required for the role owner'),
    scopes: scopesField,
    expires: durationInput.default('90d').describe(`lifetime: '90d', '12h', or 'never'`),
    ...newFields,
  }),
  output: z.object({ ...credentialFacts, token: z.string().nullable().describe('the secret: it is not shown again') }),
  run: async (context, { expires, ...asked }) => {
    const forMs = expires === 'never' ? null : lifetimeMs(expires, 'expires', DURATION_MS_MAX)
    const { secret, ...made } = await makeCredential(context, 'token', asked, forMs)
    const until = made.expiresAt === null ? 'forever' : `until ${made.expiresAt}`
    const what = `token ${made.name} with the role ${made.role}, valid ${until}`
    if (secret === null)
      return { isDone: false, did: `Nothing was done. This creates the ${what}.`, ...made, token: null }
    return { isDone: true, did: `Created the ${what}.`, ...made, token: secret }
  },
})

const listTokens = operation('tokens.list', {
  input: z.strictObject({
    kind: z.enum(KINDS).default('token').describe('tokens, browser sessions, or sign-in links'),
    limit: limitField(LIST_MAX),
    cursor: cursorField,
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

const revokeToken = operation('tokens.revoke', {
  input: z.strictObject({ id: z.string().min(1).describe('id of the token, session or link'), ...actorFields }),
  output: z.object({ isDone: z.boolean(), did: z.string(), token: tokenView }),
  run: async ({ store }, { id, dryRun: isDry, ...by }) => {
    const before = await neededToken(store, id)
    requireActorAndReason(by, `token ${id}`)
    const what = `${before.kind} ${before.name} (${before.role})`
    const already = `Nothing was done: the ${what} is already revoked.`
    if (before.revokedAt !== null) return { isDone: false, did: already, token: before }
    if (isDry) return { isDone: false, did: `Nothing was done. This revokes the ${what}.`, token: before }
    const isDone = (await store.revokeCredential({ id, by })) === 'revoked'
    const token = await neededToken(store, id)
    return { isDone, did: isDone ? `The ${what} is revoked.` : already, token }
  },
})

const LINK_MS_MAX = 7 * DAY_MS

/** The path of a link. Opening it shows a button, so that link previews do not use it up. */
const signInPath = (code: string): string => `/sign-in?code=${encodeURIComponent(code)}`

const createSignInLink = operation('sign-in-links.create', {
  input: z.strictObject({
    role: roleFieldOr('admin'),
    account: accountNameField.optional().describe('account that it acts for; required for the role owner'),
    name: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('name of the person in the audit trail; else the account, or the actor'),
    scopes: scopesField,
    for: durationInput.default('15m').describe(`how long it can be used: '15m', '1d'`),
    ...newFields,
  }),
  output: z.object({
    ...credentialFacts,
    code: z.string().nullable().describe('the secret: it works once and is not shown again'),
    path: z.string().nullable().describe('path of the link on the server'),
  }),
  run: async (context, { for: length, name, ...asked }) => {
    const forMs = lifetimeMs(length, 'for', LINK_MS_MAX)
    const named = { ...asked, name: name ?? asked.account ?? asked.actor }
    const { secret, ...made } = await makeCredential(context, 'link', named, forMs)
    const what = `a link that signs ${made.name} in once with the role ${made.role}, until ${made.expiresAt}`
    if (secret === null) return { isDone: false, did: `Nothing was done. This creates ${what}.`, ...made, ...NO_LINK }
    return { isDone: true, did: `Created ${what}.`, ...made, code: secret, path: signInPath(secret) }
  },
})

const NO_LINK = { code: null, path: null }

type CredentialInput = Omit<z.output<(typeof createToken)['input']>, 'expires'>

/** The secret is shown once and stored nowhere; it is null with `dryRun`. */
type MadeCredential = Omit<z.infer<z.ZodObject<typeof credentialFacts>>, 'isDone' | 'did'> & { secret: string | null }

async function makeCredential(
  { store, makeId }: Pick<Context, 'store' | 'makeId'>,
  kind: Exclude<CredentialKind, 'session'>,
  { name, role, account: accountName, scopes: given, actor, reason, dryRun }: CredentialInput,
  forMs: number | null,
): Promise<MadeCredential> {
  const account = accountName ?? null
  requireActorAndReason({ actor, reason }, `${kind} ${name}`)
  if (role === 'owner' && account === null) {
    throw new RedressError(
      'OPTION_INVALID',
      'account: required for the role owner, which has only the jobs of its account.',
    )
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
  // Another caller disabled the account after it was read.
  if (answer === 'no-account') throw new RedressError('ACCOUNT_NOT_FOUND', `The account ${account} is disabled.`)
  const [stored] = await store.credentials({ id, limit: 1, beforeKey: null })
  return { ...facts, secret, id, expiresAt: isoTimeOrNull(stored?.expiresAtMs ?? null) }
}

/** A lifetime of zero or beyond the limit is a mistake. */
function lifetimeMs(value: string | number, field: string, msMax: number): number {
  const ms = durationMs(value, field)
  if (ms > 0 && ms <= msMax) return ms
  const limit = ms === 0 ? 'must be longer than zero' : `must be at most ${msMax / DAY_MS} days`
  throw new RedressError('OPTION_INVALID', `${field}: ${limit}.`)
}

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

const NAMES = Object.keys(CATALOG) as OperationName[]
const GROUPS = [...new Set(NAMES.map((name) => `${name.split('.')[0]}.*`))]

/** As they are kept; null for all that the role allows. A scope that would never let anything through is a mistake. */
function readScopes(given: z.infer<typeof scopesField>, role: Role): string[] | null {
  if (given === undefined) return null
  const scopes = splitScopes(given)
  if (scopes.length === 0) throw refused('the list is empty; leave it out to allow everything that the role allows')
  for (const scope of scopes) {
    const names = namesIn(scope)
    if (names.length === 0) {
      const meant = nearest(scope, [...NAMES, ...GROUPS])
      throw refused(`there is no operation ${scope}${meant === null ? '' : `; the nearest is ${meant}`}`)
    }
    if (!names.some((name) => mayRole(role, CATALOG[name]))) throw refused(`the role ${role} does not allow ${scope}`)
  }
  return scopes
}

const namesIn = (scope: string): OperationName[] =>
  NAMES.filter((name) => name === scope || (scope.endsWith('.*') && name.startsWith(scope.slice(0, -1))))

const refused = (problem: string): RedressError => new RedressError('OPTION_INVALID', `scopes: ${problem}.`)

export const tokenOperations = {
  'tokens.create': createToken,
  'tokens.list': listTokens,
  'tokens.revoke': revokeToken,
  'sign-in-links.create': createSignInLink,
}
