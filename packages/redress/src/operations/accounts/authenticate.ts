import { MINUTE_MS } from '../../core/text/duration.ts'
import { fillFromSystem, idMaker } from '../../runtime/id.ts'
import { hashOf, isSecret, makeSecret } from '../../runtime/secret.ts'
import type { AccountStore, StoredCredential } from '../../store/contract/accounts.ts'
import type { Store } from '../../store/contract/store.ts'
import type { Caller } from '../caller.ts'

/** A caller whom the store knows, by what they showed. */
export interface KnownCaller extends Caller {
  credential: StoredCredential
}

/**
 * Who this secret stands for; null where it is not good (any more). It is asked of the store each time: one that was
 * revoked, or whose account was disabled, is worth nothing from that moment on, in every process.
 */
export async function authenticate(
  store: Pick<AccountStore, 'credential' | 'markUsed'>,
  secret: string,
): Promise<KnownCaller | null> {
  if (!isSecret(secret)) return null
  const found = await store.credential({ hash: hashOf(secret) })
  // A link opens a session; by itself it lets nobody in.
  if (found === null || found.kind === 'link') return null
  const { nowMs, ...credential } = found
  const { key, usedAtMs } = credential
  // Nobody waits for it, and a mark that could not be made is made by the next request.
  if (usedAtMs === null || nowMs - usedAtMs >= MINUTE_MS) store.markUsed({ keys: [key] }).catch(() => undefined)
  return callerOf(credential)
}

function callerOf(credential: StoredCredential): KnownCaller {
  const { kind, name, role, account, scopes } = credential
  // What has neither an account nor a session is a program's.
  const isPerson = kind === 'session' || account !== null
  return { name: account ?? name, role, account, scopes, isPerson, credential }
}

export interface OpenedSession {
  /** For the browser's cookie; not kept anywhere else. */
  secret: string
  caller: KnownCaller
}

/** Uses up a sign-in link; null where it is not good (any more). Of any number who use one at once, one gets in. */
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

/** Signs out: what the browser still has is worth nothing from now on. A token is not ended so; see `tokens.revoke`. */
export async function endSession(
  store: Pick<AccountStore, 'credential' | 'revokeCredential'>,
  secret: string,
): Promise<void> {
  const found = isSecret(secret) ? await store.credential({ hash: hashOf(secret) }) : null
  if (found?.kind !== 'session') return
  await store.revokeCredential({ id: found.id, by: { actor: found.account ?? found.name, reason: 'signed out' } })
}
