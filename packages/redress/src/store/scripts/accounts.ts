import { MINUTE_MS } from '../../core/text/duration.ts'
import type {
  AccountStore,
  CredentialKind,
  NewCredential,
  StoredAccount,
  StoredCredential,
} from '../contract/accounts.ts'
import type { ActorAndReason } from '../contract/store.ts'
import { parse, plain } from './jobs/rows.ts'
import type { ScriptContext, Tx } from './tx/context.ts'
import type { Script } from './tx/script.ts'
import { allOf, type Sql, sql } from './tx/sql.ts'

/** A credential that was marked as used within this time is not marked again. */
const MARKED_FOR_MS = MINUTE_MS

/** Names of operations in the audit trail: 'tokens.create', 'sessions.revoke', ... */
const ACTS: Readonly<Record<CredentialKind, string>> = { token: 'tokens', session: 'sessions', link: 'sign-in-links' }

type CredentialRow = Omit<StoredCredential, 'scopes'> & { scopes: string | null }

const COLUMNS = sql`
  key, id, kind, name, role, scopes, created_at AS "createdAtMs", created_by AS "createdBy", expires_at AS "expiresAtMs",
  used_at AS "usedAtMs", revoked_at AS "revokedAtMs",
  (SELECT accounts.name FROM accounts WHERE accounts.key = credentials.account) AS account`

const isAccepted = (hash: string, nowMs: Sql): Sql => sql`
  hash = ${hash} AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${nowMs})
  AND (kind <> 'link' OR used_at IS NULL) AND (account IS NULL OR account IN (
    SELECT accounts.key FROM accounts WHERE accounts.key = credentials.account AND disabled_at IS NULL))`

/** A use in the future was written before the clock was set back. */
const isUnmarked = (tx: Tx, keys: readonly number[], nowMs: number): Sql => sql`
  key ${tx.dialect.inNumbers(keys)} AND kind <> 'link'
  AND (used_at IS NULL OR used_at <= ${nowMs - MARKED_FOR_MS} OR used_at > ${nowMs})`

const isDead = (sinceMs: number): Sql => sql`(
  expires_at <= ${sinceMs} OR revoked_at <= ${sinceMs} OR (kind = 'link' AND used_at <= ${sinceMs})
  OR account IN (SELECT accounts.key FROM accounts WHERE disabled_at <= ${sinceMs}))`

const toCredential = ({ scopes, ...row }: CredentialRow): StoredCredential => ({
  ...row,
  scopes: parse<string[] | null>(scopes, null),
})

