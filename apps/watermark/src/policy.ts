import { type PolicyInput, rule, table } from 'redress'
import type { Settings } from './settings.ts'

export const QUEUE = 'watermark'
export const MAIL = 'watermark-mail'
export const WEBHOOK = 'watermark-webhook'

/** The configured channels, by the kind of notice they get. */
export function channelsOf({ mail, webhook }: Settings): { failed: string[]; settled: string[] } {
  const mails = mail === null ? [] : [MAIL]
  return { failed: mails, settled: [...mails, ...(webhook === null ? [] : [WEBHOOK])] }
}

/** The policy of a copy that cannot be made (W4, W14, W15, W39, W40). */
export function markPolicy(settings: Settings): PolicyInput {
  const { retriesMax, retryDelays, attemptMs } = settings
  return {
    ...common(settings),
    retry: retriesMax === 0 ? { max: 1 } : { max: retriesMax + 1, backoff: table(retryDelays), unknown: 'transient' },
    manualRetry: { mode: 'in-place', budget: 'reset' },
    rollup: 'partial',
    // Only the end of a campaign cancels its copies; to close one link, it is revoked.
    cancel: true,
    timeout: { attempt: attemptMs },
    // Each recipient's failure is announced separately, not as "and 17 more".
    notify: { failed: channelsOf(settings).failed, window: 0 },
    // The state of a campaign is read from its jobs, for as long as there is the campaign.
    retention: { complete: null, failed: null, cancelled: null },
  }
}

/** W10, W53: never retried, neither by policy nor by a person. Send the file again instead. */
export function detectPolicy(settings: Settings): PolicyInput {
  return { ...common(settings), retry: { max: 1 }, manualRetry: 'off', timeout: { attempt: settings.attemptMs } }
}

const common = ({ leaseMs, attemptMs, stuckAfterMs }: Settings): PolicyInput => ({
  lease: { ttl: leaseMs },
  // A worker that was killed says nothing about the file (W40); one whose workers die again and again is set aside.
  // A handler that hangs in a live worker is treated the same way (W39). If its time limit is as short, the time
  // limit ends it.
  orphan: {
    ...{ action: 'requeue', budget: 'free', maxReclaims: 5 },
    stuckAfter: stuckAfterMs < attemptMs ? stuckAfterMs : null,
  },
  errors: 'latest',
  reject: 'refuse',
  shutdown: 'requeue',
  deny: 'hide',
  aggregates: true,
})

/** Errors from outside the media code, which names its own failures (W22, W23). */
export const RULES = [
  rule.errno(['ENOSPC', 'EDQUOT', 'STORAGE_FULL'], 'DISK_FULL'),
  rule.errno(['EIO', 'EROFS', 'EACCES', 'EPERM', 'EMFILE', 'EFBIG', 'STORAGE_FAILED'], 'WRITE_FAILED'),
  rule.timeout('TIMEOUT'),
  rule.exit(137, 'OUT_OF_MEMORY'),
  rule.signal('SIGKILL', 'OUT_OF_MEMORY'),
  // Only messages about the source: an encoder without an output folder also prints "Input #0".
  rule.when(
    { subject: 'source', message: /invalid data found when processing input|moov atom not found/i },
    'SOURCE_CORRUPT',
  ),
  rule.when({ subject: 'source', message: /no such file or directory/i }, 'SOURCE_MISSING'),
  rule.exit('nonzero', 'ENCODE_FAILED'),
]
