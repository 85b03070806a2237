import type { CatalogEntry } from '../catalog.ts'

export const SCHEDULES = {
  'schedules.list': {
    cli: 'schedules list',
    http: 'GET /api/schedules',
    role: 'viewer',
    mutates: false,
    summary: 'List schedules with their next and last runs, by name.',
  },
  'schedules.show': {
    cli: 'schedules show <name>',
    http: 'GET /api/schedules/:name',
    role: 'viewer',
    mutates: false,
    summary: 'Show one schedule.',
  },
  'schedules.upsert': {
    cli: 'schedules upsert <name>',
    http: 'PUT /api/schedules/:name',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Store a schedule at runtime, or change the one of this name.',
  },
  'schedules.pause': {
    cli: 'schedules pause <name>',
    http: 'POST /api/schedules/:name/pause',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Pause a schedule until it is resumed.',
  },
  'schedules.resume': {
    cli: 'schedules resume <name>',
    http: 'POST /api/schedules/:name/resume',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Resume a paused schedule from its next tick.',
  },
  'schedules.trigger': {
    cli: 'schedules trigger <name>',
    http: 'POST /api/schedules/:name/trigger',
    role: 'operator',
    mutates: true,
    needsActor: true,
    summary: 'Run a schedule now, in addition to its ticks.',
  },
  'schedules.remove': {
    cli: 'schedules remove <name>',
    http: 'POST /api/schedules/:name/remove',
    role: 'operator',
    mutates: true,
    needsActor: true,
    needsConfirmation: true,
    summary: 'Remove a runtime schedule, or one that no program declares any more.',
  },
} as const satisfies Record<string, CatalogEntry>
