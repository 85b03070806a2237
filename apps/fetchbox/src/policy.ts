import { exponential, type PolicyInput, rule } from 'redress'
import type { Settings } from './settings.ts'

export const QUEUE = 'fetchbox'
export const RESOURCE = 'fetchbox.resource'
export const FINALIZE = 'fetchbox.finalize'
export const PURGE = 'fetchbox.purge'
export const RETENTION = 'fetchbox.retention'
/** The name of every fetchbox batch. Batches are listed by it. */
export const BATCH = 'fetchbox'
/** The name of the dead-letter queue in the requirements (F17). */
export const DEAD_LETTER_TOPIC = 'jobs.dlq'

/** A wait up to this long is spent in the stage, with the slot held; a longer one gives the job back to the queue. */
export const WAIT_IN_SLOT_MS = 30_000

const DAY_MS = 86_400_000
/** The record outlives the files, so a late client still sees that they expired. */
const RECORD_KEPT_LONGER_MS = 60 * DAY_MS
const ATTEMPTS_MAX = 3
/** Extra time for storing: a distant object store, a slow disk. */
const UPLOAD_MS_MAX = 600_000

/** The policy of a resource that cannot be fetched or stored (F7 to F14, and column fetchbox of the table). */
export function resourcePolicy(settings: Settings): PolicyInput {
  return {
    ...commonPolicy(settings),
    // The stages count the tries. Another attempt is needed only after a lost worker, or for an origin with a long
    // Retry-After.
    retry: { max: ATTEMPTS_MAX, backoff: exponential('5s', { cap: '5m', jitter: '20%' }), unknown: 'dead-letter' },
    orphan: { action: 'requeue', budget: 'consume' },
    errors: 'latest',
    rollup: 'any-permanent',
    concurrency: settings.concurrency,
    timeout: { attempt: attemptMs(settings) },
  }
}

/** Handlers are code: a throw is set aside at once, and replayed when the code is corrected (F13). */
export function finalizePolicy(settings: Settings): PolicyInput {
  return {
    ...commonPolicy(settings),
    retry: { max: 1, unknown: 'dead-letter' },
    orphan: { action: 'requeue', budget: 'free' },
  }
}

/** Removing is idempotent, so it is retried. If it fails in the end, a person can retry it. */
export function purgePolicy({ keepMs }: Settings): PolicyInput {
  return {
    retry: { max: 5, backoff: exponential('1s', { cap: '1m' }) },
    orphan: 'requeue',
    // A half-finished purge must not stay, and a cancelled one could not be requested again.
    cancel: false,
    manualRetry: 'in-place',
    errors: 'latest',
    deny: 'hide',
    // As long as the jobs that it refers to.
    retention: { complete: recordMs(keepMs), failed: recordMs(keepMs), cancelled: recordMs(keepMs) },
  }
}

const recordMs = (keepMs: number): number => keepMs + RECORD_KEPT_LONGER_MS

function commonPolicy({ keepMs, leaseMs }: Settings): PolicyInput {
  const kept = recordMs(keepMs)
  return {
    deadLetter: 'queue',
    manualRetry: { mode: 'new-job', budget: 'reset' },
    lease: { ttl: leaseMs },
    shutdown: 'requeue',
    reject: 'refuse',
    deny: 'hide',
    aggregates: true,
    retention: { complete: kept, failed: kept, cancelled: kept, deadLetters: kept },
  }
}

/** The stages have their own limits, which name the slow step. This limit covers the rest. */
function attemptMs({ downloadTriesMax, storageTriesMax, timeouts }: Settings): number {
  const download = downloadTriesMax * (timeouts.wholeMs + WAIT_IN_SLOT_MS)
  const upload = storageTriesMax * (UPLOAD_MS_MAX + WAIT_IN_SLOT_MS)
  return Math.min(download + upload, 30 * DAY_MS)
}

/** Errors that no code throws on purpose. Our own errors carry their code. */
export const RULES = [
  rule.name(['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'AssertionError'], 'SYSTEM_PANIC'),
  rule.name(['Error', 'RedressError', 'AggregateError'], 'SYSTEM_UNKNOWN'),
]
