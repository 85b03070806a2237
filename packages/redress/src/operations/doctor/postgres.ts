import { formatMs, HOUR_MS, MINUTE_MS } from '../../core/text/duration.ts'
import type { HistoryReader, HorizonHolder, PostgresFacts } from '../../store/contract/doctor.ts'
import { type Finding, ok, orFine, warning, wrong } from './findings.ts'
import { inMb, judgeVersion } from './sqlite.ts'

const VERSION_MIN = 14
const HELD_MS_WARN = 5 * MINUTE_MS
const HELD_MS_MAX = HOUR_MS
/** Where the server knows no time: as many as a busy fleet makes in about as long. */
const HELD_TRANSACTIONS_WARN = 1_000_000
const HELD_TRANSACTIONS_MAX = 20_000_000
const SLOT_WAL_BYTES_MAX = 10_000_000_000
/** Redress's own statements are shorter than this. */
const READER_MS_MIN = 1_000
const READER_MS_WARN = MINUTE_MS
const DEAD_ROWS_MIN = 100_000
const CLOCK_MS_MAX = 1000
const CONNECTIONS_SHARE_WARN = 0.75
const CONNECTIONS_SHARE_MAX = 0.9

export function judgePostgres(facts: PostgresFacts): Finding[] {
  return [
    judgeServer(facts),
    judgeTls(facts),
    ...judgeDurability(facts),
    ...judgeSchema(facts),
    judgeRights(facts),
    ...judgeHorizon(facts),
    ...judgeBloat(facts),
    ...judgePartitions(facts),
    judgeConnections(facts),
    judgeClock(facts),
    judgeListening(facts),
  ]
}

function judgeServer({ serverVersion, isStandby }: PostgresFacts): Finding {
  const version = `PostgreSQL ${Math.floor(serverVersion / 10_000)}.${serverVersion % 10_000}`
  if (serverVersion < VERSION_MIN * 10_000) return wrong('server', version, `use PostgreSQL ${VERSION_MIN} or newer`)
  if (isStandby) {
    return wrong('server', `${version}, a standby, which takes no writes`, 'give the address of the primary')
  }
  return ok('server', version)
}

/** Encryption without a checked certificate does not protect against a man in the middle, so the doctor warns. */
function judgeTls({ tls: { mode, checks, isEncrypted, isLocal } }: PostgresFacts): Finding {
  const fix = 'write sslmode=verify-full&sslrootcert=FILE into the address'
  if (!isEncrypted) {
    const finding = ok('TLS', isLocal ? 'not used on this machine' : `not used (sslmode=${mode})`)
    return isLocal ? finding : { ...finding, fix: `for a network that others share, ${fix}` }
  }
  if (checks === 'authority and name') return ok('TLS', 'encrypted; the certificate and its name are checked')
  const says =
    checks === 'authority'
      ? `encrypted (sslmode=${mode}), but the name in the certificate of the server is not checked`
      : `encrypted (sslmode=${mode}), but the certificate of the server is not checked: a man in the middle can read the traffic`
  return isLocal || mode === 'prefer' || mode === 'allow' ? { ...ok('TLS', says), fix } : warning('TLS', says, fix)
}

/** An acknowledged commit must be on disk. */
function judgeDurability({ settings, user }: PostgresFacts): Finding[] {
  const { synchronousCommit, fsync, fullPageWrites } = settings
  const findings: Finding[] = []
  if (synchronousCommit === 'off') {
    const says = `synchronous_commit is off for ${user}: an acknowledged job can be lost when the server crashes`
    findings.push(wrong('durability', says, `ALTER ROLE ${sqlName(user)} SET synchronous_commit = 'on'`))
  }
  if (fsync === 'off') {
    const says = 'fsync is off: a crash of the machine can destroy the whole database'
    findings.push(wrong('durability', says, 'ALTER SYSTEM SET fsync = on, and reload'))
  }
  if (fullPageWrites === 'off') {
    const says = 'full_page_writes is off: a crash can leave half-written pages'
    const fix = 'ALTER SYSTEM SET full_page_writes = on, unless the file system writes pages as a whole (ZFS)'
    findings.push(warning('durability', says, fix))
  }
  const fine = `synchronous_commit is ${synchronousCommit}, fsync and full_page_writes are on`
  return orFine(findings, ok('durability', fine))
}

