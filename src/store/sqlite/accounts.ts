import { CREDENTIAL_ACTS, credentialFacts, MARKED_FOR_MS, toAccount, toCredential } from '../account-rows.ts'
import type { AccountStore, NewCredential, StoredCredential } from '../accounts.ts'
import type { Row } from '../rows.ts'
import type { By } from '../store.ts'
import type { SqliteContext } from './context.ts'

const WITH_ACCOUNT = `
  SELECT credentials.*, accounts.name AS account_name
  FROM credentials LEFT JOIN accounts ON accounts.key = credentials.account`

export function openAccounts({ connection, history, nowMs, write, read }: SqliteContext): AccountStore {
  const addAccount = connection.prepare(
    'INSERT INTO accounts (name, email, created_at) VALUES (?, ?, ?) ON CONFLICT (name) DO NOTHING',
  )
  const disable = connection.prepare('UPDATE accounts SET disabled_at = ?2 WHERE name = ?1 AND disabled_at IS NULL')
  const allAccounts = connection.prepare('SELECT * FROM accounts ORDER BY name')
  const openAccount = connection.prepare('SELECT key FROM accounts WHERE name = ? AND disabled_at IS NULL')

  const add = connection.prepare(`
    INSERT INTO credentials (id, kind, hash, name, role, account, scopes, created_at, created_by, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key`)
  const good = connection.prepare(`${WITH_ACCOUNT}
    WHERE hash = ?1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?2)
      AND (kind <> 'link' OR used_at IS NULL) AND disabled_at IS NULL`)
  const byKey = connection.prepare(`${WITH_ACCOUNT} WHERE credentials.key = ?`)
  const list = connection.prepare(`${WITH_ACCOUNT}
    WHERE (?1 IS NULL OR kind = ?1) AND (?2 IS NULL OR id = ?2) AND credentials.key < ?3
    ORDER BY credentials.key DESC LIMIT ?4`)
  const use = connection.prepare('UPDATE credentials SET used_at = ?2 WHERE key = ?1')
  const revoke = connection.prepare(
    'UPDATE credentials SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL RETURNING kind, name',
  )
  // A time to come was written before the clock was set back.
  const unmarked = connection.prepare(`
    SELECT key FROM credentials WHERE key IN (SELECT value FROM json_each(?1)) AND kind <> 'link'
      AND (used_at IS NULL OR used_at <= ?2 - ${MARKED_FOR_MS} OR used_at > ?2)`)
  const dead = connection.prepare(`
    SELECT key FROM credentials WHERE expires_at <= ?1 OR revoked_at <= ?1 OR (kind = 'link' AND used_at <= ?1)
      OR account IN (SELECT key FROM accounts WHERE disabled_at <= ?1)
    ORDER BY key LIMIT ?2`)
  const remove = connection.prepare('DELETE FROM credentials WHERE key = ?')

  const keysOf = (rows: unknown[]): number[] => (rows as { key: number }[]).map(({ key }) => key)

  const addCredential = (
    { id, kind, hash, forMs, ...facts }: NewCredential,
    { accountKey, createdBy, by }: { accountKey: number | null; createdBy: string; by: By },
  ): StoredCredential => {
    const atMs = nowMs()
    const expiresAtMs = forMs === null ? null : atMs + forMs
    const { name, role, scopes } = facts
    const listed = scopes === null ? null : JSON.stringify(scopes)
    const { key } = add.get(id, kind, hash, name, role, accountKey, listed, atMs, createdBy, expiresAtMs) as Row
    const data = credentialFacts(facts, expiresAtMs)
    history.audit(by, { atMs, act: `${CREDENTIAL_ACTS[kind]}.create`, target: kind, ids: [id], data })
    return toCredential(byKey.get(key as number) as Row)
  }

  return {
    addAccount: ({ name, email, by }) =>
      write('adding an account', () => {
        const atMs = nowMs()
        if (addAccount.run(name, email, atMs).changes === 0) return 'taken'
        history.audit(by, { atMs, act: 'accounts.create', target: 'account', ids: [name], data: { email } })
        return 'added'
      }),

    disableAccount: ({ name, by }) =>
      write('disabling an account', () => {
        const atMs = nowMs()
        if (disable.run(name, atMs).changes === 0) return 'not-there'
        history.audit(by, { atMs, act: 'accounts.disable', target: 'account', ids: [name] })
        return 'disabled'
      }),

    accounts: () => read('reading accounts', () => (allAccounts.all() as Row[]).map(toAccount)),

    addCredential: ({ credential, by }) =>
      write('adding a credential', () => {
        const account = credential.account === null ? null : (openAccount.get(credential.account) as Row | undefined)
        if (account === undefined) return 'no-account'
        const accountKey = account === null ? null : (account.key as number)
        addCredential(credential, { accountKey, createdBy: by.actor, by })
        return 'added'
      }),

    credential: ({ hash }) =>
      read('looking for a credential', () => {
        const atMs = nowMs()
        const row = good.get(hash, atMs) as Row | undefined
        return row === undefined ? null : { ...toCredential(row), nowMs: atMs }
      }),

    openSession: ({ linkHash, session }) =>
      write('opening a session', () => {
        const atMs = nowMs()
        // Whoever comes second finds it used: transactions that write go one after another.
        const row = good.get(linkHash, atMs) as Row | undefined
        if (row === undefined || row.kind !== 'link') return null
        use.run(row.key as number, atMs)
        const { id, name, role, account, scopes, createdBy } = toCredential(row)
        const by = { actor: account ?? name, reason: `signed in with link ${id}` }
        const opened = { ...session, name, role, account, scopes }
        return addCredential(opened, { accountKey: row.account as number | null, createdBy, by })
      }),

    credentials: ({ kind, id, limit, beforeKey }) =>
      read('listing credentials', () =>
        (list.all(kind ?? null, id ?? null, beforeKey ?? Number.MAX_SAFE_INTEGER, limit) as Row[]).map(toCredential),
      ),

    revokeCredential: ({ id, by }) =>
      write('revoking a credential', () => {
        const atMs = nowMs()
        const row = revoke.get(id, atMs) as Pick<StoredCredential, 'kind' | 'name'> | undefined
        if (row === undefined) return 'not-there'
        const { kind, name } = row
        history.audit(by, { atMs, act: `${CREDENTIAL_ACTS[kind]}.revoke`, target: kind, ids: [id], data: { name } })
        return 'revoked'
      }),

    async markUsed({ keys }) {
      const asked = JSON.stringify(keys)
      const find = () => keysOf(unmarked.all(asked, nowMs()))
      if ((await read('looking for credentials to mark', find)).length === 0) return
      await write('marking credentials as used', () => {
        for (const key of find()) use.run(key, nowMs())
      })
    },

    async pruneCredentials({ deadForMs, limit }) {
      const find = () => keysOf(dead.all(nowMs() - deadForMs, limit))
      if ((await read('looking for dead credentials', find)).length === 0) return 0
      return write('removing dead credentials', () => {
        const keys = find()
        for (const key of keys) remove.run(key)
        return keys.length
      })
    },
  }
}
