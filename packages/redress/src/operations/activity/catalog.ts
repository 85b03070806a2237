import type { CatalogEntry } from '../catalog.ts'

export const ACTIVITY = {
  'activity.show': {
    cli: 'activity',
    http: 'GET /api/activity',
    role: 'viewer',
    mutates: false,
    summary: 'Show per minute how jobs ended, the faults of failures, and how long jobs waited.',
  },
} as const satisfies Record<string, CatalogEntry>
