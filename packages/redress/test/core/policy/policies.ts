import { exponential, table } from '../../../src/core/policy/backoff.ts'
import { policy } from '../../../src/core/policy/policy.ts'

/** Policies like those of the four systems, which disagree on most fields (docs/requirements.md names where). */
export const proxx = policy({
  forwardOnly: true,
  locked: true,
  cancel: false,
  reject: 'record',
  shutdown: 'fail',
  audit: 'write-ahead',
  aggregates: false,
  retention: { complete: null },
})

export const watermark = policy({
  retry: { max: 4, backoff: table(['1m', '5m', '15m']), unknown: 'transient' },
  manualRetry: 'in-place',
  orphan: 'requeue',
  errors: 'latest',
})

export const pdfXml = policy({
  retry: { max: 3, perCode: { IO_ERROR: 2 }, backoff: exponential('5s', { jitter: '5s' }), unknown: 'transient' },
  manualRetry: 'in-place',
  orphan: { action: 'requeue', budget: 'consume' },
  deadLetter: 'flag',
  reject: 'record',
})

export const fetchbox = policy({
  retry: { max: 3, backoff: exponential('500ms'), unknown: 'dead-letter' },
  orphan: { action: 'requeue', budget: 'consume' },
  deadLetter: 'queue',
  errors: 'latest',
})
