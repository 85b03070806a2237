import { openRaw } from '../../../../test/support/stores/sqlite.ts'
import { COPIED_TABLES } from '../../src/store/contract/copying.ts'

/** Looking leaves these marks: that a token was shown, and that a process lives. */
const MARKS = new Set(['credentials.used_at', 'workers.seen_at'])

/** All that is in a store, table by table, as another program reads it. */
export function dumpOf(file: string): Record<string, unknown[]> {
  const database = openRaw(file)
  const dump = COPIED_TABLES.map(({ name }) => {
    const rows = database.prepare(`SELECT * FROM ${name} ORDER BY 1, 2`).all()
    const kept = rows.map((row) =>
      Object.fromEntries(Object.entries(row).filter(([column]) => !MARKS.has(`${name}.${column}`))),
    )
    return [name, kept]
  })
  database.close()
  return Object.fromEntries(dump)
}
