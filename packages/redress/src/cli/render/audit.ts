import type { AuditView } from '../../operations/audit/audit.ts'
import type { OutputOf } from '../../operations/table.ts'
import { type Column, columns } from '../terminal/columns.ts'
import type { Renderers, Rendering } from './rendering.ts'

const IDS_SHOWN = 2

function audit({ entries, nextCursor }: OutputOf<'audit.list'>, { terminal, hint }: Rendering): string {
  const shape: Column<AuditView>[] = [
    { title: 'AT', of: (entry) => entry.at },
    { title: 'WHO', of: (entry) => entry.actor, charsMin: 8 },
    { title: 'DID', of: (entry) => entry.act },
    { title: 'TO', of: idsOf, charsMin: 16 },
    { title: 'WHY', of: (entry) => entry.reason, charsMin: 12 },
  ]
  if (nextCursor !== null) hint(`More: add --cursor ${nextCursor}`)
  return columns(entries, shape, terminal)
}

function idsOf({ target, ids }: AuditView): string {
  const more = ids.length > IDS_SHOWN ? ` and ${ids.length - IDS_SHOWN} more` : ''
  return `${target} ${ids.slice(0, IDS_SHOWN).join(', ')}${more}`
}

export const auditRenderers = {
  'audit.list': audit,
} satisfies Partial<Renderers>
