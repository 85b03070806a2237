import type { PolicyInput } from 'redress'
import type { Settings } from './settings.ts'

export const TYPE = 'proxx.transcode'
export const QUEUE = 'proxx'
export const MAIL = 'proxx-mail'
export const WEBHOOK = 'proxx-webhook'

/** Clips have limits of their own; this one is for what nobody thought of. It cannot be set: a lock holds it. */
const ATTEMPT_MAX = '7d'

/** P38-P44, P51, P52, P55, P60, P64-P68: locked, so that no later declaration can weaken it. */
export function transcodePolicy(settings: Settings): PolicyInput {
  const told = [...(settings.mail === null ? [] : [MAIL]), ...(settings.webhook === null ? [] : [WEBHOOK])]
  return {
    locked: true,
    forwardOnly: true,
    cancel: false,
    retry: { max: 1, unknown: 'never' },
    manualRetry: 'new-job',
    orphan: 'report',
    shutdown: 'fail',
    reject: 'record',
    audit: 'write-ahead',
    aggregates: false,
    errors: 'terminal',
    deny: 'forbid',
    rollup: 'all-or-nothing',
    lease: { ttl: settings.leaseMs, startTimeout: '1m' },
    timeout: { attempt: ATTEMPT_MAX },
    // One job at a time in one output directory: the next waits, instead of finding the lock taken.
    concurrency: { perKey: 1 },
    // Each failure on its own.
    notify: { failed: told, orphaned: told, window: 0 },
    retention: { complete: null, failed: null },
  }
}
