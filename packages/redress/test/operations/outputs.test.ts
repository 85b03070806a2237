import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { fillStore } from '../../../../test/support/stores/full-store.ts'
import { startPostgres, type TestPostgres } from '../../../../test/support/stores/postgres.ts'
import { temporaryFolder } from '../../../../test/support/stores/sqlite.ts'
import { type App, redress } from '../../src/index.ts'
import type { OperationName } from '../../src/operations/catalog.ts'
import { OPERATIONS } from '../../src/operations/table.ts'
import type { Store } from '../../src/store/contract/store.ts'
import { copyStore } from '../../src/store/copy/copy.ts'
import { openPostgresTarget } from '../../src/store/postgres/copying.ts'
import { openPostgres } from '../../src/store/postgres/store.ts'
import { openSqliteSource } from '../../src/store/sqlite/copying.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'

const WHO = { actor: 'ann', reason: 'a test' }
const LATER_MS = Date.UTC(2100, 0, 1)

let server: TestPostgres
beforeAll(async () => {
  server = await startPostgres()
})
afterAll(() => server.stop())

/** What there is in the store to look at and to act on. */
interface Found {
  failed: string[]
  queued: string[]
  done: string
  running: string
  batch: string
  replay: string
  offset: number
  fingerprint: string
}

type Input = Record<string, unknown>

/** What each operation is asked, in this order: first what only looks, then acts, each of them tried without first. */
const ASKED = {
  'jobs.list': () => [{}, { status: 'failed', limit: 1 }, { q: 'ann', since: '1d', until: '1s' }],
  'jobs.count': () => [{}, { status: 'complete' }],
  'jobs.show': ({ failed, queued, running }) => [...failed, ...queued, running].map((id) => ({ id })),
  'jobs.explain': ({ failed, queued, running }) => [...failed, ...queued, running].map((id) => ({ id })),
  'jobs.events': ({ failed, queued, running }) => [...failed, ...queued, running].map((id) => ({ id })),
  'jobs.logs': ({ failed, queued }) => [...failed, ...queued].flatMap((id) => [{ id }, { id, tail: 1, attempt: 1 }]),
  'jobs.failures': ({ failed, queued }) => [...failed, ...queued].map((id) => ({ id })),
  'orphans.list': () => [{}],
  'failures.list': () => [{}],
  'failures.show': ({ fingerprint }) => [{ fingerprint }],
  'dead-letters.list': () => [{}],
  'dead-letters.show': ({ offset }) => [{ offset }],
  'replays.list': () => [{}],
  'replays.show': ({ replay }) => [{ id: replay }],
  'batches.list': () => [{}],
  'batches.show': ({ batch }) => [{ id: batch }],
  'notices.list': () => [{}],
  'notices.deliveries': () => [{}],
  'queues.list': () => [{}],
  'types.list': () => [{}],
  'workers.list': () => [{ all: true }],
  'activity.show': () => [{}, { minutes: 3, type: 'fine' }, { minutes: 1, queue: 'nowhere' }],
  'audit.list': () => [{}],
  'breakers.list': () => [{}],
  'breakers.show': () => [{ name: 'gateway' }],
  'policy.show': () => ['fine', 'letter', 'guarded'].map((type) => ({ type })),
  'policy.preview': () => [{ type: 'letter' }, { type: 'guarded', failures: 'TIMEOUT,crash,unknown,ok', seed: 3 }],
  'schedules.list': () => [{}, { q: 'night', limit: 1 }],
  'schedules.show': () => [{ name: 'nightly' }],
  'accounts.list': () => [{}],
  'tokens.list': () => [{}, { kind: 'link' }],
  'jobs.submit': () => [{ type: 'fine', input: { n: 1 } }],
  'jobs.reschedule': ({ queued: [id] }) => [{ id, delay: '1h' }],
  'jobs.promote': ({ queued: [id] }) => [{ id }],
  'jobs.reprioritise': ({ queued: [id] }) => [{ id, priority: 3 }],
  'jobs.replace-input': ({ queued: [id] }) => [{ id, input: { n: 2 } }],
  'jobs.retry': ({ failed: [id] }) => [{ id }],
  'jobs.cancel': ({ queued: [id] }) => [{ id }],
  'jobs.mark-failed': ({ running }) => [{ id: running }],
  'failures.snooze': ({ fingerprint }) => [{ fingerprint, for: '1h', more: 5 }],
  'failures.resolve': ({ fingerprint }) => [{ fingerprint }],
  'failures.reopen': ({ fingerprint }) => [{ fingerprint }],
  'dead-letters.replay': ({ offset }) => [{ offset, again: true, input: { n: 1 } }],
  'dead-letters.replay-matching': () => [{ type: 'letter', again: true, canary: 1 }],
  'replays.plan': () => [{ code: 'REFUSED', again: true, rate: '1/s' }],
  'replays.start': ({ replay }) => [{ id: replay }],
  'replays.pause': ({ replay }) => [{ id: replay }],
  'replays.resume': ({ replay }) => [{ id: replay }],
  'replays.abort': ({ replay }) => [{ id: replay }],
  'dead-letters.purge': ({ offset }) => [{ offset: offset + 1 }],
  'batches.cancel': ({ batch }) => [{ id: batch }],
  'batches.retry-failed': ({ batch }) => [{ id: batch }],
  'notices.test': () => [{ channel: 'ops' }],
  'queues.pause': () => [{ name: 'post', for: '1h' }],
  'queues.resume': () => [{ name: 'post' }],
  'breakers.open': () => [{ name: 'gateway', for: '1h' }],
  'breakers.close': () => [{ name: 'gateway' }],
  'breakers.release': () => [{ name: 'gateway' }],
  'breakers.probe': () => [{ name: 'gateway' }],
  'schedules.upsert': () => [
    { name: 'soon', job: 'fine', every: '90s', jitter: '5s', count: 3, until: '2999-01-01T00:00:00Z' },
  ],
  'schedules.pause': () => [{ name: 'nightly' }],
  'schedules.resume': () => [{ name: 'nightly' }],
  'schedules.trigger': () => [{ name: 'nightly' }],
  'schedules.remove': () => [{ name: 'nightly' }],
  'accounts.create': () => [{ name: 'ben', email: 'ben@example.com' }],
  'tokens.create': () => [{ name: 'ci', role: 'owner', account: 'ben' }],
  'tokens.revoke': (_, last) => [{ id: last['tokens.create']?.id }],
  'sign-in-links.create': () => [{ role: 'admin' }],
  'accounts.disable': () => [{ name: 'ben' }],
  'jobs.delete': ({ done }) => [{ id: done }],
} satisfies Record<OperationName, (found: Found, last: Partial<Record<OperationName, Input>>) => Input[]>

