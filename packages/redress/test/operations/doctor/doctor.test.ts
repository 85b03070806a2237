import { describe, expect, test } from 'vitest'
import { HOUR_MS, MINUTE_MS } from '../../../src/core/text/duration.ts'
import { diagnose } from '../../../src/operations/doctor/doctor.ts'
import type { Finding } from '../../../src/operations/doctor/findings.ts'
import type {
  HorizonHolder,
  JobFacts,
  PartitionFacts,
  PostgresFacts,
  SqliteFacts,
} from '../../../src/store/contract/doctor.ts'

const NOW_MS = Date.UTC(2026, 0, 2)
const ago = (ms: number): number => NOW_MS - ms

const SQLITE: SqliteFacts = {
  kind: 'sqlite',
  sqliteVersion: '3.53.4',
  sqliteVersionMin: '3.51.3',
  isOurs: true,
  version: { found: 2, known: 2 },
  journalMode: 'wal',
  fileBytes: 3_000_000,
  walBytes: 0,
  walPagesPending: 0,
  diskFreeBytes: 50_000_000_000,
  networkFileSystem: null,
  mayWriteFile: true,
  mayWriteFolder: true,
  mayLock: true,
  mode: 0o600,
  damage: [],
}

const POSTGRES: PostgresFacts = {
  kind: 'postgres',
  serverVersion: 180_004,
  isStandby: false,
  settings: { synchronousCommit: 'on', fsync: 'on', fullPageWrites: 'on', autovacuum: 'on' },
  schema: 'redress',
  hasSchema: true,
  version: { found: 1, known: 1 },
  user: 'app',
  rightsMissing: [],
  seesOthers: true,
  holders: [],
  tables: [],
  partitions: { missing: [], filledRests: [], readers: [] },
  connections: { max: 97, used: 10 },
  tls: { mode: 'verify-full', checks: 'authority and name', isEncrypted: true, isLocal: false },
  clockAheadMs: 3,
  notified: { ms: 2 },
}

const JOBS: JobFacts = {
  nowMs: NOW_MS,
  types: [{ type: 'convert', queue: 'default', ready: 0, oldestReadyAtMs: null }],
  workers: [{ id: 'box:1', types: ['convert', 'redress.notify.ops'], seenAtMs: ago(1000), stoppedAtMs: null }],
  orphans: { count: 0, oldestAtMs: null },
  orphaned: [],
  expired: { count: 0, oldestAtMs: null },
  paused: [],
  breakers: [{ name: 'gateway', status: 'closed', reason: '', sinceMs: 0, forcedBy: null }],
  waits: [{ channel: 'ops', notices: 1, oldestAtMs: ago(10) }],
}

const HOLDER: HorizonHolder = {
  kind: 'session',
  name: '77',
  what: 'psql of ann, idle in transaction',
  forMs: 10_000,
  transactions: 4,
  walBytes: 0,
  isActive: false,
}

const onSqlite = (base: Partial<SqliteFacts>) =>
  diagnose({ place: 'x', base: { ...SQLITE, ...base }, jobs: null }).findings
const onPostgres = (base: Partial<PostgresFacts>) =>
  diagnose({ place: 'x', base: { ...POSTGRES, ...base }, jobs: null }).findings
const onJobs = (jobs: Partial<JobFacts>) => diagnose({ place: 'x', base: SQLITE, jobs: { ...JOBS, ...jobs } }).findings

/** What is not well. */
const unwell = (findings: readonly Finding[]): Finding[] => findings.filter(({ level }) => level !== 'ok')
const one = (level: Finding['level'], check: string, says: string, fix: string) => [
  { level, check, says: expect.stringContaining(says), fix: expect.stringContaining(fix) },
]

test('a healthy store has one ok line per check', () => {
  for (const base of [SQLITE, POSTGRES]) {
    const { isWell, findings } = diagnose({ place: 'x', base, jobs: JOBS })
    expect(isWell).toBe(true)
    expect(unwell(findings)).toEqual([])
    expect(findings.length).toBeGreaterThan(10)
  }
})

test('every check has a name, and every problem has a fix', () => {
  const jobs: JobFacts = { ...JOBS, workers: [], orphans: { count: 1, oldestAtMs: 0 } }
  const { isWell, findings } = diagnose({ place: 'x', base: { ...SQLITE, journalMode: 'delete' }, jobs })
  expect(isWell).toBe(false)
  for (const { check, level, fix } of findings) {
    expect(check).not.toBe('')
    expect(fix === null).toBe(level === 'ok')
  }
})

