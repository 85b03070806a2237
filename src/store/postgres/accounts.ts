import { CREDENTIAL_ACTS, credentialFacts, MARKED_FOR_MS, toAccount, toCredential } from '../account-rows.ts'
import type { AccountStore, NewCredential, StoredCredential } from '../accounts.ts'
import type { Row } from '../rows.ts'
import type { By } from '../store.ts'
import type { Sql, Tx } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './text.ts'

export function openAccounts({ history, write, read, givenNowMs }: PgContext): AccountStore {
  const now = (sql: Sql) => sql`coalesce(${givenNowMs()}::bigint, redress_now())`
  const withAccount = (sql: Sql) => sql`
    SELECT credentials.*, accounts.name AS account_name
    FROM credentials LEFT JOIN accounts ON accounts.key = credentials.account`

  const addCredential = async (
    tx: Tx,
    atMs: number,
    { id, kind, hash, forMs, ...facts }: NewCredential,
    { accountKey, createdBy, by }: { accountKey: number | null; createdBy: string; by: By },
  ): Promise<StoredCredential> => {
    const expiresAtMs = forMs === null ? null : atMs + forMs
    const { name, role, account, scopes } = facts
    const [row] = await tx<Row[]>`
      INSERT INTO credentials (id, kind, hash, name, role, account, scopes, created_at, created_by, expires_at)
      VALUES (${id}, ${kind}, ${hash}, ${name}, ${role}, ${accountKey},
        ${scopes === null ? null : JSON.stringify(scopes)}, ${atMs}, ${printable(createdBy)}, ${expiresAtMs})
      RETURNING *, ${account}::text AS account_name`
    const data = credentialFacts(facts, expiresAtMs)
    await history.audit(tx, by, { atMs, act: `${CREDENTIAL_ACTS[kind]}.create`, target: kind, ids: [id], data })
    return toCredential(row as Row)
  }

  return {
    addAccount: ({ name, email, by }) =>
      write('adding an account', async (tx, atMs) => {
        const { count } = await tx`
          INSERT INTO accounts (name, email, created_at) VALUES (${name}, ${email}, ${atMs})
          ON CONFLICT (name) DO NOTHING`
        if (count === 0) return 'taken'
        await history.audit(tx, by, { atMs, act: 'accounts.create', target: 'account', ids: [name], data: { email } })
        return 'added'
      }),

    disableAccount: ({ name, by }) =>
      write('disabling an account', async (tx, atMs) => {
        const { count } = await tx`
          UPDATE accounts SET disabled_at = ${atMs} WHERE name = ${name} AND disabled_at IS NULL`
        if (count === 0) return 'not-there'
        await history.audit(tx, by, { atMs, act: 'accounts.disable', target: 'account', ids: [name] })
        return 'disabled'
      }),

    accounts: () =>
      read('reading accounts', async (sql) => {
        const rows = await sql<Row[]>`SELECT * FROM accounts ORDER BY name COLLATE "C"`
        return rows.map(toAccount)
      }),

    addCredential: ({ credential, by }) =>
      write('adding a credential', async (tx, atMs) => {
        let accountKey: number | null = null
        if (credential.account !== null) {
          const [account] = await tx<{ key: number }[]>`
            SELECT key FROM accounts WHERE name = ${credential.account} AND disabled_at IS NULL FOR SHARE`
          if (account === undefined) return 'no-account'
          accountKey = account.key
        }
        await addCredential(tx, atMs, credential, { accountKey, createdBy: by.actor, by })
        return 'added'
      }),

    credential: ({ hash }) =>
      read('looking for a credential', async (sql) => {
        // One statement, the clock in it: it is asked before everything that comes in by HTTP.
        const [row] = await sql<Row[]>`
          SELECT good.*, asked.now FROM (SELECT ${now(sql)} AS now) AS asked CROSS JOIN (${withAccount(sql)}
            WHERE hash = ${hash} AND revoked_at IS NULL AND (kind <> 'link' OR used_at IS NULL) AND disabled_at IS NULL
          ) AS good
          WHERE expires_at IS NULL OR expires_at > asked.now`
        return row === undefined ? null : { ...toCredential(row), nowMs: row.now as number }
      }),

    openSession: ({ linkHash, session }) =>
      write('opening a session', async (tx, atMs) => {
        // Of several who use it at once the others wait for the first, and then compare with what it left.
        const [link] = await tx<Row[]>`
          UPDATE credentials SET used_at = ${atMs}
          WHERE hash = ${linkHash} AND kind = 'link' AND used_at IS NULL AND revoked_at IS NULL
            AND (expires_at IS NULL OR expires_at > ${atMs})
            AND (account IS NULL
              OR EXISTS (SELECT 1 FROM accounts WHERE key = credentials.account AND disabled_at IS NULL))
          RETURNING *, (SELECT accounts.name FROM accounts WHERE key = credentials.account) AS account_name`
        if (link === undefined) return null
        const { id, name, role, account, scopes, createdBy } = toCredential(link)
        const by = { actor: account ?? name, reason: `signed in with link ${id}` }
        const opened = { ...session, name, role, account, scopes }
        return addCredential(tx, atMs, opened, { accountKey: link.account as number | null, createdBy, by })
      }),

    credentials: ({ kind, id, limit, beforeKey }) =>
      read('listing credentials', async (sql) => {
        const rows = await sql<Row[]>`${withAccount(sql)}
          WHERE ${kind === undefined ? sql`true` : sql`kind = ${kind}`} AND ${id === undefined ? sql`true` : sql`id = ${id}`}
            AND ${beforeKey === null ? sql`true` : sql`credentials.key < ${beforeKey}`}
          ORDER BY credentials.key DESC LIMIT ${limit}`
        return rows.map(toCredential)
      }),

    revokeCredential: ({ id, by }) =>
      write('revoking a credential', async (tx, atMs) => {
        const [row] = await tx<Pick<StoredCredential, 'kind' | 'name'>[]>`
          UPDATE credentials SET revoked_at = ${atMs} WHERE id = ${id} AND revoked_at IS NULL RETURNING kind, name`
        if (row === undefined) return 'not-there'
        const { kind, name } = row
        const entry = { atMs, act: `${CREDENTIAL_ACTS[kind]}.revoke`, target: kind, ids: [id], data: { name } }
        await history.audit(tx, by, entry)
        return 'revoked'
      }),

    async markUsed({ keys }) {
      await write('marking credentials as used', async (tx, atMs) => {
        // A time to come was written before the clock was set back. Who is marked just now need not be marked again.
        await tx`
          WITH unmarked AS (
            SELECT key FROM credentials WHERE key = ANY(${[...keys]}::bigint[]) AND kind <> 'link'
              AND (used_at IS NULL OR used_at <= ${atMs - MARKED_FOR_MS} OR used_at > ${atMs})
            ORDER BY key FOR UPDATE SKIP LOCKED)
          UPDATE credentials SET used_at = ${atMs} FROM unmarked WHERE credentials.key = unmarked.key`
      })
    },

    pruneCredentials: ({ deadForMs, limit }) =>
      write('removing dead credentials', async (tx, nowMs) => {
        const beforeMs = nowMs - deadForMs
        const { count } = await tx`
          WITH dead AS (
            SELECT key FROM credentials
            WHERE expires_at <= ${beforeMs} OR revoked_at <= ${beforeMs} OR (kind = 'link' AND used_at <= ${beforeMs})
              OR account IN (SELECT key FROM accounts WHERE disabled_at <= ${beforeMs})
            ORDER BY key LIMIT ${limit} FOR UPDATE SKIP LOCKED)
          DELETE FROM credentials USING dead WHERE credentials.key = dead.key`
        return count
      }),
  }
}
