import type { CatalogEntry } from '../catalog.ts'

export const DEAD_LETTERS = {
  'dead-letters.list': {
    cli: 'dead-letters list',
    http: 'GET /api/dead-letters',
    role: 'viewer',
    mutates: false,
    summary: 'List dead letters by offset, the oldest first.',
  },
  'dead-letters.show': {
    cli: 'dead-letters show <offset>',
    http: 'GET /api/dead-letters/:offset',
    role: 'viewer',
    mutates: false,
    summary: 'Show one dead letter with its input and its cause.',
  },
  'dead-letters.replay': {
    cli: 'dead-letters replay <offset>',
    http: 'POST /api/dead-letters/:offset/replay',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Make a new job from a dead letter, with its input or another.',
  },
  'dead-letters.replay-matching': {
    cli: 'dead-letters replay-matching',
    http: 'POST /api/dead-letters/replay',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Plan and start the replay of all dead letters that match.',
  },
  'dead-letters.purge': {
    cli: 'dead-letters purge [offset]',
    http: 'POST /api/dead-letters/purge',
    role: 'operator',
    mutates: true,
    needsActor: true,
    needsConfirmation: true,
    summary: 'Remove a dead letter for good, or all that match; their jobs stay failed.',
  },
} as const satisfies Record<string, CatalogEntry>
