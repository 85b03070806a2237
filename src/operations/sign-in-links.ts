import { z } from 'zod'
import { DAY_MS } from '../core/duration.ts'
import { accountNameField, newFields } from './accounts.ts'
import { credentialFacts, lifetimeMs, makeCredential, roleFieldOr } from './credentials.ts'
import { operation } from './operation.ts'
import { scopesField } from './scopes.ts'

const LINK_MS_MAX = 7 * DAY_MS

/** Where a link leads, on whatever server serves it. Whoever opens it sees a button: looking does not use it up. */
export const signInPath = (code: string): string => `/sign-in?code=${encodeURIComponent(code)}`

export const createSignInLink = operation('sign-in-links.create', {
  input: z.strictObject({
    role: roleFieldOr('admin'),
    account: accountNameField.optional().describe('the account it stands for; needed for an owner'),
    name: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .describe('what the audit trail calls whoever comes in by it; else the account, or who makes it'),
    scopes: scopesField,
    for: z.union([z.string(), z.number()]).default('15m').describe(`how long it can be used: '15m', '1d'`),
    ...newFields,
  }),
  output: z.object({
    ...credentialFacts,
    code: z.string().nullable().describe('the secret: it works once and is not shown again'),
    path: z.string().nullable().describe('what to open on the server'),
  }),
  run: async (context, { for: length, name, ...asked }) => {
    const forMs = lifetimeMs(length, 'for', LINK_MS_MAX)
    const named = { ...asked, name: name ?? asked.account ?? asked.actor }
    const { secret, ...made } = await makeCredential(context, 'link', named, forMs)
    const what = `a link that signs ${made.name} in once with the role ${made.role}, until ${made.expiresAt}`
    if (secret === null) return { isDone: false, did: `Nothing was done. This makes ${what}.`, ...made, ...NONE }
    return { isDone: true, did: `Here is ${what}.`, ...made, code: secret, path: signInPath(secret) }
  },
})

const NONE = { code: null, path: null }
