import { RedressError } from 'redress'
import type { CopiedCount } from 'redress/http'
import { type Driver, driverOf, type Step, type Tables, type Value } from './rows.ts'

const ROWS_PER_STEP = 500

/**
 * Copies the rows of an app to another store, after its jobs; with `to` null it only counts them. Existing rows stay,
 * so copying is idempotent. The first column of each table must be its key.
 */
export async function copyRows(tables: Tables, from: string, to: string | null): Promise<CopiedCount[]> {
  const source = await driverOf(from)()
  try {
    if (!(await hasTables(source, tables))) return []
    const target = to === null ? null : await driverOf(to)()
    try {
      await target?.migrate(tables)
      const counts: CopiedCount[] = []
      for (const table of tables.copyOrder) {
        if (target !== null) await copyTable(table, source, target)
        counts.push({ table, source: await count(table, source), target: target && (await count(table, target)) })
      }
      const short = counts.find(({ source, target }) => target !== null && target !== source)
      if (short === undefined) return counts
      throw new RedressError('STORE_FAILED', `${short.table} has ${short.source} rows, its copy has ${short.target}.`)
    } finally {
      await target?.close()
    }
  } finally {
    await source.close()
  }
}

async function hasTables(source: Driver, { name, versions }: Tables): Promise<boolean> {
  const version = await source.versionOf(name)
  if (version === null || version === versions.length) return version !== null
  throw new RedressError(
    'OPTION_INVALID',
    `The tables of ${name} are of version ${version}, and this program has version ${versions.length}.`,
    { action: `Start the app once on the store that is copied, with this program: that brings its tables up to date.` },
  )
}

const count = async (table: string, driver: Driver): Promise<number> => {
  const [row] = (await driver.ask(`SELECT count(*) AS count FROM ${table}`, [])).rows as { count: number }[]
  return Number(row?.count)
}

async function copyTable(table: string, source: Driver, target: Driver): Promise<void> {
  let after: Value | undefined
  for (;;) {
    const [beyond, params] = after === undefined ? ['', []] : [`WHERE ${await keyOf(table, source)} > $1`, [after]]
    const sql = `SELECT * FROM ${table} ${beyond} ORDER BY 1 LIMIT ${ROWS_PER_STEP}`
    const rows = (await source.ask(sql, params)).rows as Record<string, Value>[]
    if (rows.length > 0) await target.atomically(rows.map((row) => insertion(table, row)))
    if (rows.length < ROWS_PER_STEP) return
    after = Object.values(rows.at(-1) ?? {})[0]
  }
}

async function keyOf(table: string, source: Driver): Promise<string> {
  const [row] = (await source.ask(`SELECT * FROM ${table} LIMIT 1`, [])).rows
  return Object.keys(row ?? {})[0] ?? ''
}

function insertion(table: string, row: Record<string, Value>): Step {
  const columns = Object.keys(row)
  const places = columns.map((_, i) => `$${i + 1}`)
  const sql = `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${places.join(', ')}) ON CONFLICT DO NOTHING`
  return { sql, params: Object.values(row) }
}
