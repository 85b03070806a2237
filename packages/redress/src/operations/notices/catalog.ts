import type { CatalogEntry } from '../catalog.ts'

export const NOTICES = {
  'notices.list': {
    cli: 'notices list',
    http: 'GET /api/notices',
    role: 'viewer',
    mutates: false,
    summary: 'List notices and their channels, newest first.',
  },
  'notices.deliveries': {
    cli: 'notices deliveries',
    http: 'GET /api/notices/deliveries',
    role: 'viewer',
    mutates: false,
    summary: 'List deliveries of notices with their outcomes, newest first.',
  },
  'notices.test': {
    cli: 'notices test <channel>',
    http: 'POST /api/notices/test/:channel',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Send a test notice through a channel.',
  },
} as const satisfies Record<string, CatalogEntry>
