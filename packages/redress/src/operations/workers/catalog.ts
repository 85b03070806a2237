import type { CatalogEntry } from '../catalog.ts'

export const WORKERS = {
  'workers.list': {
    cli: 'workers list',
    http: 'GET /api/workers',
    role: 'viewer',
    mutates: false,
    summary: 'List the workers of this store.',
  },
} as const satisfies Record<string, CatalogEntry>
