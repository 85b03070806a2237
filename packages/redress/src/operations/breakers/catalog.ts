import type { CatalogEntry } from '../catalog.ts'

export const BREAKERS = {
  'breakers.list': {
    cli: 'breakers list',
    http: 'GET /api/breakers',
    role: 'viewer',
    mutates: false,
    summary: 'List the circuit breakers with their states, reasons and held jobs.',
  },
  'breakers.show': {
    cli: 'breakers show <name>',
    http: 'GET /api/breakers/:name',
    role: 'viewer',
    mutates: false,
    summary: 'Show one breaker with its thresholds, newest calls and history.',
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
    summary: 'Force a breaker closed, so that its dependency is called in any case.',
  },
  'breakers.release': {
    cli: 'breakers release <name>',
    http: 'POST /api/breakers/:name/release',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Release a forced breaker, so that call counts decide again.',
  },
  'breakers.probe': {
    cli: 'breakers probe <name>',
    http: 'POST /api/breakers/:name/probe',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Test a dependency now instead of after the cooldown.',
  },
} as const satisfies Record<string, CatalogEntry>