function judgeSchema({ hasSchema, schema, version }: PostgresFacts): Finding[] {
  if (hasSchema) return judgeVersion(version)
  return [
    warning(
      'tables',
      `there is no schema ${schema} yet`,
      'the first program that opens the store makes it; such as: redress start',
    ),
  ]
}

const RIGHTS_SHOWN_MAX = 5

function judgeRights({ rightsMissing, user, hasSchema, schema }: PostgresFacts): Finding {
  if (rightsMissing.length === 0) return ok('rights', `${user} has all it needs`)
  const more = rightsMissing.length - RIGHTS_SHOWN_MAX
  const shown = rightsMissing.slice(0, RIGHTS_SHOWN_MAX).join(', ') + (more > 0 ? ` and ${more} more` : '')
  const fix = hasSchema
    ? `let ${user} own them: ALTER SCHEMA ${sqlName(schema)} OWNER TO ${sqlName(user)}, and its tables and sequences likewise`
    : `GRANT CREATE ON DATABASE to ${sqlName(user)}, or CREATE SCHEMA ${sqlName(schema)} AUTHORIZATION ${sqlName(user)}`
  return wrong('rights', `${user} lacks ${shown}`, fix)
}

/** An old snapshot keeps dead rows from being removed, and each claim reads over more of them. */
function judgeHorizon({ holders, seesOthers, user }: PostgresFacts): Finding[] {
  const findings = holders.flatMap((holder): Finding[] => {
    const level = levelOf(holder)
    if (level === 'ok') return []
    return [{ check: 'horizon', level, says: holding(holder), fix: endingOf(holder) }]
  })
  if (!seesOthers) {
    const says = `${user} is not shown what sessions of other users hold`
    findings.push({ ...ok('horizon', says), fix: `to see them: GRANT pg_read_all_stats TO ${sqlName(user)}` })
  }
  return orFine(findings, ok('horizon', 'nobody keeps dead rows from being removed'))
}

function levelOf({ kind, forMs, transactions, walBytes, isActive }: HorizonHolder): Finding['level'] {
  const held = transactions ?? 0
  if (kind === 'slot' && !isActive) {
    return walBytes >= SLOT_WAL_BYTES_MAX || held >= HELD_TRANSACTIONS_MAX ? 'wrong' : 'warning'
  }
  if (forMs === null) return held >= HELD_TRANSACTIONS_MAX ? 'wrong' : held >= HELD_TRANSACTIONS_WARN ? 'warning' : 'ok'
  return forMs >= HELD_MS_MAX ? 'wrong' : forMs >= HELD_MS_WARN ? 'warning' : 'ok'
}

function holding({ kind, name, what, forMs, transactions, walBytes, isActive }: HorizonHolder): string {
  const since = [
    ...(forMs === null ? [] : [`for ${formatMs(forMs)}`]),
    ...(transactions === null ? [] : [`over ${transactions} transactions`]),
  ].join(' and ')
  if (kind === 'session') return `session ${name} (${what}) keeps dead rows from being removed ${since}`
  if (kind === 'prepared') return `the transaction ${name}, ${what}, keeps dead rows from being removed ${since}`
  const used = isActive ? 'in use' : 'used by nobody'
  return `the replication slot ${name} (${what}), ${used}, keeps ${inMb(walBytes)} of log${since === '' ? '' : ` and dead rows ${since}`}`
}

function endingOf({ kind, name, isActive }: HorizonHolder): string {
  switch (kind) {
    case 'session': {
      const end = `end it: SELECT pg_terminate_backend(${name})`
      return isActive ? end : `${end}; and set idle_in_transaction_session_timeout for its role`
    }
    case 'prepared':
      return `COMMIT PREPARED or ROLLBACK PREPARED ${sqlText(name)}`
    case 'slot':
      return isActive
        ? 'look at its standby: it is far behind, or reads for long with hot_standby_feedback'
        : `start what uses it, or drop it: SELECT pg_drop_replication_slot(${sqlText(name)})`
  }
}