export function openAccounts({ history, write, read }: ScriptContext): AccountStore {
  const add = function* (
    tx: Tx,
    { id, kind, hash, forMs, name, role, account, scopes }: NewCredential,
    { accountKey, createdBy, by }: { accountKey: number | null; createdBy: string; by: ActorAndReason },
    atMs: number,
  ): Script<StoredCredential> {
    const expiresAtMs = forMs === null ? null : atMs + forMs
    const row = yield* tx.get<CredentialRow>`
      INSERT INTO credentials (id, kind, hash, name, role, account, scopes, created_at, created_by, expires_at)
      VALUES (${id}, ${kind}, ${hash}, ${name}, ${role}, ${accountKey},
        ${scopes === null ? null : JSON.stringify(scopes)}, ${atMs}, ${createdBy}, ${expiresAtMs})
      RETURNING ${COLUMNS}`
    // The credential is removed some time after it ended; the audit trail keeps these facts.
    const data = { name, role, account, scopes, expiresAtMs }
    yield* history.audit(tx, by, { atMs, act: `${ACTS[kind]}.create`, target: kind, ids: [id], data })
    return toCredential(row as CredentialRow)
  }

  return {
    addAccount: ({ name, email, by }) =>
      write('adding an account', function* (tx, atMs) {
        const added = yield* tx.run`
          INSERT INTO accounts (name, email, created_at) VALUES (${name}, ${email}, ${atMs})
          ON CONFLICT (name) DO NOTHING`
        if (added === 0) return 'taken'
        yield* history.audit(tx, by, { atMs, act: 'accounts.create', target: 'account', ids: [name], data: { email } })
        return 'added'
      }),

    disableAccount: ({ name, by }) =>
      write('disabling an account', function* (tx, atMs) {
        const disabled = yield* tx.run`
          UPDATE accounts SET disabled_at = ${atMs} WHERE name = ${name} AND disabled_at IS NULL`
        if (disabled === 0) return 'not-there'
        yield* history.audit(tx, by, { atMs, act: 'accounts.disable', target: 'account', ids: [name] })
        return 'disabled'
      }),

    accounts: () =>
      read('reading accounts', function* (tx) {
        const rows = yield* tx.all<StoredAccount>`
          SELECT name, email, created_at AS "createdAtMs", disabled_at AS "disabledAtMs"
          FROM accounts ORDER BY name ${tx.dialect.bytewise}`
        return plain(rows)
      }),

    addCredential: ({ credential, by }) =>
      write('adding a credential', function* (tx, atMs) {
        let accountKey: number | null = null
        if (credential.account !== null) {
          // Locked: the account must not be disabled before this transaction ends.
          const account = yield* tx.get<{ key: number }>`
            SELECT key FROM accounts WHERE name = ${credential.account} AND disabled_at IS NULL ${tx.dialect.forShare}`
          if (account === undefined) return 'no-account'
          accountKey = account.key
        }
        yield* add(tx, credential, { accountKey, createdBy: by.actor, by }, atMs)
        return 'added'
      }),

    credential: ({ hash }) =>
      read('looking for a credential', function* (tx) {
        // One statement that includes the clock: every HTTP request asks for this first.
        const row = yield* tx.get<CredentialRow & { nowMs: number }>`
          SELECT ${COLUMNS}, clock.now AS "nowMs" FROM (SELECT ${tx.clock()} AS now) AS clock CROSS JOIN credentials
          WHERE ${isAccepted(hash, sql`clock.now`)}`
        return row === undefined ? null : { ...toCredential(row), nowMs: row.nowMs }
      }),

    openSession: ({ linkHash, session }) =>
      write('opening a session', function* (tx, atMs) {
        // Of several processes that use the link at once, the first one marks it and the others find it used.
        const link = yield* tx.get<CredentialRow & { accountKey: number | null }>`
          UPDATE credentials SET used_at = ${atMs} WHERE kind = 'link' AND ${isAccepted(linkHash, sql`${atMs}`)}
          RETURNING ${COLUMNS}, account AS "accountKey"`
        if (link === undefined) return null
        const { id, name, role, account, scopes, createdBy } = toCredential(link)
        const by = { actor: account ?? name, reason: `signed in with link ${id}` }
        const opened = { ...session, name, role, account, scopes }
        return yield* add(tx, opened, { accountKey: link.accountKey, createdBy, by }, atMs)
      }),

    credentials: ({ kind, id, limit, beforeKey }) =>
      read('listing credentials', function* (tx) {
        const rows = yield* tx.all<CredentialRow>`
          SELECT ${COLUMNS} FROM credentials
          WHERE ${allOf([
            ...(kind === undefined ? [] : [sql`kind = ${kind}`]),
            ...(id === undefined ? [] : [sql`id = ${id}`]),
            ...(beforeKey === null ? [] : [sql`key < ${beforeKey}`]),
          ])}
          ORDER BY key DESC LIMIT ${limit}`
        return rows.map(toCredential)
      }),

    revokeCredential: ({ id, by }) =>
      write('revoking a credential', function* (tx, atMs) {
        const row = yield* tx.get<Pick<StoredCredential, 'kind' | 'name'>>`
          UPDATE credentials SET revoked_at = ${atMs} WHERE id = ${id} AND revoked_at IS NULL RETURNING kind, name`
        if (row === undefined) return 'not-there'
        const { kind, name } = row
        yield* history.audit(tx, by, { atMs, act: `${ACTS[kind]}.revoke`, target: kind, ids: [id], data: { name } })
        return 'revoked'
      }),

    async markUsed({ keys }) {
      const isAny = await read('looking for credentials to mark', function* (tx) {
        const nowMs = yield* tx.now()
        return yield* tx.get`SELECT 1 FROM credentials WHERE ${isUnmarked(tx, keys, nowMs)} LIMIT 1`
      })
      if (isAny === undefined) return
      // A row that another process marks at this moment is left to that process.
      await write(
        'marking credentials as used',
        (tx, nowMs) => tx.run`
          WITH unmarked AS (
            SELECT key FROM credentials WHERE ${isUnmarked(tx, keys, nowMs)}
            ORDER BY key ${tx.dialect.forUpdate} ${tx.dialect.skipLocked})
          UPDATE credentials SET used_at = ${nowMs} FROM unmarked WHERE credentials.key = unmarked.key`,
      )
    },

    async pruneCredentials({ deadForMs, limit }) {
      const isAny = await read('looking for dead credentials', function* (tx) {
        const sinceMs = (yield* tx.now()) - deadForMs
        return yield* tx.get`SELECT 1 FROM credentials WHERE ${isDead(sinceMs)} LIMIT 1`
      })
      if (isAny === undefined) return 0
      return write(
        'removing dead credentials',
        (tx, nowMs) => tx.run`
          WITH dead AS (
            SELECT key FROM credentials WHERE ${isDead(nowMs - deadForMs)}
            ORDER BY key LIMIT ${limit} ${tx.dialect.forUpdate} ${tx.dialect.skipLocked})
          DELETE FROM credentials WHERE key IN (SELECT key FROM dead)`,
      )
    },
  }
}
