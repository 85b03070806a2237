import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openRaw, openWithConnection, temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { Bench } from '../../src/store/conformance/index.ts'

/** What the database itself refuses, whoever writes to it and with whatever statement. */

async function scene() {
  const file = join(temporaryFolder(), 'store.db')
  const { store } = openWithConnection({ path: file })
  const bench = await Bench.set(() => store, 'here')
  const raw = openRaw(file)
  /** Runs a statement on the row of one job. */
  const update = (id: string, assignments: string) =>
    raw.exec(`UPDATE jobs SET ${assignments} WHERE key = (SELECT key FROM job_specs WHERE id = '${id}')`)
  return { bench, raw, update }
}

/** Everything a row needs to look queued, so that only finality itself is in the way. */
const AS_QUEUED = `status = 'queued', ready = 1, due_at = NULL, worker = NULL, lease_until = NULL, claimed_at = NULL,
  started_at = NULL, finished_at = NULL, failure = NULL, result = NULL`
const AS_PROCESSING = `status = 'processing', worker = 1, lease_until = 1, claimed_at = 1, attempt = attempt + 1,
  ready = NULL, due_at = NULL, finished_at = NULL, failure = NULL, result = NULL`
const AS_COMPLETE = `status = 'complete', finished_at = 1, failure = NULL, attempt = attempt + 1`
const AS_FAILED = `status = 'failed', finished_at = 1, failure = 1, result = NULL`
const AS_CANCELLED = `status = 'cancelled', finished_at = 1, failure = NULL, result = NULL`

describe('terminal states', () => {
  const wayBack = { AS_QUEUED, AS_PROCESSING, AS_COMPLETE, AS_FAILED, AS_CANCELLED }
  const bare = Object.fromEntries(
    ['queued', 'processing', 'complete', 'failed', 'cancelled'].map((to) => [`only to ${to}`, `status = '${to}'`]),
  )
  describe.each(['complete', 'failed', 'cancelled'] as const)('a %s job', (status) => {
    test.each(Object.entries({ ...bare, ...wayBack }))(
      'a terminal job cannot be moved %s [P52]',
      async (_, assignments) => {
        const { bench, update } = await scene()
        const id = await bench.finished(status)
        const before = await bench.row(id)
        expect(() => update(id, assignments)).toThrow(/terminal states are final|the_columns_fit_the_status/)
        expect(await bench.row(id)).toEqual(before)
      },
    )
  })

  test('a failed job goes back only as a counted manual retry [P52]', async () => {
    const { bench, update } = await scene()
    const id = await bench.finished('failed')
    expect(() => update(id, `${AS_QUEUED}, spent = '{"failures":1}'`)).toThrow('terminal states are final')
    expect(() => update(id, `${AS_QUEUED}, spent = '{"manualRetries":1}', attempt = 5`)).toThrow('terminal states')
    update(id, `${AS_QUEUED}, spent = '{"manualRetries":1}'`)
    expect((await bench.row(id)).status).toBe('queued')
  })

  test('a failed forward-only job cannot go back [P52]', async () => {
    const { bench, update } = await scene()
    const id = await bench.finished('failed', { type: 'forward' })
    expect(() => update(id, `${AS_QUEUED}, spent = '{"manualRetries":1}'`)).toThrow(
      /terminal states are final|the_columns_fit_the_status/,
    )
  })
})

describe('a forward-only job', () => {
  test('a forward-only job cannot go from processing to queued [P52]', async () => {
    const { bench, update } = await scene()
    const { id } = await bench.processing({ type: 'forward' })
    expect(() => update(id, AS_QUEUED)).toThrow('the_columns_fit_the_status')
    expect(() => update(id, `status = 'queued'`)).toThrow('the_columns_fit_the_status')
  })

  test('a forward-only job cannot be queued with its attempt undone [P52]', async () => {
    const { bench, update } = await scene()
    const { id } = await bench.processing({ type: 'forward' })
    expect(() => update(id, `${AS_QUEUED}, attempt = 0`)).toThrow('attempt numbers only grow')
  })
})

test('attempt numbers never go back, in any state', async () => {
  const { bench, update } = await scene()
  const { id } = await bench.processing()
  for (const attempt of ['attempt - 1', '0', '-1']) expect(() => update(id, `attempt = ${attempt}`)).toThrow()
})

describe('the columns of a job', () => {
  const put = async (bench: Bench, status: string): Promise<string> => {
    if (status === 'queued') return bench.submit()
    if (status === 'processing') return (await bench.processing()).id
    return bench.finished(status as 'complete' | 'failed' | 'cancelled')
  }

  test.each([
    ['queued', 'lease_until = 1'],
    ['queued', 'worker = 1'],
    ['queued', 'claimed_at = 1'],
    ['queued', 'started_at = 1'],
    ['queued', 'finished_at = 1'],
    ['queued', `result = '1'`],
    ['queued', 'failure = 1'],
    ['queued', 'ready = NULL'],
    ['processing', 'lease_until = NULL'],
    ['processing', 'worker = NULL'],
    ['processing', 'claimed_at = NULL'],
    ['processing', 'ready = 1'],
    ['processing', 'due_at = 1'],
    ['processing', `result = '1'`],
    ['processing', 'failure = 1'],
    ['processing', 'finished_at = 1'],
    ['complete', 'lease_until = 1'],
    ['complete', 'worker = 1'],
    ['complete', 'ready = 1'],
    ['complete', 'failure = 1'],
    ['complete', 'finished_at = NULL'],
    ['failed', 'failure = NULL'],
    ['failed', `result = '1'`],
    ['failed', 'lease_until = 1'],
    ['failed', 'finished_at = NULL'],
    ['failed', 'ready = 1'],
    ['cancelled', 'failure = 1'],
    ['cancelled', `result = '1'`],
    ['cancelled', 'lease_until = 1'],
    ['cancelled', 'due_at = 1'],
    ['processing', `status = 'lost'`],
    ['queued', `status = NULL`],
  ])('the database refuses a %s job with %s [D29]', async (status, assignment) => {
    const { bench, update } = await scene()
    const id = await put(bench, status)
    expect(() => update(id, assignment)).toThrow(/constraint failed/)
  })
})

test('two jobs cannot hold one dedupe key, nor have one id', async () => {
  const { bench, raw } = await scene()
  const id = await bench.submit({ dedupe: { key: 'k', scope: 'live' } })
  await bench.submit()
  expect(() => raw.exec(`UPDATE job_specs SET dedupe_key = 'k', dedupe_scope = 'live', dedupe_held = 1`)).toThrow(
    'UNIQUE constraint failed',
  )
  expect(() => raw.exec(`UPDATE job_specs SET id = '${id}'`)).toThrow('UNIQUE constraint failed')
})

test.each([
  `UPDATE audit SET actor = 'somebody else'`,
  `UPDATE audit SET reason = 'another one' WHERE seq = 1`,
  'DELETE FROM audit',
])('the audit trail is neither changed nor shortened: %s', async (sql) => {
  const { bench, raw } = await scene()
  await bench.submit({ by: { actor: 'ann', reason: 'by hand' } })
  const trail = () => bench.store.auditTrail({ filter: {}, beforeSeq: null, limit: 10 })
  const before = await trail()
  expect(() => raw.exec(sql)).toThrow(/the audit trail is (append-only|kept for ever)/)
  expect(await trail()).toEqual(before)
  expect(before).toHaveLength(1)
})
