import { openPool, type Pool } from './client.ts'
import { isBrokenOff, isNothingDone, isReadOnly, NotReplicated } from './errors.ts'
import { type Hosts, openHosts } from './hosts.ts'
import { trying } from './trying.ts'

const ALL_HEARD_OF_MS = 20

export interface PrimaryOptions {
  url: string
  schema: string
  connectionsMax: number
}

/** A pool that stays with the primary: it leaves connections that broke off, and servers that take no writes any more. */
export interface PrimaryPool {
  sql: Pool
  hosts: Hosts
  /** Runs statements. A commit that did not wait for its standby is not acknowledged: whose commit it was is not told. */
  acknowledged<T>(run: () => Promise<T>): Promise<T>
  /** Nothing is connected any more after this. */
  leave(): void
}

export function openPrimaryPool({ url, schema, connectionsMax }: PrimaryOptions): PrimaryPool {
  const hosts = openHosts(url)
  let notReplicated = 0
  let isLeft = false
  const sql = openPool({ url, schema, connectionsMax, hosts, onNotReplicated: () => notReplicated++ })

  /** A server that goes takes all connections with it, and the client hears of one after the other. */
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
        // The address may lead elsewhere by now, but a connection that is there stays where it is.
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

export type SideValue = string | number | null

export interface SideAnswer {
  rows: object[]
  /** How many rows were changed or given. */
  count: number
}

/** One statement; places are `$1`. Whole numbers are numbers. */
export type Ask = (sql: string, params?: readonly SideValue[]) => Promise<SideAnswer>

/** Rows of somebody's own in the database of a store. */
export interface SideRows {
  ask: Ask
  /** All of it or nothing. It may be run again, where another transaction was in its way. */
  transaction<T>(work: (ask: Ask) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** Shorter than that of the store: somebody waits for a page. */
const PATIENCE_MS = 5_000
const CONNECTIONS_MAX = 4
const ENDING_S_MAX = 1

/**
 * A small pool beside that of a store, with the same care: it finds the primary among several hosts, goes over to the one
 * that was promoted, gives up a server that does not answer, and never repeats what may have been committed.
 */
export function openSideRows({ url, schema }: Pick<PrimaryOptions, 'url' | 'schema'>): SideRows {
  const { sql, hosts, acknowledged, leave } = openPrimaryPool({ url, schema, connectionsMax: CONNECTIONS_MAX })
  hosts.watch()
  const doing = 'reading or writing rows of an app'
  const asking =
    (on: Pick<Pool, 'unsafe'>): Ask =>
    async (text, params = []) => {
      const answered = await on.unsafe<object[]>(text, [...params], { prepare: params.length > 0 })
      return { rows: [...answered], count: answered.count }
    }
  return {
    ask: (text, params) =>
      trying(doing, () => acknowledged(() => asking(sql)(text, params)), isNothingDone, {
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
      return trying(doing, once, () => !isCommitting, { patienceMs: PATIENCE_MS })
    },
    async close() {
      leave()
      await sql.end({ timeout: ENDING_S_MAX })
    },
  }
}
