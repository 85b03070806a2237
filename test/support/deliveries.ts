import type { Delivery, DeliveryCode } from '../../packages/redress/src/app/channels.ts'
import { type Notice, noticeOf } from '../../packages/redress/src/core/notice/notice.ts'
import { systemClock } from '../../packages/redress/src/runtime/clock.ts'
import { type AttemptFailOptions, failWith } from '../../packages/redress/src/worker/attempt/attempt.ts'

export function someNotice(parts: object = {}): Notice {
  const job = {
    id: '0190a000-0000-7000-8000-000000000001',
    type: 'pdf.convert',
    owner: 'ann',
    batch: null,
    attempts: 3,
    maxAttempts: 3,
    createdAt: '2026-01-01T00:00:00.000Z',
    retriedFrom: null,
    actions: [{ name: 'retry', why: 'makes a new job; this one stays failed' }],
  }
  const failure = {
    code: 'GW_5XX',
    message: 'Grüße: it broke.',
    fault: 'dependency',
    phase: 'execution',
    fingerprint: '1:f',
  }
  const content = { kind: 'failed', job, failure, ...parts } as never
  return noticeOf({ content, atMs: Date.UTC(2026, 0, 1), earlier: 0, earlierAtMs: null })
}

/** One attempt at a delivery, as the engine would make it. */
export function someDelivery(parts: Partial<Delivery> = {}): Delivery {
  return {
    id: '0190a000-0000-8000-8000-00000000000d',
    attempt: 1,
    signal: new AbortController().signal,
    nowMs: systemClock.nowMs(),
    only: null,
    fail: (code: DeliveryCode, options?: AttemptFailOptions): never => {
      throw failWith(code, options)
    },
    ...parts,
  }
}
