import type { Tx } from '../../scripts/tx/context.ts'
import { awaiting, type Script } from '../../scripts/tx/script.ts'
import { type Dialect, listed, type Part, type Sql as Query, sql, type Value } from '../../scripts/tx/sql.ts'
import type { Tx as Connection, Sql } from './client.ts'
import { lockNames, tryLockName } from './locks.ts'
import { printable } from './values.ts'

const POSTGRES: Dialect = {
  inNumbers: (values) => sql`= ANY(${values}::bigint[])`,
  inTexts: (values) => sql`= ANY(${values}::text[])`,
  table(columns, rows) {
    const names = Object.keys(columns)
    const lists = names.map((name) =>
      sql(
        ['', `::${columns[name]}[]`],
        rows.map((row) => row[name] as string | null),
      ),
    )
    return sql`(SELECT * FROM unnest(${listed(lists)}) WITH ORDINALITY AS one (${sql([names.map((name) => `"${name}"`).join(', ')])}, i))`
  },
  jsonArray: (column) => sql`coalesce(json_agg(${column}), '[]'::json)::text`,
  forUpdate: sql`FOR UPDATE`,
  forShare: sql`FOR SHARE`,
  skipLocked: sql`SKIP LOCKED`,
  greatest: sql`greatest`,
  least: sql`least`,
  bytewise: sql`COLLATE "C"`,
  choose: ({ postgres }) => postgres,
}

/** How many rows of a long answer are fetched at a time. */
const ROWS_PER_LOOK = 100

export interface PgTx extends Tx {
  readonly on: Sql
}

interface PgTxOptions {
  now: (on: Sql) => Promise<number>
  /** The time that a test sets; null to use the database's clock. */
  givenNowMs: () => number | null
  wakeWorkers: (on: Sql) => void
}

/** Text in PostgreSQL cannot hold the character NUL. */
const storable = (value: Value): Value => {
  if (typeof value === 'string') return value.includes('\0') ? printable(value) : value
  return Array.isArray(value) ? value.map((one) => (typeof one === 'string' ? printable(one) : one)) : value
}

/** The scripts' way to a connection: the pool, for reads, or one in a transaction. */
export function openTxOf({ now, givenNowMs, wakeWorkers }: PgTxOptions): (on: Sql) => PgTx {
  const known = new WeakMap<Sql, PgTx>()

  const open = (on: Sql): PgTx => {
    const send = (strings: readonly string[], parts: readonly Part[]) => {
      const whole = sql(strings, ...parts)
      // The client takes a template only with `raw`, and looks into nothing but the texts.
      const template = Object.assign([...whole.strings], { raw: whole.strings }) as unknown as TemplateStringsArray
      return (on as Connection)<object[]>(template, ...(whole.values.map(storable) as string[]))
    }
    return {
      on,
      dialect: POSTGRES,
      *all<R extends object>(strings: TemplateStringsArray, ...parts: readonly Part[]): Script<R[]> {
        return (yield send(strings, parts)) as R[]
      },
      *get<R extends object>(strings: TemplateStringsArray, ...parts: readonly Part[]): Script<R | undefined> {
        const [row] = (yield send(strings, parts)) as R[]
        return row
      },
      *run(strings: TemplateStringsArray, ...parts: readonly Part[]): Script<number> {
        return ((yield send(strings, parts)) as { count: number }).count
      },
      *each<R extends object>(take: (row: R) => boolean, query: Query): Script<void> {
        const read = async (): Promise<void> => {
          for await (const rows of send(query.strings, query.values).cursor(ROWS_PER_LOOK)) {
            for (const row of rows) if (!take(row as R)) return
          }
        }
        yield read()
      },
      *together(...scripts: readonly Script<unknown>[]): Script<never> {
        return (yield Promise.all(scripts.map(awaiting))) as never
      },
      isPaced: false,
      *pause(): Script<void> {},
      *now(): Script<number> {
        return (yield now(on)) as number
      },
      clock: () => sql`coalesce(${givenNowMs()}::bigint, redress_now())`,
      *lock(names: readonly string[]): Script<void> {
        yield lockNames(on as Connection, names)
      },
      *lockRows(table: string, column: string, keys: readonly number[]): Script<void> {
        if (keys.length === 0) return
        const sorted = keys.toSorted((a, b) => a - b)
        yield send(
          [
            'SELECT 1 FROM unnest(',
            `::bigint[]) AS given (key) JOIN ${table} ON ${table}."${column}" = given.key FOR UPDATE OF ${table}`,
          ],
          [sorted],
        )
      },
      *tryLock(name: string): Script<boolean> {
        return (yield tryLockName(on as Connection, name)) as boolean
      },
      wakeWorkers: () => wakeWorkers(on),
    }
  }

  return (on) => {
    const tx = known.get(on) ?? open(on)
    known.set(on, tx)
    return tx
  }
}
