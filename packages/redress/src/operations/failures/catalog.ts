import type { CatalogEntry } from '../catalog.ts'

export const FAILURES = {
  'failures.list': {
    cli: 'failures list',
    http: 'GET /api/failures',
    role: 'viewer',
    mutates: false,
    summary: 'List failures grouped by cause, newest first.',
  },
  'failures.show': {
    cli: 'failures show <fingerprint>',
    http: 'GET /api/failures/:fingerprint',
    role: 'viewer',
    mutates: false,
    summary: 'Show one failure group: a sample, the most frequent values, the newest jobs, the last day.',
  },
  'failures.resolve': {
    cli: 'failures resolve <fingerprint>',
    http: 'POST /api/failures/:fingerprint/resolve',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Mark a failure group as resolved. A new failure makes it regressed.',
  },
  'failures.snooze': {
    cli: 'failures snooze <fingerprint>',
    http: 'POST /api/failures/:fingerprint/snooze',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Snooze a failure group for a time, or until a number of new failures.',
  },
  'failures.reopen': {
    cli: 'failures reopen <fingerprint>',
    http: 'POST /api/failures/:fingerprint/reopen',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Reopen a failure group.',
  },
} as const satisfies Record<string, CatalogEntry>
