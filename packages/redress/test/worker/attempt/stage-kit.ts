import { afterEach, beforeEach } from 'vitest'
import { rule } from '../../../src/core/failure/classify.ts'
import type { StageOptions } from '../../../src/core/failure/stage.ts'
import { failureCodes } from '../../../src/core/failure/taxonomy.ts'
import type { PolicyInput } from '../../../src/core/policy/policy.ts'
import { type TestKit, testKit } from '../../../src/testing/kit.ts'
import type { Attempt } from '../../../src/worker/attempt/attempt.ts'
import type { StageTry } from '../../../src/worker/attempt/stage.ts'

export const codes = failureCodes({
  SLOW: { fault: 'dependency', retry: 'transient', message: 'The mirror is slow.' },
  GONE: { fault: 'caller', retry: 'never', message: 'The file is gone.' },
  BROKEN: { fault: 'code', retry: 'dead-letter', message: 'The file cannot be read.' },
  USED_UP: { fault: 'dependency', retry: 'transient', message: 'No mirror answered.' },
})
export type Code = keyof typeof codes | 'UNKNOWN' | 'TIMEOUT'
export type Run = (attempt: Attempt<Code>) => unknown

export const classify = [
  rule.http({ status: '5xx' }, 'SLOW'),
  rule.http({ status: '4xx' }, 'GONE'),
  rule.errno('ECONNRESET', 'SLOW'),
]

export let kit: TestKit

/** For a test file: a kit of its own for each of its tests. */
export function useKit(): void {
  beforeEach(() => {
    kit = testKit()
  })
  afterEach(() => kit.stop())
}

export function declare(run: Run, policy: PolicyInput = {}): void {
  kit.app.job('fetch', { codes, classify, policy, run: (_: unknown, attempt) => run(attempt as Attempt<Code>) })
}

export async function done(run: Run, policy: PolicyInput = {}) {
  declare(run, policy)
  const { id } = await kit.app.submit('fetch', {})
  await kit.drain()
  return ended(id)
}

export async function ended(id: string) {
  const job = await kit.app.jobs.find(id)
  const failed = (await kit.app.jobs.failures(id)).failures
  const events = (await kit.app.jobs.events(id)).events
  return { id, job, failures: failed, failure: failed.at(-1), last: events.at(-1), events }
}

export const http = (status: number, headers: Record<string, string> = {}): Error =>
  Object.assign(new Error(`answered ${status}`), { status, response: { status, headers } })

/** Throws each of these in turn, then answers 'ok'. */
export const failing = (...errors: unknown[]) => {
  const left = [...errors]
  return () => {
    if (left.length > 0) throw left.shift()
    return 'ok'
  }
}

export const download = (options: StageOptions<Code>, work: (stage: StageTry<Code>) => unknown): Run => {
  return (attempt) => attempt.stage('download', options, work)
}
