import type { EventData, EventKind, JobEvent } from '../../../src/core/job/events.ts'
import type { FailureRecord, JobRecord } from '../../../src/core/job/record.ts'
import { policy } from '../../../src/core/policy/policy.ts'

/** A job that was just submitted, but for what the test says. */
export function record(given: Partial<JobRecord> = {}): JobRecord {
  return {
    id: '0190a5a0-0000-7000-8000-000000000001',
    type: 'pdf.convert',
    queue: 'default',
    status: 'queued',
    result: null,
    owner: null,
    priority: 0,
    attempt: 0,
    spent: null,
    progress: 0,
    progressDetail: null,
    createdAtMs: 1_000,
    queuedAtMs: 1_000,
    dueAtMs: null,
    claimedAtMs: null,
    startedAtMs: null,
    finishedAtMs: null,
    lease: null,
    orphanedAtMs: null,
    cancelRequestedAtMs: null,
    retriedFrom: null,
    retriedAs: null,
    retriedAsStatus: null,
    batchId: null,
    latestFailure: null,
    isForwardOnly: false,
    isDeadLettered: false,
    policy: policy(),
    ...given,
  }
}

export function failure(given: Partial<FailureRecord> = {}): FailureRecord {
  return {
    seq: 1,
    attempt: 1,
    atMs: 2_000,
    worker: 'box:1:a',
    from: 'processing',
    to: 'failed',
    phase: 'execution',
    layer: 'worker',
    code: 'GW_5XX',
    fault: 'dependency',
    message: 'Converter service kept failing. Retry later.',
    waiting: 'Converter service is having an issue. We’ll retry shortly.',
    detail: 'Error: 502 Bad Gateway\n    at convert (convert.ts:1:1)',
    context: { httpStatus: 502 },
    causes: [],
    rule: 'HTTP status 5xx',
    fingerprint: '1:f',
    decision: {
      because: 'GW_5XX is transient; failure 3 of 3; no attempt is left',
      rule: 'retry.max',
      budget: { name: 'retry.max', before: 2, after: 3, max: 3 },
    },
    ...given,
  }
}

/** A history, one event after the other: kind, time, attempt, what else it says. */
export type EventTuple = [kind: EventKind, atMs: number, attempt: number, data?: EventData, durationMs?: number]

export const history = (...events: EventTuple[]): JobEvent[] =>
  events.map(([kind, atMs, attempt, data = {}, durationMs], i) => ({
    seq: i + 1,
    jobId: '0190a5a0-0000-7000-8000-000000000001',
    atMs,
    kind,
    attempt,
    worker: attempt === 0 ? null : 'box:1:a',
    durationMs: durationMs ?? null,
    data,
  }))
