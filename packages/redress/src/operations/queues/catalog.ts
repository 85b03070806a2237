import type { CatalogEntry } from '../catalog.ts'

export const QUEUES = {
  'queues.list': {
    cli: 'queues list',
    http: 'GET /api/queues',
    role: 'viewer',
    mutates: false,
    summary: 'Count the jobs of each type by status; say which queues are paused, by whom and why.',
  },
  'queues.pause': {
    cli: 'queues pause <name>',
    http: 'POST /api/queues/:name/pause',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Begin nothing more of a queue, until it is resumed or for a time. What runs goes on.',
  },
  'queues.resume': {
    cli: 'queues resume <name>',
    http: 'POST /api/queues/:name/resume',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Let a paused queue go on.',
  },
} as const satisfies Record<string, CatalogEntry>