test.each<[string, Partial<SqliteFacts>, ReturnType<typeof one>]>([
  ['an old SQLite', { sqliteVersion: '3.51.2' }, one('wrong', 'SQLite', '3.51.2 can damage', '3.51.3 or newer')],
  ['another program', { isOurs: false }, one('wrong', 'file', 'another program', '--store')],
  ['a newer store', { version: { found: 3, known: 2 } }, one('wrong', 'tables', 'version 3', 'newer Redress')],
  ['an older store', { version: { found: 1, known: 2 } }, one('warning', 'tables', 'version 1', 'redress start')],
  ['no WAL', { journalMode: 'delete' }, one('wrong', 'journal', 'delete, not wal', 'start a worker')],
  ['NFS', { networkFileSystem: 'NFS' }, one('wrong', 'journal', 'on NFS', 'a disk of this machine')],
  ['a file that is read-only', { mayWriteFile: false }, one('wrong', 'rights', 'the file', 'owner')],
  ['a lock file that cannot be read', { mayLock: false }, one('wrong', 'rights', 'lock file', 'remove FILE.lock')],
  ['a folder that is read-only', { mayWriteFolder: false }, one('wrong', 'rights', 'the folder', 'owner')],
  ['a file for everybody', { mode: 0o644 }, one('warning', 'rights', 'mode 0644', 'chmod 600')],
  ['a full disk', { diskFreeBytes: 99_000_000 }, one('wrong', 'disk', '99 MB free', 'make room')],
  ['a disk that fills', { diskFreeBytes: 900_000_000 }, one('warning', 'disk', '900 MB free', 'make room')],
  ['a log that grows', { walBytes: 300_000_000 }, one('warning', 'log', '300 MB', 'lsof')],
  ['damage', { damage: ['row 3 missing from index x'] }, one('wrong', 'integrity', 'row 3 missing', 'backup')],
])('SQLite: %s', (_name, facts, expected) => {
  expect(unwell(onSqlite(facts))).toEqual(expected)
})

test.each([
  ['3.51.3', true],
  ['3.52.0', true],
  ['4.0.0', true],
  ['3.51.2', false],
  ['3.9.9', false],
])('SQLite %s is new enough: %s', (sqliteVersion, isFine) => {
  expect(unwell(onSqlite({ sqliteVersion }))).toHaveLength(isFine ? 0 : 1)
})

const settings = (changed: Partial<PostgresFacts['settings']>) => ({ settings: { ...POSTGRES.settings, ...changed } })

test.each<[string, Partial<PostgresFacts>, ReturnType<typeof one>]>([
  ['an old server', { serverVersion: 130_011 }, one('wrong', 'server', 'PostgreSQL 13.11', '14 or newer')],
  ['a standby', { isStandby: true }, one('wrong', 'server', 'standby', 'primary')],
  [
    'an unsafe commit',
    settings({ synchronousCommit: 'off' }),
    one('wrong', 'durability', 'off for app', 'ALTER ROLE app'),
  ],
  ['fsync', settings({ fsync: 'off' }), one('wrong', 'durability', 'fsync is off', 'fsync = on')],
  ['torn pages', settings({ fullPageWrites: 'off' }), one('warning', 'durability', 'full_page_writes', 'ZFS')],
  ['no schema', { hasSchema: false }, one('warning', 'tables', 'no schema redress', 'redress start')],
  ['rights', { rightsMissing: ['UPDATE on jobs'] }, one('wrong', 'rights', 'app lacks UPDATE on jobs', 'OWNER TO app')],
  ['no autovacuum', settings({ autovacuum: 'off' }), one('wrong', 'vacuum', 'autovacuum is off', 'autovacuum = on')],
  [
    'bloat',
    { tables: [{ table: 'jobs', liveRows: 9000, deadRows: 200_000, vacuumedMsAgo: 2 * HOUR_MS }] },
    one('warning', 'vacuum', '200000 dead rows beside 9000 live ones; vacuumed 2 h ago', 'VACUUM jobs'),
  ],
  ['many connections', { connections: { max: 100, used: 80 } }, one('warning', 'connections', '80 of 100', 'max_conn')],
  ['no connections left', { connections: { max: 100, used: 95 } }, one('wrong', 'connections', '95 of 100', 'pools')],
  ['a clock behind', { clockAheadMs: -90_000 }, one('warning', 'clock', '1 m 30 s behind ours', 'NTP')],
  [
    'a deaf connection',
    { notified: { problem: 'no word came back' } },
    one('warning', 'LISTEN', 'no word', 'PgBouncer'),
  ],
  [
    'encryption without a check of the certificate',
    { tls: { mode: 'require', checks: 'nothing', isEncrypted: true, isLocal: false } },
    one('warning', 'TLS', 'the certificate of the server is not checked', 'sslmode=verify-full'),
  ],
  [
    'a certificate whose name is not checked',
    { tls: { mode: 'verify-ca', checks: 'authority', isEncrypted: true, isLocal: false } },
    one('warning', 'TLS', 'the name in the certificate of the server is not checked', 'sslmode=verify-full'),
  ],
  [
    'tomorrow has no table',
    { partitions: { missing: ['events 2026-11-30'], filledRests: [], readers: [] } },
    one('warning', 'partitions', 'no table for events 2026-11-30', 'start a worker'),
  ],
  [
    'days had no table',
    { partitions: { missing: [], filledRests: ['events_rest'], readers: [] } },
    one('warning', 'partitions', 'events_rest', 'nothing is lost'),
  ],
])('PostgreSQL: %s', (_name, facts, expected) => {
  expect(unwell(onPostgres(facts))).toEqual(expected)
})

