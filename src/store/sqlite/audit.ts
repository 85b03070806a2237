import type { AuditParams, AuditStore, StoredAct } from '../audit.ts'
import { type Row, toAct } from '../rows.ts'
import type { Connection } from './connection.ts'
import type { SqliteContext } from './context.ts'

const ACTS_PER_STEP = 5_000

export function openAudit({ readInSteps }: SqliteContext): AuditStore {
  function* list(on: Connection, { filter, beforeSeq, limit }: AuditParams): Generator<undefined, StoredAct[]> {
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
    const stepEnd = on.prepare(`
      SELECT seq FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ${ACTS_PER_STEP - 1}`)
    const page = on.prepare(`
      SELECT * FROM audit WHERE seq < ? AND seq >= ? ${where.map((one) => `AND ${one}`).join(' ')}
      ORDER BY seq DESC LIMIT ?`)
    const found: StoredAct[] = []
    for (let before = beforeSeq ?? Number.MAX_SAFE_INTEGER; ; ) {
      const end = (stepEnd.get(before) as { seq: number } | undefined)?.seq
      found.push(...(page.all(before, end ?? 0, ...values, limit - found.length) as Row[]).map(toAct))
      if (end === undefined || found.length >= limit) return found
      before = end
      yield
    }
  }

  return { auditTrail: (params) => readInSteps('reading the audit trail', (on) => list(on, params)) }
}

const thrice = (value: string): [string, string, string] => [value, value, value]
