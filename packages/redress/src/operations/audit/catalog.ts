import type { CatalogEntry } from '../catalog.ts'

export const AUDIT = {
  'audit.list': {
    cli: 'audit list',
    http: 'GET /api/audit',
    role: 'viewer',
    mutates: false,
    summary: 'Show the audit trail: who did what, why, and to which ids, newest first.',
  },
} as const satisfies Record<string, CatalogEntry>
