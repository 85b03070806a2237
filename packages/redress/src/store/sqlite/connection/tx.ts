import type { StatementSync } from 'node:sqlite'
import type { Tx } from '../../scripts/tx/context.ts'
import { finish, type Script } from '../../scripts/tx/script.ts'
import { type Dialect, NONE, type Part, Sql, sql } from '../../scripts/tx/sql.ts'
import type { Connection } from './connection.ts'

const tables = new Map<string, readonly string[]>()

function tableOf(names: readonly string[]): readonly string[] {
  const list = names.map((name, i) => `value ->> ${i} AS "${name}"`).join(', ')
  const strings = tables.get(list) ?? [`(SELECT ${list}, key + 1 AS i FROM json_each(`, '))']
  tables.set(list, strings)
  return strings
}

const SQLITE: Dialect = {
  inNumbers: (values) => sql`IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
  inTexts: (values) => sql`IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
  table(columns, rows) {
    const names = Object.keys(columns)
    return sql(tableOf(names), JSON.stringify(rows.map((row) => names.map((name) => row[name]))))
  },
  jsonArray: (column) => sql`json_group_array(${column})`,
  forUpdate: NONE,
  forShare: NONE,
  skipLocked: NONE,
  greatest: sql`max`,
  least: sql`min`,
  bytewise: sql`COLLATE BINARY`,
  choose: ({ sqlite }) => sqlite,
}

/** Statements with changing parts have many texts; the ones that are used keep coming back. */
const TEXTS_MAX = 1_000

export interface SqliteTx extends Tx {
  readonly connection: Connection
}

interface SqliteTxOptions {
  nowMs: () => number
  wakeWorkers?: () => void
}

type Bound = string | number | null

/**
 * A script of one statement. It is its own iterator and its own result, because a generator for each statement would cost
 * hot code a tenth of its time.
 */
class Step {
  readonly how: 'all' | 'get' | 'run'
  readonly statement: StatementSync
  readonly values: readonly Bound[]
  readonly done = true
  value: unknown = undefined

  constructor(how: Step['how'], statement: StatementSync, values: readonly Bound[]) {
    this.how = how
    this.statement = statement
    this.values = values
  }

  [Symbol.iterator](): this {
    return this
  }

  next(): this {
    const { how, statement, values } = this
    this.value = how === 'run' ? Number(statement.run(...values).changes) : statement[how](...values)
    return this
  }
}

/** The scripts' way to a connection. Each statement is prepared once. */
export function openTx(connection: Connection, { nowMs, wakeWorkers = () => undefined }: SqliteTxOptions): SqliteTx {
  const byTemplate = new WeakMap<readonly string[], StatementSync>()
  const byText = new Map<string, StatementSync>()

  const prepared = ({ strings, text }: Sql): StatementSync => {
    let statement = byText.get(text)
    if (statement === undefined) {
      statement = connection.prepare(text)
      if (byText.size >= TEXTS_MAX) byText.clear()
      byText.set(text, statement)
    }
    byTemplate.set(strings, statement)
    return statement
  }

  const step = (how: Step['how'], strings: readonly string[], parts: readonly Part[]): Step => {
    for (const part of parts) {
      if (!(part instanceof Sql)) continue
      const whole = sql(strings, ...parts)
      return new Step(how, byTemplate.get(whole.strings) ?? prepared(whole), whole.values as Bound[])
    }
    const known = byTemplate.get(strings)
    return new Step(how, known ?? prepared(new Sql(strings, [])), parts as readonly Bound[])
  }

  return {
    connection,
    dialect: SQLITE,
    all: (strings: TemplateStringsArray, ...parts: readonly Part[]) => step('all', strings, parts) as never,
    get: (strings: TemplateStringsArray, ...parts: readonly Part[]) => step('get', strings, parts) as never,
    run: (strings: TemplateStringsArray, ...parts: readonly Part[]) => step('run', strings, parts) as never,
    // biome-ignore lint/correctness/useYield: SQLite answers at once
    *each<R extends object>(take: (row: R) => boolean, query: Sql): Script<void> {
      for (const row of connection.prepare(query.text).iterate(...(query.values as Bound[]))) {
        if (!take(row as R)) return
      }
    },
    // biome-ignore lint/correctness/useYield: SQLite answers at once
    *together(...scripts: readonly Script<unknown>[]): Script<never> {
      return scripts.map(finish) as never
    },
    isPaced: true,
    *pause(): Script<void> {
      yield
    },
    // biome-ignore lint/correctness/useYield: SQLite answers at once
    *now(): Script<number> {
      return nowMs()
    },
    clock: () => sql`${nowMs()}`,
    *lock(): Script<void> {},
    // biome-ignore lint/correctness/useYield: every transaction that writes is alone
    *tryLock(): Script<boolean> {
      return true
    },
    *lockRows(): Script<void> {},
    wakeWorkers,
  }
}