function judgeBloat({ tables, settings }: PostgresFacts): Finding[] {
  const findings: Finding[] = []
  if (settings.autovacuum === 'off') {
    findings.push(
      wrong(
        'vacuum',
        'autovacuum is off: dead rows pile up and claims become slow',
        'ALTER SYSTEM SET autovacuum = on, and reload',
      ),
    )
  }
  for (const { table, liveRows, deadRows, vacuumedMsAgo } of tables) {
    if (deadRows < DEAD_ROWS_MIN || deadRows < liveRows) continue
    const last = vacuumedMsAgo === null ? 'never vacuumed' : `vacuumed ${formatMs(vacuumedMsAgo)} ago`
    const says = `${table} has ${deadRows} dead rows beside ${liveRows} live ones; ${last}`
    findings.push(warning('vacuum', says, `VACUUM ${table}; and see what the line about the horizon says`))
  }
  const dead = tables.reduce((sum, { deadRows }) => sum + deadRows, 0)
  return orFine(findings, ok('vacuum', `autovacuum is on; ${dead} dead rows in all`))
}

/** Nothing is lost without them; but what lies in the rest is removed row by row, and leaves holes. */
function judgePartitions({ partitions }: PostgresFacts): Finding[] {
  if (partitions === null) return []
  const { missing, filledRests, readers } = partitions
  const findings: Finding[] = []
  if (missing.length > 0) {
    const says = `the history has no table for ${missing.join(', ')}`
    findings.push(
      warning(
        'partitions',
        says,
        'start a worker: it creates them every ten minutes, unless a session named below blocks it',
      ),
    )
  }
  for (const reader of readers) {
    const isLong = reader.forMs !== null && reader.forMs >= READER_MS_WARN
    if (missing.length === 0 && (reader.forMs ?? 0) < READER_MS_MIN) continue
    findings.push({
      ...{ check: 'partitions', level: isLong || missing.length > 0 ? 'warning' : 'ok' },
      ...{ says: reading(reader), fix: `end it if it is not needed: SELECT pg_terminate_backend(${reader.pid})` },
    })
  }
  if (filledRests.length > 0) {
    const says = `${filledRests.join(' and ')} hold history of days that had no table`
    const fix = 'nothing is lost, and it goes with its jobs; keep a worker running, so that tables are made in time'
    findings.push(warning('partitions', says, fix))
  }
  return orFine(findings, ok('partitions', 'the history has a table for today and tomorrow'))
}

function reading({ pid, what, forMs, query, table }: HistoryReader): string {
  const since = forMs === null ? '' : ` for ${formatMs(forMs)}`
  return `session ${pid} (${what}) has a lock on ${table}${since}: until it ends, no daily table can be created or dropped; its statement: ${query}`
}

function judgeConnections({ connections: { max, used } }: PostgresFacts): Finding {
  const says = `${used} of ${max} are in use`
  const fix = 'raise max_connections, or let fewer processes, or smaller pools, use the server'
  if (used >= max * CONNECTIONS_SHARE_MAX) return wrong('connections', says, fix)
  return used >= max * CONNECTIONS_SHARE_WARN ? warning('connections', says, fix) : ok('connections', says)
}

function judgeClock({ clockAheadMs }: PostgresFacts): Finding {
  const apart = formatMs(Math.abs(clockAheadMs))
  if (Math.abs(clockAheadMs) <= CLOCK_MS_MAX) return ok('clock', `the server's and ours are ${apart} apart`)
  const which = clockAheadMs > 0 ? 'ahead of' : 'behind'
  return warning(
    'clock',
    `the server's is ${apart} ${which} ours; only the server's decides, but logs will not fit together`,
    'keep both in time (NTP)',
  )
}

function judgeListening({ notified }: PostgresFacts): Finding {
  if ('ms' in notified) return ok('LISTEN', `a word came back after ${notified.ms} ms`)
  return warning(
    'LISTEN',
    `workers are not told of new jobs and only poll: ${notified.problem}`,
    'connect to PostgreSQL itself: what is behind a pooler such as PgBouncer cannot be heard',
  )
}

const sqlName = (name: string): string => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`)
const sqlText = (text: string): string => `'${text.replaceAll("'", "''")}'`
