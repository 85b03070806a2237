import type { CatalogEntry } from '../catalog.ts'

export const TYPES = {
  'types.list': {
    cli: 'types list',
    http: 'GET /api/types',
    role: 'viewer',
    mutates: false,
    summary: 'List the declared job types with a summary of their policies.',
  },
  'policy.show': {
    cli: 'policy show <type>',
    http: 'GET /api/types/:type/policy',
    role: 'viewer',
    mutates: false,
    summary: 'Show the policy of a job type.',
  },
  'policy.preview': {
    cli: 'policy preview <type>',
    http: 'GET /api/types/:type/policy/preview',
    role: 'viewer',
    mutates: false,
    summary: 'Show what the policy of a job type does with a sequence of failures.',
  },
} as const satisfies Record<string, CatalogEntry>
