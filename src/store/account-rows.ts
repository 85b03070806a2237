import { MINUTE_MS } from '../core/duration.ts'
import type { CredentialKind, CredentialRole, NewCredential, StoredAccount, StoredCredential } from './accounts.ts'
import type { Row } from './rows.ts'

/** One that was marked within this time is not marked again. */
export const MARKED_FOR_MS = MINUTE_MS

/** What the audit trail calls the three kinds, and what is done to them: 'tokens.create', 'sessions.revoke', ... */
export const CREDENTIAL_ACTS: Readonly<Record<CredentialKind, string>> = {
  token: 'tokens',
  session: 'sessions',
  link: 'sign-in-links',
}

/** What the audit trail keeps of a credential, which itself is removed some time after it has ended. */
export function credentialFacts(
  { name, role, account, scopes }: Pick<NewCredential, 'name' | 'role' | 'account' | 'scopes'>,
  expiresAtMs: number | null,
): object {
  return { name, role, account, scopes, expiresAtMs }
}

export function toAccount(row: Row): StoredAccount {
  return {
    name: row.name as string,
    email: row.email as string | null,
    createdAtMs: row.created_at as number,
    disabledAtMs: row.disabled_at as number | null,
  }
}

/** The name of the account comes from its own table, as `account_name`. */
export function toCredential(row: Row): StoredCredential {
  return {
    key: row.key as number,
    id: row.id as string,
    kind: row.kind as CredentialKind,
    name: row.name as string,
    role: row.role as CredentialRole,
    account: row.account_name as string | null,
    scopes: row.scopes === null ? null : (JSON.parse(row.scopes as string) as string[]),
    createdAtMs: row.created_at as number,
    createdBy: row.created_by as string,
    expiresAtMs: row.expires_at as number | null,
    usedAtMs: row.used_at as number | null,
    revokedAtMs: row.revoked_at as number | null,
  }
}
