import type { AuditFilter, AuditParams, AuditStore, StoredAct } from '../audit.ts'
import { type Row, toAct } from '../rows.ts'
import type { Pool } from './client.ts'
import type { PgContext } from './context.ts'
import { printable } from './history.ts'

/**
 * The trail is kept for ever, so it may be long, and what is looked for in it may be rare. As for lists of jobs, each walk
 * is ordered by all columns of the index it is meant to use.
 */
export function openAudit({ read }: PgContext): AuditStore {
  const list = async (sql: Pool, { filter, beforeSeq, limit }: AuditParams): Promise<StoredAct[]> => {
    const before = beforeSeq ?? Number.MAX_SAFE_INTEGER
    const acts = filter.act === undefined ? null : await namesLike(sql, printable(filter.act))
    const also = (rest: Rest) => conditions(sql, rest, acts)
    const walk = () => {
      if (filter.id !== undefined) {
        // Found as a whole before they are put in order: one thing has few entries.
        return sql`
          SELECT * FROM (
            SELECT * FROM audit WHERE ids_in(ids) @> ARRAY[${JSON.stringify(filter.id)}] ${also(filter)} OFFSET 0) AS found
          WHERE seq < ${before} ORDER BY seq DESC LIMIT ${limit}`
      }
      if (filter.actor !== undefined) {
        const actor = printable(filter.actor)
        return sql`
          SELECT * FROM audit WHERE (actor, seq) < (${actor}::text, ${before}::bigint) AND actor >= ${actor} ${also({ ...filter, actor: undefined })}
          ORDER BY actor DESC, seq DESC LIMIT ${limit}`
      }
      if (acts !== null) {
        return sql`
          SELECT found.* FROM unnest(${acts}::text[]) AS named (act) CROSS JOIN LATERAL (
            SELECT * FROM audit WHERE (act, seq) < (named.act, ${before}::bigint) AND act >= named.act ${also({ ...filter, act: undefined })}
            ORDER BY act DESC, seq DESC LIMIT ${limit}) AS found
          ORDER BY found.seq DESC LIMIT ${limit}`
      }
      if (filter.target !== undefined) {
        const target = printable(filter.target)
        return sql`
          SELECT * FROM audit WHERE (target, seq) < (${target}::text, ${before}::bigint) AND target >= ${target} ${also({ ...filter, target: undefined })}
          ORDER BY target DESC, seq DESC LIMIT ${limit}`
      }
      return sql`SELECT * FROM audit WHERE seq < ${before} ${also(filter)} ORDER BY seq DESC LIMIT ${limit}`
    }
    return (await walk().execute()).map((row) => toAct(row as Row))
  }

  return { auditTrail: (params) => read('reading the audit trail', (sql) => list(sql, params)) }
}

/** What is asked besides that which leads the walk. */
type Rest = { [Key in keyof AuditFilter]: AuditFilter[Key] | undefined }

function conditions(sql: Pool, { actor, act, target, sinceMs, untilMs }: Rest, acts: string[] | null) {
  return sql`
    ${actor === undefined ? sql`` : sql`AND actor = ${printable(actor)}`}
    ${act === undefined ? sql`` : sql`AND act = ANY(${acts}::text[])`}
    ${target === undefined ? sql`` : sql`AND target = ${printable(target)}`}
    ${sinceMs === undefined ? sql`` : sql`AND at >= ${sinceMs}`}
    ${untilMs === undefined ? sql`` : sql`AND at < ${untilMs}`}`
}

/** The acts that this name stands for. There are few, and the index leads from each to the next. */
async function namesLike(sql: Pool, name: string): Promise<string[]> {
  const rows = await sql<{ act: string }[]>`
    WITH RECURSIVE names AS (
      SELECT min(act) AS act FROM audit
      UNION ALL
      SELECT (SELECT min(audit.act) FROM audit WHERE audit.act > names.act) FROM names WHERE names.act IS NOT NULL)
    SELECT act FROM names WHERE act = ${name} OR starts_with(act, ${`${name}.`})`
  return rows.map(({ act }) => act)
}
