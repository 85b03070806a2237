import { describe, expect, test } from 'vitest'
import { plainVerdict } from '../../dashboard/src/pages/job/plain-verdict.ts'
import { merge } from '../../dashboard/src/pages/jobs/merge.ts'
import { jobsHref } from '../../dashboard/src/words/links.ts'
import { parse } from '../../dashboard/src/words/qualifiers.ts'
import type { JobView } from '../../src/core/views/job.ts'

const job = (id: string, minute: number, status = 'failed') =>
  ({ id, status, createdAt: `2026-01-31T08:${String(minute).padStart(2, '0')}:00.000Z` }) as JobView

describe('a followed list', () => {
  const shown = [job('c', 3), job('b', 2), job('a', 1)]
  const ids = (jobs: readonly JobView[]) => jobs.map(({ id, status }) => `${id} ${status}`)

  test('keeps its order, updates changed jobs and counts new ones', () => {
    const { rows, newCount, missing } = merge(shown, [job('d', 4), job('c', 3, 'queued'), job('b', 2), job('a', 1)])
    expect([ids(rows), newCount, ids(missing)]).toEqual([['c queued', 'b failed', 'a failed'], 1, []])
  })

  test('keeps jobs that no longer match, and does not count jobs of the next page as new', () => {
    const { rows, newCount, missing } = merge(shown, [job('c', 3), job('a', 1), job('z', 0)])
    expect([ids(rows), newCount, ids(missing)]).toEqual([['c failed', 'b failed', 'a failed'], 0, ['b failed']])
  })

  test('counts every job as new if it was empty', () => {
    expect(merge([], [job('a', 1)])).toMatchObject({ rows: [], newCount: 1 })
  })
})

describe('a verdict', () => {
  const held = [{ by: 'breaker' as const, name: 'gateway', why: 'it is open', until: null }]
  const failure = { code: 'GW_5XX', fault: 'dependency' }

  test('leaves out what badges and links show, and starts with the failure', () => {
    const verdict = ['FAILED.', 'Fault: dependency.', 'GW_5XX: It answered 503.', 'Tried 3 of 3.']
    const explained = { status: 'failed', held: [], verdict }
    expect(plainVerdict(explained as never, failure as never)).toEqual(['GW_5XX: It answered 503.', 'Tried 3 of 3.'])
  })

  test('keeps every sentence that is not shown elsewhere', () => {
    const verdict = ['QUEUED, to be tried again.', 'Held by breaker gateway: it is open.', 'Next attempt in 3 s.']
    const explained = { status: 'queued', held, verdict }
    expect(plainVerdict(explained as never, null)).toEqual(['QUEUED, to be tried again.', 'Next attempt in 3 s.'])
  })
})

test('the filter line reads links to jobs correctly', () => {
  const owner = String.raw`the "boss" \ co`
  const line = new URL(jobsHref({ status: 'failed', owner }), 'http://x').searchParams.get('q') ?? ''
  expect(parse(line)).toEqual({ filter: { status: 'failed', owner }, problems: [] })
})