test('names that need quotes are quoted in the suggested SQL', () => {
  const [finding] = unwell(onPostgres({ user: 'My App', ...settings({ synchronousCommit: 'off' }) }))
  expect(finding?.fix).toBe(`ALTER ROLE "My App" SET synchronous_commit = 'on'`)
})

describe('sessions that block the daily tables', () => {
  const reader = {
    ...{ pid: 4711, what: 'pg_dump of backup on 10.0.0.7, active', forMs: 5 * MINUTE_MS, table: 'events' },
    query: 'COPY redress.jobs TO stdout',
  }
  const told = (facts: Partial<PartitionFacts>) =>
    onPostgres({ partitions: { missing: [], filledRests: [], readers: [], ...facts } }).filter(
      ({ check }) => check === 'partitions',
    )

  test('a session that has read for minutes is named with its statement and how to end it', () => {
    const [finding, ...others] = told({ readers: [reader] })
    expect(others).toEqual([])
    expect(finding).toMatchObject({ level: 'warning', fix: expect.stringContaining('pg_terminate_backend(4711)') })
    for (const part of ['session 4711', 'pg_dump of backup on 10.0.0.7, active', '5 m', 'COPY redress.jobs'])
      expect(finding?.says).toContain(part)
  })

  test('a session of some seconds is a warning only if a daily table is missing', () => {
    const short = { ...reader, forMs: 2_000 }
    expect(told({ readers: [short] })).toMatchObject([{ level: 'ok' }])
    expect(told({ readers: [{ ...reader, forMs: 5 }] })).toMatchObject([{ level: 'ok', says: /table for today/ }])
    const levels = told({ missing: ['events 2026-11-30'], readers: [{ ...reader, forMs: null }] })
    expect(levels).toMatchObject([{ level: 'warning' }, { level: 'warning', says: expect.stringContaining('4711') }])
  })
})

describe('sessions that keep dead rows', () => {
  test.each<[string, Partial<HorizonHolder>, ReturnType<typeof one>]>([
    ['a session, for a moment', { forMs: 4 * MINUTE_MS }, []],
    ['a session, for minutes', { forMs: 6 * MINUTE_MS }, one('warning', 'horizon', 'session 77 (psql of ann', '(77)')],
    [
      'a session, for hours',
      { forMs: 2 * HOUR_MS },
      one('wrong', 'horizon', 'for 2 h', 'idle_in_transaction_session_'),
    ],
    [
      'a prepared transaction',
      { kind: 'prepared', name: "it's", forMs: 2 * HOUR_MS },
      one('wrong', 'horizon', "the transaction it's", "ROLLBACK PREPARED 'it''s'"),
    ],
    ['a standby that keeps up', { forMs: null, transactions: 900, isActive: true }, []],
    [
      'a slot in use',
      { kind: 'slot', forMs: null, transactions: 2_000_000, isActive: true },
      one('warning', 'horizon', 'in use', 'standby'),
    ],
    [
      'a slot that nobody uses',
      { kind: 'slot', name: 'old', forMs: null, transactions: null, walBytes: 16_000_000 },
      one('warning', 'horizon', 'used by nobody, keeps 16 MB of log', "pg_drop_replication_slot('old')"),
    ],
    [
      'one that fills the disk',
      { kind: 'slot', forMs: null, walBytes: 20e9 },
      one('wrong', 'horizon', '20 GB', 'drop'),
    ],
  ])('%s', (_name, holder, expected) => {
    expect(unwell(onPostgres({ holders: [{ ...HOLDER, ...holder }] }))).toEqual(expected)
  })

  test('a role without pg_read_all_stats is told what it cannot see', () => {
    const said = onPostgres({ seesOthers: false }).filter(({ check }) => check === 'horizon')
    expect(said).toMatchObject([{ level: 'ok', fix: expect.stringContaining('GRANT pg_read_all_stats TO app') }])
  })
})

