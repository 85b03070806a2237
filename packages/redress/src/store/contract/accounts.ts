import type { By } from './store.ts'

/** Who may come in: accounts of people, and what they (or programs) show at the door. Secrets are kept as hashes only. */
export interface AccountStore {
  /** Refused with 'taken' where one of this name is there, whether it may come in or not. */
  addAccount(params: { name: string; email: string | null; by: By }): Promise<'added' | 'taken'>
  /** All that it holds is worth nothing from now on; 'not-there' also for one that was disabled before. */
  disableAccount(params: { name: string; by: By }): Promise<'disabled' | 'not-there'>
  /** By name. */
  accounts(): Promise<StoredAccount[]>

  /** Refused with 'no-account' where the account is not there, or was disabled. */
  addCredential(params: { credential: NewCredential; by: By }): Promise<'added' | 'no-account'>
  /**
   * The one with this hash, if it is good now: not revoked, not expired, its account not disabled, not used where it is
   * for one use. `nowMs` is when that was, by the store's clock.
   */
  credential(params: { hash: string }): Promise<(StoredCredential & { nowMs: number }) | null>
  /** Uses up a link and adds the session that it opens, as one change; null where the link is not good (any more). */
  openSession(params: {
    linkHash: string
    session: Omit<NewCredential, 'name' | 'role' | 'account' | 'scopes'>
  }): Promise<StoredCredential | null>
  /** The newest first; also those that are not good any more, until they are removed. */
  credentials(params: {
    kind?: CredentialKind
    id?: string
    limit: number
    beforeKey: number | null
  }): Promise<StoredCredential[]>
  /** 'not-there' also for one that was revoked before. */
  revokeCredential(params: { id: string; by: By }): Promise<'revoked' | 'not-there'>
  /** They were shown: kept to the minute, for a row per request would be too much. A link is used up, not shown. */
  markUsed(params: { keys: readonly number[] }): Promise<void>
  /** Removes what has not been good for this long. Answers with how many. */
  pruneCredentials(params: { deadForMs: number; limit: number }): Promise<number>
}

export type CredentialKind = 'token' | 'session' | 'link'
export type CredentialRole = 'owner' | 'viewer' | 'operator' | 'admin'

export interface StoredAccount {
  name: string
  email: string | null
  createdAtMs: number
  disabledAtMs: number | null
}

export interface NewCredential {
  /** What people call it by: shown in lists, no secret. */
  id: string
  kind: CredentialKind
  /** Of the secret: SHA-256, in hex. */
  hash: string
  name: string
  role: CredentialRole
  /** Name of the account that it stands for; needed for an owner. */
  account: string | null
  /** null: all that the role allows. */
  scopes: readonly string[] | null
  /** From now on, by the store's clock; null: for ever. */
  forMs: number | null
}

export interface StoredCredential extends Omit<NewCredential, 'hash' | 'forMs'> {
  key: number
  createdAtMs: number
  createdBy: string
  expiresAtMs: number | null
  /** A session or token: last seen about then. A link: used then. */
  usedAtMs: number | null
  revokedAtMs: number | null
}
