import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import { isoTime, isoTimeOrNull } from '../../core/text/duration.ts'
import { isName } from '../../core/text/names.ts'
import type { StoredAccount } from '../../store/contract/accounts.ts'
import type { Store } from '../../store/contract/store.ts'
import { actorFields, requireActorAndReason } from '../input-fields.ts'
import { operation } from '../operation.ts'

const EMAIL_CHARS_MAX = 254

const accountView = z.object({
  name: z.string(),
  email: z.string().nullable(),
  createdAt: z.string(),
  disabledAt: z.string().nullable(),
})
export type AccountView = z.infer<typeof accountView>

const accountActed = z.object({
  isDone: z.boolean(),
  did: z.string().describe('what was done, or would be, in one sentence'),
  account: accountView.nullable(),
})

export const accountNameField = z
  .string()
  .refine(isName, 'must start with a letter, followed by letters, digits and . _ : -')
  .describe('name of the account; it owns the jobs with this owner')

/** Creating something needs no reason, but can have one. */
export const newFields = {
  ...actorFields,
  reason: z.string().default('no reason given').describe('why: recorded in the audit trail'),
}

const createAccount = operation('accounts.create', {
  input: z.strictObject({
    name: accountNameField,
    email: z
      .email('must be an email address such as ann@example.com')
      .max(EMAIL_CHARS_MAX)
      .optional()
      .describe('email address for notices to its owner'),
    ...newFields,
  }),
  output: accountActed,
  run: async ({ store }, { name, email = null, dryRun, ...by }) => {
    requireActorAndReason(by, `account ${name}`)
    if (dryRun) {
      if ((await find(store, name)) !== undefined) throw taken(name)
      return { isDone: false, did: `Nothing was done. This creates the account ${name}.`, account: null }
    }
    if ((await store.addAccount({ name, email, by })) === 'taken') throw taken(name)
    return { isDone: true, did: `The account ${name} is created.`, account: viewAccount(await needed(store, name)) }
  },
})

const listAccounts = operation('accounts.list', {
  input: z.strictObject({}),
  output: z.object({ accounts: z.array(accountView) }),
  run: async ({ store }) => ({ accounts: (await store.accounts()).map(viewAccount) }),
})

const disableAccount = operation('accounts.disable', {
  input: z.strictObject({ name: z.string().min(1).describe('name of the account'), ...actorFields }),
  output: accountActed,
  run: async ({ store }, { name, dryRun, ...by }) => {
    const before = await needed(store, name)
    requireActorAndReason(by, `account ${name}`)
    const already = `Nothing was done: the account ${name} is already disabled.`
    if (before.disabledAtMs !== null) return { isDone: false, did: already, account: viewAccount(before) }
    if (dryRun) {
      const did = `Nothing was done. This disables the account ${name} and revokes all its tokens and sessions. Its jobs stay.`
      return { isDone: false, did, account: viewAccount(before) }
    }
    const isDone = (await store.disableAccount({ name, by })) === 'disabled'
    const did = isDone ? `The account ${name} is disabled, and its tokens and sessions are revoked.` : already
    return { isDone, did, account: viewAccount(await needed(store, name)) }
  },
})

const find = async (store: Store, name: string): Promise<StoredAccount | undefined> =>
  (await store.accounts()).find((account) => account.name === name)

async function needed(store: Store, name: string): Promise<StoredAccount> {
  const account = await find(store, name)
  if (account === undefined) throw new RedressError('ACCOUNT_NOT_FOUND', `There is no account ${name}.`)
  return account
}

/** Throws unless the account exists and is enabled. */
export async function refuseNoAccount(store: Store, name: string): Promise<void> {
  const { disabledAtMs } = await needed(store, name)
  if (disabledAtMs !== null) throw new RedressError('ACCOUNT_NOT_FOUND', `The account ${name} is disabled.`)
}

const taken = (name: string): RedressError => new RedressError('ACCOUNT_EXISTS', `The account ${name} already exists.`)

const viewAccount = ({ name, email, createdAtMs, disabledAtMs }: StoredAccount): AccountView => ({
  name,
  email,
  createdAt: isoTime(createdAtMs),
  disabledAt: isoTimeOrNull(disabledAtMs),
})

export const accountOperations = {
  'accounts.create': createAccount,
  'accounts.list': listAccounts,
  'accounts.disable': disableAccount,
}
