import type { CatalogEntry } from '../catalog.ts'

export const ACTIVITY = {
  'activity.show': {
    cli: 'activity',
    http: 'GET /api/activity',
    role: 'viewer',
    mutates: false,
    summary: 'Show by the minute how jobs ended, whose fault failures were, and how long jobs waited.',
  },
} as const satisfies Record<string, CatalogEntry>