const drivers: Record<string, (path: string) => Promise<Store>> = {
  SQLite: async (path) => openSqlite({ path, nowMs: Date.now }),
  async PostgreSQL(path) {
    const schema = 'outputs'
    const source = openSqliteSource({ path, nowMs: () => LATER_MS })
    const target = await openPostgresTarget({ url: server.url, schema })
    await copyStore(source, target, { isInUseAllowed: false })
    await Promise.all([source.stop(), target.stop()])
    return openPostgres({ url: server.url, schema })
  },
}

describe.each(Object.entries(drivers))('on %s', (_, open) => {
  test('every operation answers exactly as its schema says', { timeout: 60_000 }, async () => {
    const path = join(temporaryFolder(), 'redress.db')
    await fillStore(path)
    const app = redress({ store: await open(path) })
    onTestFinished(() => app.stop())
    const found = await look(app)
    const last: Partial<Record<OperationName, Input>> = {}
    const names = Object.keys(ASKED) as OperationName[]
    const reading = names.filter((name) => !OPERATIONS[name].mutates)
    const ask = async (name: OperationName, dryRun: boolean) => {
      for (const given of (ASKED[name] as (found: Found, last: object) => Input[])(found, last)) {
        const { input, output } = OPERATIONS[name]
        const more = Object.entries({ ...WHO, dryRun }).filter(([field]) => field in input.shape)
        const asked = { ...given, ...Object.fromEntries(more) }
        const answer = JSON.parse(JSON.stringify(await app.perform(name, asked as never)))
        last[name] = answer
        const read = output.safeParse(answer)
        expect(read.error && z.prettifyError(read.error), name).toBeUndefined()
        // What a schema that is not strict would leave out.
        expect(read.data, name).toEqual(answer)
        if (dryRun) expect(answer, name).toMatchObject({ isDone: false })
      }
    }
    for (const name of reading) await ask(name, false)
    for (const name of names.filter((one) => OPERATIONS[one].mutates)) {
      if (name !== 'tokens.revoke') await ask(name, true)
      await ask(name, false)
    }
    // Once more, with what the acts have left.
    for (const name of reading.filter((one) => one !== 'schedules.show')) await ask(name, false)
  })
})

async function look(app: App): Promise<Found> {
  const idsOf = async (filter: Input) => (await app.perform('jobs.list', filter)).jobs.map(({ id }) => id)
  // A retry in place and one as a new job, of types that differ; what is queued waits for its time.
  const failed = await idsOf({ status: 'failed', limit: 20 })
  const queued = await idsOf({ status: 'queued', type: 'fine', limit: 3 })
  const [done = ''] = await idsOf({ status: 'complete', limit: 1 })
  const [running = ''] = await idsOf({ status: 'processing', type: 'hang' })
  const { replay } = await app.perform('replays.plan', { ...WHO, type: 'letter', again: true })
  const { deadLetters } = await app.perform('dead-letters.list', {})
  const { batches } = await app.perform('batches.list', {})
  const { groups } = await app.perform('failures.list', {})
  return {
    failed,
    queued,
    done,
    running,
    batch: batches[0]?.id ?? '',
    replay: replay?.id ?? '',
    offset: deadLetters[0]?.offset ?? 0,
    fingerprint: groups[0]?.fingerprint ?? '',
  }
}
