import { openPool, type Pool } from './client.ts'
import { isBrokenOff, isNothingDone, isReadOnly, NotReplicated } from './errors.ts'
import { type Hosts, openHosts } from './hosts.ts'
import { retrying } from './retrying.ts'

const ALL_HEARD_OF_MS = 20

export interface PrimaryOptions {
  url: string
  schema: string
  connectionsMax: number
}

/** A pool that stays with the primary: it drops broken connections and servers that became read-only. */
export interface PrimaryPool {
  sql: Pool
  hosts: Hosts
  /** Runs statements. A commit that did not wait for its standby is not acknowledged. */
  acknowledged<T>(run: () => Promise<T>): Promise<T>
  /** Stops following the primary; no new connections are made after this. */
  leave(): void
}

export function openPrimaryPool({ url, schema, connectionsMax }: PrimaryOptions): PrimaryPool {
  const hosts = openHosts(url)
  let notReplicated = 0
  let isLeft = false
  const sql = openPool({ url, schema, connectionsMax, hosts, onNotReplicated: () => notReplicated++ })

  /** A server that goes down takes all connections with it, and the client reports them one by one. */
  const anew = async (generation: number): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, ALL_HEARD_OF_MS))
    if (!isLeft) sql.renew(generation)
  }

  return {
    sql,
    hosts,
    async acknowledged(run) {
      const before = notReplicated
      const { generation } = sql
      try {
        const answer = await run()
        if (notReplicated !== before) throw new NotReplicated()
        return answer
      } catch (error) {
        if (isBrokenOff(error)) await anew(generation)
        // The address may resolve to another server by now, but an open connection stays with the old one.
        if (isReadOnly(error)) hosts.leave()
        throw error
      }
    },
    leave() {
      isLeft = true
      hosts.stop()
    },
  }
}

/** A parameter of such a statement. */
export type PostgresValue = string | number | null

/** The answer to a statement of an app on its own tables. */
export interface PostgresAnswer {
  rows: object[]
  /** The number of rows changed or returned. */
  count: number
}

/** One statement with placeholders `$1`. Integers are numbers. */
export type PostgresQuery = (sql: string, params?: readonly PostgresValue[]) => Promise<PostgresAnswer>

/** An app's own rows in the database of a store. */
export interface PostgresRows {
  ask: PostgresQuery
  /** One transaction. It may run again after a conflict with another transaction. */
  transaction<T>(work: (ask: PostgresQuery) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Shorter than the store's timeout, because a visitor waits for a page. */
const PATIENCE_MS = 5_000
const CONNECTIONS_MAX = 4
const ENDING_S_MAX = 1

/**
 * A small pool beside the store's pool, with the same guarantees. It finds the primary among several hosts, follows a
 * failover, drops a server that does not answer, and never repeats a statement that may have been committed.
 */
export function openPostgresRows({ url, schema }: Pick<PrimaryOptions, 'url' | 'schema'>): PostgresRows {
  const { sql, hosts, acknowledged, leave } = openPrimaryPool({ url, schema, connectionsMax: CONNECTIONS_MAX })
  hosts.watch()
  const doing = 'reading or writing rows of an app'
  const asking =
    (on: Pick<Pool, 'unsafe'>): PostgresQuery =>
    async (text, params = []) => {
      const answered = await on.unsafe<object[]>(text, [...params], { prepare: params.length > 0 })
      return { rows: [...answered], count: answered.count }
    }
  return {
    ask: (text, params) =>
      retrying(doing, () => acknowledged(() => asking(sql)(text, params)), isNothingDone, {
        patienceMs: PATIENCE_MS,
        mayRepeat: /^\s*SELECT\b/i.test(text),
      }),
    transaction(work) {
      let isCommitting = false
      const once = () =>
        acknowledged(() =>
          sql.transaction(async (tx) => {
            isCommitting = false
            const result = await work(asking(tx))
            isCommitting = true
            return result
          }),
        )
      return retrying(doing, once, () => !isCommitting, { patienceMs: PATIENCE_MS })
    },
    async close() {
      leave()
      await sql.end({ timeout: ENDING_S_MAX })
    },
  }
}
