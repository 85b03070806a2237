import type { CatalogEntry } from '../catalog.ts'

export const FAILURES = {
  'failures.list': {
    cli: 'failures list',
    http: 'GET /api/failures',
    role: 'viewer',
    mutates: false,
    summary: 'List failures grouped by their cause, the newest first.',
  },
  'failures.show': {
    cli: 'failures show <fingerprint>',
    http: 'GET /api/failures/:fingerprint',
    role: 'viewer',
    mutates: false,
    summary: 'Show one group of failures: a sample, its top values, its newest jobs, its last day.',
  },
  'failures.resolve': {
    cli: 'failures resolve <fingerprint>',
    http: 'POST /api/failures/:fingerprint/resolve',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Say that the cause of a group of failures is mended; a new one makes it regressed.',
  },
  'failures.snooze': {
    cli: 'failures snooze <fingerprint>',
    http: 'POST /api/failures/:fingerprint/snooze',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Put a group of failures aside for a time, or until so many more have failed.',
  },
  'failures.reopen': {
    cli: 'failures reopen <fingerprint>',
    http: 'POST /api/failures/:fingerprint/reopen',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Put a group of failures back among the open ones.',
  },
} as const satisfies Record<string, CatalogEntry>
