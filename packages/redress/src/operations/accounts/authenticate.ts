import { MINUTE_MS } from '../../core/text/duration.ts'
import { fillFromSystem, idMaker } from '../../runtime/id.ts'
import { hashOf, isSecret, makeSecret } from '../../runtime/secret.ts'
import type { AccountStore, StoredCredential } from '../../store/contract/accounts.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Caller } from '../caller.ts'

/** A caller that was authenticated by a credential of the store. */
export interface KnownCaller extends Caller {
  credential: StoredCredential
}

/**
 * The caller of a secret; null if it is not valid. The store is asked each time: a secret that was
 * revoked, or whose account was disabled, is worth nothing from that moment on, in every process.
 */
export async function authenticate(
  store: Pick<AccountStore, 'credential' | 'markUsed'>,
  secret: string,
): Promise<KnownCaller | null> {
  if (!isSecret(secret)) return null
  const found = await store.credential({ hash: hashOf(secret) })
  // A link only opens a session; it does not authenticate requests.
  if (found === null || found.kind === 'link') return null
  const { nowMs, ...credential } = found
  const { key, usedAtMs } = credential
  // Not awaited: if it fails, the next request records the use.
  if (usedAtMs === null || nowMs - usedAtMs >= MINUTE_MS) store.markUsed({ keys: [key] }).catch(() => undefined)
  return callerOf(credential)
}

function callerOf(credential: StoredCredential): KnownCaller {
  const { kind, name, role, account, scopes } = credential
  // A token without an account is used by a program.
  const isPerson = kind === 'session' || account !== null
  return { name: account ?? name, role, account, scopes, isPerson, credential }
}

export interface OpenedSession {
  /** For the cookie of the browser; stored nowhere else. */
  secret: string
  caller: KnownCaller
}

/** Uses up a sign-in link; null if it is not valid. Of concurrent uses, one succeeds. */
export async function openSession(
  store: Pick<AccountStore, 'openSession'> & Pick<Store, 'nowMs'>,
  code: string,
  forMs: number,
): Promise<OpenedSession | null> {
  if (!isSecret(code)) return null
  const nowMs = await store.nowMs()
  const secret = makeSecret('session')
  const id = idMaker(() => nowMs, fillFromSystem)()
  const opened = await store.openSession({
    linkHash: hashOf(code),
    session: { id, kind: 'session', hash: hashOf(secret), forMs },
  })
  return opened === null ? null : { secret, caller: callerOf(opened) }
}

/** Ends the session of a browser. Tokens are ended with `tokens.revoke`. */
export async function endSession(
  store: Pick<AccountStore, 'credential' | 'revokeCredential'>,
  secret: string,
): Promise<void> {
  const found = isSecret(secret) ? await store.credential({ hash: hashOf(secret) }) : null
  if (found?.kind !== 'session') return
  await store.revokeCredential({ id: found.id, by: { actor: found.account ?? found.name, reason: 'signed out' } })
}
