import type { CatalogEntry } from '../catalog.ts'

export const BREAKERS = {
  'breakers.list': {
    cli: 'breakers list',
    http: 'GET /api/breakers',
    role: 'viewer',
    mutates: false,
    summary: 'Show the circuit breakers: how they stand, why, and what they hold.',
  },
  'breakers.show': {
    cli: 'breakers show <name>',
    http: 'GET /api/breakers/:name',
    role: 'viewer',
    mutates: false,
    summary: 'Show one breaker with its thresholds, its newest calls and its history.',
  },
  'breakers.open': {
    cli: 'breakers open <name>',
    http: 'POST /api/breakers/:name/open',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Force a breaker open, so that its dependency is not called.',
  },
  'breakers.close': {
    cli: 'breakers close <name>',
    http: 'POST /api/breakers/:name/close',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Force a breaker closed, so that its dependency is called whatever the counts say.',
  },
  'breakers.release': {
    cli: 'breakers release <name>',
    http: 'POST /api/breakers/:name/release',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'End what was forced, so that the counts decide again.',
  },
  'breakers.probe': {
    cli: 'breakers probe <name>',
    http: 'POST /api/breakers/:name/probe',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Have a dependency tried now instead of after the cooldown.',
  },
} as const satisfies Record<string, CatalogEntry>
