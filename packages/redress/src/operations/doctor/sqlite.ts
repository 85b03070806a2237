import type { SqliteFacts, VersionFacts } from '../../store/contract/doctor.ts'
import { type Finding, ok, warning, wrong } from './findings.ts'

const MB = 1_000_000
const DISK_BYTES_MIN = 100 * MB
const DISK_BYTES_FEW = 1000 * MB
/** A store holds the inputs of jobs, so other users must not read it. */
const OF_OTHERS = 0o077
/** It is cut down to 64 MB whenever all of it has been copied into the file. */
const WAL_BYTES_MAX = 256 * MB

export function judgeSqlite(facts: SqliteFacts): Finding[] {
  if (!facts.isOurs) {
    return [
      wrong('file', 'this is the database of another program', 'give the store of Redress with --data or --store'),
    ]
  }
  return [
    judgeLibrary(facts),
    ...judgeVersion(facts.version),
    judgeWal(facts),
    judgeRights(facts),
    judgeDisk(facts),
    judgeLog(facts),
    judgeIntegrity(facts),
  ]
}

function judgeLibrary({ sqliteVersion, sqliteVersionMin }: SqliteFacts): Finding {
  if (!isOlder(sqliteVersion, sqliteVersionMin)) return ok('SQLite', `version ${sqliteVersion}`)
  const says = `version ${sqliteVersion} can damage a file that several processes write to`
  return wrong('SQLite', says, `run on a Node whose SQLite is ${sqliteVersionMin} or newer`)
}

function isOlder(version: string, than: string): boolean {
  const [has, needs] = [version, than].map((text) => text.split('.').map(Number)) as [number[], number[]]
  const i = needs.findIndex((part, place) => (has[place] ?? 0) !== part)
  return i !== -1 && (has[i] ?? 0) < (needs[i] as number)
}

export function judgeVersion({ found, known }: VersionFacts): Finding[] {
  if (found === known) return [ok('tables', `version ${found}`)]
  if (found > known) {
    return [
      wrong('tables', `version ${found}; this Redress knows ${known}`, 'use the newer Redress that wrote this store'),
    ]
  }
  const says = found === 0 ? 'they are not made yet' : `version ${found}; this Redress is of version ${known}`
  return [warning('tables', says, 'the next program that opens the store does it; such as: redress start')]
}

function judgeWal({ journalMode, networkFileSystem }: SqliteFacts): Finding {
  if (networkFileSystem !== null) {
    const says = `the file is on ${networkFileSystem}, where processes of several machines would damage it`
    return wrong('journal', says, 'keep it on a disk of this machine, or use PostgreSQL (redress copy)')
  }
  if (journalMode === 'wal') return ok('journal', 'WAL')
  return wrong(
    'journal',
    `the mode is ${journalMode}, not wal`,
    'start a worker on it, which sets it; if it stays so, use another file system',
  )
}

function judgeRights({ mayWriteFile, mayWriteFolder, mayLock, mode }: SqliteFacts): Finding {
  if (!mayWriteFile) return wrong('rights', 'this user may not write to the file', 'run as its owner, or chown it')
  // The log and its index are made beside it.
  if (!mayWriteFolder) return wrong('rights', 'this user may not write to the folder', 'run as its owner, or chown it')
  if (!mayLock) {
    const says = 'this user may not read the lock file beside the store (FILE.lock), so no program can open the store'
    return wrong('rights', says, 'stop the programs that use the store and remove FILE.lock; the next one makes it')
  }
  if ((mode & OF_OTHERS) !== 0) {
    const says = `other users of this machine can use the file (mode ${mode.toString(8).padStart(4, '0')})`
    return warning('rights', says, 'chmod 600 the file and the files beside it (-wal, -shm)')
  }
  return ok('rights', 'file and folder can be written')
}

function judgeDisk({ diskFreeBytes, fileBytes }: SqliteFacts): Finding {
  const says = `${inMb(diskFreeBytes)} free; the file has ${inMb(fileBytes)}`
  const fix = 'make room, or shorten retention.complete and retention.failed of your types'
  if (diskFreeBytes < DISK_BYTES_MIN) return wrong('disk', says, fix)
  return diskFreeBytes < DISK_BYTES_FEW ? warning('disk', says, fix) : ok('disk', says)
}

function judgeLog({ walBytes, walPagesPending }: SqliteFacts): Finding {
  const pending = walPagesPending === null ? '' : `, ${walPagesPending} pages of it not in the file yet`
  const says = `the log has ${inMb(walBytes)}${pending}`
  if (walBytes < WAL_BYTES_MAX) return ok('log', says)
  return warning(
    'log',
    says,
    'somebody reads without end and keeps it from being emptied: find who has the file open (lsof), and end it',
  )
}

function judgeIntegrity({ damage }: SqliteFacts): Finding {
  if (damage === null) return ok('integrity', 'not looked at; --deep does, and reads the whole file')
  if (damage.length === 0) return ok('integrity', 'SQLite finds no damage')
  return wrong('integrity', damage.join('; '), 'stop all workers, keep a copy of the file, and restore a backup')
}

export const inMb = (bytes: number): string =>
  bytes >= 10_000 * MB ? `${Math.round(bytes / (1000 * MB))} GB` : `${(bytes / MB).toFixed(bytes < 10 * MB ? 1 : 0)} MB`
