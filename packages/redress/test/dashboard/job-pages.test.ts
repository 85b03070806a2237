import { describe, expect, test } from 'vitest'
import { plainVerdict } from '../../dashboard/src/pages/job/plain-verdict.ts'
import { merge } from '../../dashboard/src/pages/jobs/merge.ts'
import { jobsHref } from '../../dashboard/src/words/links.ts'
import { parse } from '../../dashboard/src/words/qualifiers.ts'
import type { JobView } from '../../src/core/views/job.ts'

const job = (id: string, minute: number, status = 'failed') =>
  ({ id, status, createdAt: `2026-01-31T08:${String(minute).padStart(2, '0')}:00.000Z` }) as JobView

describe('a list that is followed', () => {
  const shown = [job('c', 3), job('b', 2), job('a', 1)]
  const ids = (jobs: readonly JobView[]) => jobs.map(({ id, status }) => `${id} ${status}`)

  test('keeps its order, takes over what changed, and counts what is new', () => {
    const { rows, newCount, missing } = merge(shown, [job('d', 4), job('c', 3, 'queued'), job('b', 2), job('a', 1)])
    expect([ids(rows), newCount, ids(missing)]).toEqual([['c queued', 'b failed', 'a failed'], 1, []])
  })

  test('keeps what no longer fits, and does not take what moved up from the next page for news', () => {
    const { rows, newCount, missing } = merge(shown, [job('c', 3), job('a', 1), job('z', 0)])
    expect([ids(rows), newCount, ids(missing)]).toEqual([['c failed', 'b failed', 'a failed'], 0, ['b failed']])
  })

  test('that is empty takes everything for news', () => {
    expect(merge([], [job('a', 1)])).toMatchObject({ rows: [], newCount: 1 })
  })
})

describe('a verdict', () => {
  const held = [{ by: 'breaker' as const, name: 'gateway', why: 'it is open', until: null }]
  const failure = { code: 'GW_5XX', fault: 'dependency' }

  test('leaves to marks and links what they say, and begins with what went wrong', () => {
    const verdict = ['FAILED.', 'Fault: dependency.', 'GW_5XX: It answered 503.', 'Tried 3 of 3.']
    const explained = { status: 'failed', held: [], verdict }
    expect(plainVerdict(explained as never, failure as never)).toEqual(['GW_5XX: It answered 503.', 'Tried 3 of 3.'])
  })

  test('keeps every sentence that is not shown otherwise', () => {
    const verdict = ['QUEUED, to be tried again.', 'Held by breaker gateway: it is open.', 'Next attempt in 3 s.']
    const explained = { status: 'queued', held, verdict }
    expect(plainVerdict(explained as never, null)).toEqual(['QUEUED, to be tried again.', 'Next attempt in 3 s.'])
  })
})

test('a link to jobs is read by the filter line as it was meant', () => {
  const owner = String.raw`the "boss" \ co`
  const line = new URL(jobsHref({ status: 'failed', owner }), 'http://x').searchParams.get('q') ?? ''
  expect(parse(line)).toEqual({ filter: { status: 'failed', owner }, problems: [] })
})
