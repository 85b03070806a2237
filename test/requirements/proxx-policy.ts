import { policy } from '../../src/core/policy.ts'

export const LEASE_MS = 30_000

/** Proxx, as the table of contradictions settles it. */
export const proxx = policy({
  locked: true,
  forwardOnly: true,
  orphan: 'report',
  shutdown: 'fail',
  cancel: false,
  reject: 'record',
  audit: 'write-ahead',
  aggregates: false,
  manualRetry: 'new-job',
  lease: { ttl: LEASE_MS },
  timeout: { attempt: '1h' },
  retention: { complete: null },
})
