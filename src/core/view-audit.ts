import { isoTime } from './iso-time.ts'

/** One act of a person, as every door shows it. */
export interface AuditView {
  seq: number
  at: string
  actor: string
  /** The name of the operation. */
  act: string
  reason: string
  /** The kind of thing it was done to. */
  target: string
  ids: string[]
  data: Record<string, unknown> | null
}

export function viewAct({ atMs, ...act }: Omit<AuditView, 'at'> & { atMs: number }): AuditView {
  const { seq, actor, reason, target, ids, data } = act
  return { seq, at: isoTime(atMs), actor, act: act.act, reason, target, ids, data }
}
