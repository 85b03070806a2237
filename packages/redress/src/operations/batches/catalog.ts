import type { CatalogEntry } from '../catalog.ts'

export const BATCHES = {
  'batches.list': {
    cli: 'batches list',
    http: 'GET /api/batches',
    role: 'viewer',
    allowsOwners: true,
    mutates: false,
    summary: 'List batches with their counts, newest first.',
  },
  'batches.show': {
    cli: 'batches show <id>',
    http: 'GET /api/batches/:id',
    role: 'viewer',
    allowsOwners: true,
    mutates: false,
    summary: 'Show one batch with its counts, last error and history.',
  },
  'batches.cancel': {
    cli: 'batches cancel <id>',
    http: 'POST /api/batches/:id/cancel',
    role: 'operator',
    allowsOwners: true,
    mutates: true,
    needsActor: true,
    needsConfirmation: true,
    summary: 'Cancel the queued jobs of a batch, and ask the running ones to stop.',
  },
  'batches.retry-failed': {
    cli: 'batches retry <id>',
    http: 'POST /api/batches/:id/retry',
    role: 'operator',
    allowsOwners: true,
    mutates: true,
    needsActor: true,
    summary: 'Retry every failed job of a batch, as its policy allows.',
  },
} as const satisfies Record<string, CatalogEntry>
