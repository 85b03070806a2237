import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fillStore } from '../../../../../test/support/stores/full-store.ts'
import { type HttpServer, startServer } from '../../../src/http/server.ts'
import { type App, redress as makeApp } from '../../../src/index.ts'
import { CATALOG, type OperationName } from '../../../src/operations/catalog.ts'
import { type Answer, environment, ROOT } from '../command.ts'
import { WarmCommand } from '../warm-command.ts'

/** What stands after the words of each command; done in this order, on two copies of the same store. */
type Tries = { [Name in OperationName]: string[] }

const WHY = ['--reason', 'a test']
const SURE = [...WHY, '--yes']

const tries = (found: Found): Tries => ({
  'jobs.submit': ['fine', '{"n":7}', '--owner', 'ann', '--delay', '1h', '--priority', '2'],
  'jobs.list': ['--status', 'queued', '--limit', '3'],
  'jobs.count': ['--type', 'letter', '--until', '1s', '--retried-from', found.failed],
  'jobs.show': [found.failed],
  'jobs.explain': [found.failed],
  'jobs.events': [found.failed],
  'jobs.failures': [found.failed],
  'jobs.logs': [found.failed],
  'jobs.reschedule': [found.queued, '--delay', '2h', ...WHY],
  'jobs.promote': [found.queued, ...WHY],
  'jobs.reprioritise': [found.queued, '7', ...WHY],
  'jobs.replace-input': [found.queued, '{"n":9}', ...WHY],
  'jobs.delete': [found.failed, '--force', '--dry-run', ...SURE],
  'jobs.retry': [found.failed, ...WHY],
  'jobs.cancel': [found.queued, ...SURE],
  'jobs.mark-failed': [found.hanging, ...SURE],
  'orphans.list': [],
  'failures.list': [],
  'failures.show': [found.fingerprint],
  'failures.resolve': [found.fingerprint, ...WHY],
  'failures.snooze': [found.otherFingerprint, '--more', '5', ...WHY],
  'failures.reopen': [found.fingerprint, ...WHY],
  'dead-letters.list': ['--type', 'letter', '--limit', '1'],
  'dead-letters.show': [found.offset],
  'dead-letters.replay': [found.offset, '--again', '--input', '{"n":8}', ...WHY],
  'dead-letters.replay-matching': ['--all', '--again', '--rate', '5/s', ...WHY],
  'dead-letters.purge': [found.offset, ...SURE],
  'replays.plan': ['--all', '--again', '--canary', '1', ...WHY],
  'replays.start': [found.replay, ...WHY],
  'replays.pause': [found.replay, ...WHY],
  'replays.resume': [found.replay, ...WHY],
  'replays.abort': [found.replay, ...SURE],
  'replays.list': [],
  'replays.show': [found.replay],
  'batches.list': [],
  'batches.show': [found.batch],
  'batches.cancel': [found.batch, ...SURE],
  'batches.retry-failed': [found.batch, ...WHY],
  'notices.list': ['--waiting'],
  'notices.deliveries': [],
  'notices.test': ['ops', ...WHY],
  'queues.list': [],
  'queues.pause': ['default', '--for', '30m', ...WHY],
  'queues.resume': ['default', ...WHY],
  'types.list': [],
  'workers.list': ['--all'],
  'activity.show': ['--minutes', '2'],
  'audit.list': ['--limit', '5'],
  'breakers.list': [],
  'breakers.show': ['gateway'],
  'breakers.open': ['bank', '--for', '5m', ...WHY],
  'breakers.close': ['bank', ...WHY],
  'breakers.release': ['bank', ...WHY],
  'breakers.probe': ['gateway', ...WHY],
  'policy.show': ['letter'],
  'policy.preview': ['letter', '--failures', 'unknown,crash,ok', '--seed', '7'],
  'schedules.list': [],
  'schedules.show': ['nightly'],
  'schedules.upsert': ['report:customer-17', '--job', 'fine', '--cron', '0 3 * * 1', '--input', '{"n":1}', ...WHY],
  'schedules.pause': ['nightly', ...WHY],
  'schedules.resume': ['nightly', ...WHY],
  'schedules.trigger': ['nightly', ...WHY],
  'schedules.remove': ['nightly', ...SURE],
  'accounts.create': ['bob', '--email', 'bob@example.com'],
  'accounts.list': [],
  'accounts.disable': ['bob', ...SURE],
  'tokens.create': ['--name', 'ci', '--role', 'viewer', '--scopes', 'jobs.list,jobs.show'],
  'tokens.list': ['--kind', 'token'],
  'tokens.revoke': [found.token, ...SURE],
  'sign-in-links.create': ['--role', 'viewer'],
})

