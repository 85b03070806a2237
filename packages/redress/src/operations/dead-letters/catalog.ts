import type { CatalogEntry } from '../catalog.ts'

export const DEAD_LETTERS = {
  'dead-letters.list': {
    cli: 'dead-letters list',
    http: 'GET /api/dead-letters',
    role: 'viewer',
    mutates: false,
    summary: 'List dead letters by offset, oldest first.',
  },
  'dead-letters.show': {
    cli: 'dead-letters show <offset>',
    http: 'GET /api/dead-letters/:offset',
    role: 'viewer',
    mutates: false,
    summary: 'Show one dead letter with its input and its failure.',
  },
  'dead-letters.replay': {
    cli: 'dead-letters replay <offset>',
    http: 'POST /api/dead-letters/:offset/replay',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Create a new job from a dead letter, with the same input or a new one.',
  },
  'dead-letters.replay-matching': {
    cli: 'dead-letters replay-matching',
    http: 'POST /api/dead-letters/replay',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Plan and start a replay of all matching dead letters.',
  },
  'dead-letters.purge': {
    cli: 'dead-letters purge [offset]',
    http: 'POST /api/dead-letters/purge',
    role: 'operator',
    mutates: true,
    needsActor: true,
    needsConfirmation: true,
    summary: 'Purge one dead letter, or all that match. Their jobs stay failed.',
  },
} as const satisfies Record<string, CatalogEntry>
