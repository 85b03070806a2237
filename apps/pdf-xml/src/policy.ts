import { exponential, type PolicyInput, table } from 'redress'
import type { Settings } from './settings.ts'

export const GATEWAY = 'gateway'
const SEED_TABLE = ['5s', '15s', '45s']

/** The policy of a conversion: the requirements, with the values of the settings. */
export function convertPolicy({ retry, leaseMs, breaker, gateway, visitors }: Settings): PolicyInput {
  return {
    retry: retryPolicy(retry),
    manualRetry: { mode: 'in-place', budget: 'reset' },
    // A lost worker costs an attempt; but where there is only one, it would cost the file.
    orphan: { action: 'requeue', budget: retry.attemptsMax === 1 ? 'free' : 'consume' },
    lease: { ttl: leaseMs },
    // The call has its own limits, which lead to GW_TIMEOUT. This limit covers everything around the call.
    timeout: { attempt: gateway.waitMs + gateway.timeoutMs + STORING_MS },
    deadLetter: 'flag',
    reject: 'record',
    // Only visitors' jobs have a key: their address. So one address cannot occupy every parser.
    concurrency: { perKey: visitors.concurrency },
    shutdown: 'requeue',
    errors: 'terminal',
    deny: 'forbid',
    breaker: {
      guards: GATEWAY,
      mode: breaker.mode,
      windowCalls: breaker.windowCalls,
      window: '2m',
      minCalls: Math.min(10, breaker.windowCalls),
      ratio: breaker.ratio,
      cooldown: breaker.cooldownMs,
      ...(breaker.mode === 'fail-fast' && { code: 'GW_5XX' }),
    },
    // The record outlives the files, so a late visitor still sees that they expired.
    retention: { complete: '90d', failed: '90d', cancelled: '90d' },
  }
}

const STORING_MS = 60_000

function retryPolicy({ attemptsMax, backoff, baseMs, jitterMs }: Settings['retry']): NonNullable<PolicyInput['retry']> {
  // With a single attempt there are no waits and no limits per code.
  if (attemptsMax === 1) return { max: 1 }
  return {
    max: attemptsMax,
    // D8 D40: written once more, and no more.
    perCode: { IO_ERROR: 2 },
    backoff: backoff === 'table' ? table(SEED_TABLE, { jitter: '20%' }) : exponential(baseMs, { jitter: jitterMs }),
    unknown: 'transient',
  }
}
