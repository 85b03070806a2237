import { exponential, type PolicyInput, rule } from 'redress'
import type { Settings } from './settings.ts'

export const QUEUE = 'fetchbox'
export const RESOURCE = 'fetchbox.resource'
export const FINALIZE = 'fetchbox.finalize'
export const PURGE = 'fetchbox.purge'
export const RETENTION = 'fetchbox.retention'
/** What every batch of ours is called: by this name they are listed. */
export const BATCH = 'fetchbox'
/** The dead letters, in the words of the requirements (F17). */
export const DEAD_LETTER_TOPIC = 'jobs.dlq'

/** A wait up to this long is spent in the stage, with the slot held; a longer one gives the job back to the queue. */
export const WAIT_IN_SLOT_MS = 30_000

const DAY_MS = 86_400_000
/** The record outlives the files: somebody who comes late is told what became of them. */
const RECORD_KEPT_LONGER_MS = 60 * DAY_MS
const ATTEMPTS_MAX = 3
/** For storing, beside what is sent: an object store far away, a slow disk. */
const UPLOAD_MS_MAX = 600_000

/** What happens to a resource that cannot be fetched or stored (F7 to F14, and column fetchbox of the table). */
export function resourcePolicy(settings: Settings): PolicyInput {
  return {
    ...commonPolicy(settings),
    // Tries are counted by the stages. An attempt of its own is for a lost worker, and for an origin that says "later".
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

/** Removing is safe to repeat, so it is; what could not be removed in the end is a person's to try again. */
export function purgePolicy({ keepMs }: Settings): PolicyInput {
  return {
    retry: { max: 5, backoff: exponential('1s', { cap: '1m' }) },
    orphan: 'requeue',
    // Half removed is no state to be left in, and a cancelled one could not be asked for again.
    cancel: false,
    manualRetry: 'in-place',
    errors: 'latest',
    deny: 'hide',
    // As long as the jobs that it speaks of.
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

/** Each stage ends by its own limits, which say what was too slow; this one is for what they do not see. */
function attemptMs({ downloadTriesMax, storageTriesMax, timeouts }: Settings): number {
  const download = downloadTriesMax * (timeouts.wholeMs + WAIT_IN_SLOT_MS)
  const upload = storageTriesMax * (UPLOAD_MS_MAX + WAIT_IN_SLOT_MS)
  return Math.min(download + upload, 30 * DAY_MS)
}

/** What is thrown by nobody's intention. What our own code throws says its code itself. */
export const RULES = [
  rule.name(['TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'AssertionError'], 'SYSTEM_PANIC'),
  rule.name(['Error', 'RedressError', 'AggregateError'], 'SYSTEM_UNKNOWN'),
]
