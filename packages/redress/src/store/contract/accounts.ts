import type { ActorAndReason } from './store.ts'

/** Accounts of people, and the tokens, sessions and sign-in links of people and programs. Only hashes of secrets are stored. */
export interface AccountStore {
  /** 'taken' if an account of this name exists, also a disabled one. */
  addAccount(params: { name: string; email: string | null; by: ActorAndReason }): Promise<'added' | 'taken'>
  /** Its credentials are invalid from now on. 'not-there' also for an account that was disabled before. */
  disableAccount(params: { name: string; by: ActorAndReason }): Promise<'disabled' | 'not-there'>
  /** By name. */
  accounts(): Promise<StoredAccount[]>

  /** 'no-account' if the account is missing or disabled. */
  addCredential(params: { credential: NewCredential; by: ActorAndReason }): Promise<'added' | 'no-account'>
  /**
   * The credential with this hash if it is valid: not revoked, not expired, its account not disabled, and a link not used.
   * `nowMs` is the time of the check by the store's clock.
   */
  credential(params: { hash: string }): Promise<(StoredCredential & { nowMs: number }) | null>
  /** Uses a link and adds its session in one transaction; null if the link is invalid. */
  openSession(params: {
    linkHash: string
    session: Omit<NewCredential, 'name' | 'role' | 'account' | 'scopes'>
  }): Promise<StoredCredential | null>
  /** The newest first; also invalid ones, until they are removed. */
  credentials(params: {
    kind?: CredentialKind
    id?: string
    limit: number
    beforeKey: number | null
  }): Promise<StoredCredential[]>
  /** 'not-there' also for one that was revoked before. */
  revokeCredential(params: { id: string; by: ActorAndReason }): Promise<'revoked' | 'not-there'>
  /** Records the last use, to the minute, because a write per request would be too much. Links are left out. */
  markUsed(params: { keys: readonly number[] }): Promise<void>
  /** Removes credentials that have been invalid for this long. Returns how many. */
  pruneCredentials(params: { deadForMs: number; limit: number }): Promise<number>
}

export type CredentialKind = 'token' | 'session' | 'link'
type CredentialRole = 'owner' | 'viewer' | 'operator' | 'admin'

export interface StoredAccount {
  name: string
  email: string | null
  createdAtMs: number
  disabledAtMs: number | null
}

export interface NewCredential {
  /** Shown in lists; not a secret. */
  id: string
  kind: CredentialKind
  /** The SHA-256 of the secret, in hex. */
  hash: string
  name: string
  role: CredentialRole
  /** The name of its account; required for the role owner. */
  account: string | null
  /** null: everything that the role allows. */
  scopes: readonly string[] | null
  /** How long it is valid; null: for ever. */
  forMs: number | null
}

export interface StoredCredential extends Omit<NewCredential, 'hash' | 'forMs'> {
  key: number
  createdAtMs: number
  createdBy: string
  expiresAtMs: number | null
  /** The last use of a session or token, to the minute; or the use of a link. */
  usedAtMs: number | null
  revokedAtMs: number | null
}
