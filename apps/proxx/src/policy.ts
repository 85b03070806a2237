import type { PolicyInput } from 'redress'
import type { Settings } from './settings.ts'

export const TYPE = 'proxx.transcode'
export const QUEUE = 'proxx'
export const MAIL = 'proxx-mail'
export const WEBHOOK = 'proxx-webhook'

/** Clips have their own limits; this one covers the rest. It is fixed, because the policy is locked. */
const ATTEMPT_MAX = '7d'

/** The part of the policy that settings change: how soon a silent worker is noticed, and who gets notices. */
export interface Alarm {
  leaseMs: number
  told: readonly string[]
}

export const alarmOf = ({ leaseMs, mail, webhook }: Settings): Alarm => ({
  leaseMs,
  told: [...(mail === null ? [] : [MAIL]), ...(webhook === null ? [] : [WEBHOOK])],
})

/** P38-P44, P51, P52, P55, P60, P64-P68: locked, so that no later declaration can weaken it. */
export function transcodePolicy({ leaseMs, told }: Alarm): PolicyInput {
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
    lease: { ttl: leaseMs, startTimeout: '1m' },
    timeout: { attempt: ATTEMPT_MAX },
    // One job at a time in one output directory: the next waits, instead of finding the lock taken.
    concurrency: { perKey: 1 },
    // Each failure is announced separately.
    notify: { failed: [...told], orphaned: [...told], window: 0 },
    retention: { complete: null, failed: null },
  }
}
