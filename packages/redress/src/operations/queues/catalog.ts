import type { CatalogEntry } from '../catalog.ts'

export const QUEUES = {
  'queues.list': {
    cli: 'queues list',
    http: 'GET /api/queues',
    role: 'viewer',
    mutates: false,
    summary: 'Show the queues: jobs of each type by status, and pauses with actor and reason.',
  },
  'queues.pause': {
    cli: 'queues pause <name>',
    http: 'POST /api/queues/:name/pause',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Pause a queue, for a time or until it is resumed. Running jobs continue.',
  },
  'queues.resume': {
    cli: 'queues resume <name>',
    http: 'POST /api/queues/:name/resume',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Resume a paused queue.',
  },
} as const satisfies Record<string, CatalogEntry>