describe('jobs', () => {
  const ready = (oldestMs: number, type = 'convert') => ({
    types: [{ type, queue: 'default', ready: 3, oldestReadyAtMs: ago(oldestMs) }],
  })

  test.each<[string, Partial<JobFacts>, ReturnType<typeof one>]>([
    [
      'ready for long',
      ready(2 * HOUR_MS),
      one('warning', 'workers', '3 jobs of convert are ready, the oldest for 2 h', 'explain'),
    ],
    ['ready for a while', ready(MINUTE_MS), []],
    [
      'nobody runs it',
      ready(2 * MINUTE_MS, 'other'),
      one('wrong', 'workers', 'no worker at work runs', 'redress worker'),
    ],
    [
      'just submitted, and nobody runs it',
      ready(1000, 'other'),
      one('warning', 'workers', 'no worker', 'redress worker'),
    ],
    [
      'a channel',
      ready(HOUR_MS, 'redress.notify.mail'),
      one('wrong', 'workers', 'no worker', 'declares the channel mail'),
    ],
    [
      'orphans',
      { orphans: { count: 2, oldestAtMs: ago(HOUR_MS) } },
      one('warning', 'orphans', '2 jobs of lost workers wait', 'orphans list'),
    ],
    [
      'leases',
      { expired: { count: 1, oldestAtMs: ago(HOUR_MS) } },
      one('warning', 'leases', 'ran out, the oldest 1 h ago', 'start a worker'),
    ],
    ['leases that just ran out', { expired: { count: 1, oldestAtMs: ago(1000) } }, []],
    [
      'a pause',
      { paused: [{ queue: 'post', by: 'ann', reason: 'the disk', atMs: ago(HOUR_MS), untilMs: NOW_MS }] },
      one(
        'warning',
        'queues',
        'post was paused by ann 1 h ago, until 2026-01-02T00:00:00.000Z: the disk',
        'resume post',
      ),
    ],
    [
      'an open breaker',
      { breakers: [{ name: 'gateway', status: 'half-open', reason: 'too many', sinceMs: ago(5000), forcedBy: null }] },
      one('warning', 'breakers', 'gateway is half-open for 5 s: too many', 'breakers probe gateway'),
    ],
    [
      'a forced breaker',
      { breakers: [{ name: 'gateway', status: 'open', reason: 'moving', sinceMs: ago(5000), forcedBy: 'ann' }] },
      one('warning', 'breakers', 'forced open by ann for 5 s: moving', 'breakers release gateway'),
    ],
    [
      'notices that nobody relays',
      { waits: [{ channel: 'mail', notices: 2, oldestAtMs: ago(HOUR_MS) }] },
      one('warning', 'notices', '2 notices for the channel mail', 'declares the channel mail'),
    ],
  ])('%s', (_name, facts, expected) => {
    expect(unwell(onJobs(facts))).toEqual(expected)
  })

  test('stopped and silent workers do not count as running', () => {
    for (const gone of [{ stoppedAtMs: ago(1) }, { seenAtMs: ago(HOUR_MS) }]) {
      const workers = JOBS.workers.map((worker) => ({ ...worker, ...gone }))
      expect(unwell(onJobs({ workers, ...ready(HOUR_MS), waits: [] }))).toMatchObject([{ level: 'wrong' }])
    }
  })

  test('jobs of a paused queue are not reported as waiting for workers', () => {
    const paused = [{ queue: 'default', by: 'ann', reason: 'x', atMs: 0, untilMs: null }]
    expect(unwell(onJobs({ paused, ...ready(2 * HOUR_MS) })).map(({ check }) => check)).toEqual(['queues'])
  })
})