/** What the store that both were copied from has. */
interface Found {
  failed: string
  queued: string
  hanging: string
  fingerprint: string
  otherFingerprint: string
  offset: string
  replay: string
  batch: string
  token: string
}

const [atServer, atStore] = [new WarmCommand(), new WarmCommand()]
afterAll(() => [atServer, atStore].forEach((command) => void command.stop()))
const asking = (command: WarmCommand) => (args: readonly string[]) =>
  command.do({ args: [...args], cwd: ROOT, env: environment({}) as Record<string, string> })
const [askServer, askStore] = [asking(atServer), asking(atStore)]
const root = mkdtempSync(join(tmpdir(), 'redress-both-doors-'))
let server: HttpServer
let app: App
let found: Found
let known: ReadonlySet<string>
let served: string[]
let direct: string[]

beforeAll(async () => {
  const [original, one, other] = ['original', 'one', 'other'].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ]
  mkdirSync(original)
  await fillStore(join(original, 'redress.db'))
  const first = makeApp({ store: `sqlite:${join(original, 'redress.db')}` })
  // A token of an account stands for a person, as whoever types a command is one.
  await first.perform('accounts.create', { name: 'tess', actor: 'olga' })
  const asked = { name: 'laptop', role: 'admin', account: 'tess', actor: 'olga' } as const
  const { token } = await first.perform('tokens.create', asked)
  found = await look(first)
  await first.stop()
  known = idsIn(join(original, 'redress.db'))
  for (const copy of [one, other]) cpSync(original, copy, { recursive: true })
  const tokenFile = join(original, 'token')
  writeFileSync(tokenFile, `${token}\n`)
  app = makeApp({ store: `sqlite:${join(one, 'redress.db')}` })
  server = await startServer({ app, port: 0 })
  served = ['--server', server.url, '--token-file', tokenFile]
  direct = ['--data', other]
}, 60_000)

afterAll(async () => {
  await server.stop()
  await app.stop()
  rmSync(root, { recursive: true, force: true })
})

test.each(Object.keys(CATALOG) as OperationName[])(
  '%s prints the same, whether a server does it or the store itself',
  async (name) => {
    const words = CATALOG[name].cli.split(' ').filter((word) => /^[a-z]/.test(word))
    const args = [...words, ...tries(found)[name], '--json']
    const [there, here] = await Promise.all([askServer([...args, ...served]), askStore([...args, ...direct])])
    expect(comparable(there)).toEqual(comparable(here))
    expect({ code: here.code, said: here.code === 0 ? '' : here.stderr }).toEqual({ code: 0, said: '' })
  },
  60_000,
)

async function look(first: App): Promise<Found> {
  const one = async (filter: object) => (await first.jobs.list({ limit: 1, ...filter })).jobs[0]?.id ?? ''
  const { groups } = await first.perform('failures.list', {})
  const fingerprintOf = (type: string) => groups.find((group) => group.type === type)?.fingerprint ?? ''
  const { deadLetters } = await first.perform('dead-letters.list', {})
  const { batches } = await first.perform('batches.list', {})
  const { replay } = await first.replays.plan({ type: 'letter', again: true, actor: 'olga', reason: 'a test' })
  const { id: token } = await first.perform('tokens.create', { name: 'old', role: 'viewer', actor: 'olga' })
  return {
    failed: await one({ status: 'failed', type: 'letter' }),
    queued: await one({ status: 'queued', type: 'fine' }),
    hanging: await one({ type: 'hang' }),
    fingerprint: fingerprintOf('letter'),
    otherFingerprint: fingerprintOf('guarded'),
    offset: String(deadLetters[0]?.offset),
    replay: replay?.id ?? '',
    batch: batches[0]?.id ?? '',
    token: token ?? '',
  }
}

const ID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g

function idsIn(path: string): ReadonlySet<string> {
  const database = new DatabaseSync(path, { readOnly: true })
  const ids = ['job_specs', 'batches', 'replays', 'credentials'].flatMap((table) =>
    database
      .prepare(`SELECT id FROM ${table}`)
      .all()
      .map(({ id }) => String(id)),
  )
  database.close()
  return new Set(ids)
}

/** What is made in each store has its own times, ids and secrets. */
function comparable({ code, stdout, stderr }: Answer): Answer {
  const same = (text: string) =>
    text
      .replaceAll(ID, (id) => (known.has(id) ? id : 'NEW-ID'))
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, 'TIME')
      .replaceAll(/("\w+Ms": )\d+/g, '$1MS')
      .replaceAll(/("lastUsedAt": )(null|"TIME")/g, '$1LATELY')
      .replaceAll(/rdr[a-z]?_[\w-]{43}/g, 'SECRET')
  return { code, stdout: same(stdout), stderr: same(stderr) }
}
