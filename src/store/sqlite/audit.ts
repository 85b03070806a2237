import type { AuditParams, AuditStore, StoredAct } from '../audit.ts'
import { type Row, toAct } from '../rows.ts'
import type { SqliteContext } from './context.ts'

export function openAudit({ connection, read }: SqliteContext): AuditStore {
  const list = ({ filter, beforeSeq, limit }: AuditParams): StoredAct[] => {
    const where: string[] = []
    const values: (string | number)[] = []
    const and = (sql: string, ...bound: (string | number)[]) => {
      where.push(sql)
      values.push(...bound)
    }
    if (filter.actor !== undefined) and('actor = ?', filter.actor)
    if (filter.act !== undefined) and(`(act = ? OR substr(act, 1, length(?) + 1) = ? || '.')`, ...thrice(filter.act))
    if (filter.target !== undefined) and('target = ?', filter.target)
    // As it stands in the list: within another id its quotes would be escaped, so only the whole id is found.
    if (filter.id !== undefined) and('instr(ids, ?) > 0', JSON.stringify(filter.id))
    if (filter.sinceMs !== undefined) and('at >= ?', filter.sinceMs)
    if (filter.untilMs !== undefined) and('at < ?', filter.untilMs)
    if (beforeSeq !== null) and('seq < ?', beforeSeq)
    const sql = `SELECT * FROM audit ${where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`}
      ORDER BY seq DESC LIMIT ?`
    return (connection.prepare(sql).all(...values, limit) as Row[]).map(toAct)
  }

  return { auditTrail: (params) => read('reading the audit trail', () => list(params)) }
}

const thrice = (value: string): [string, string, string] => [value, value, value]
