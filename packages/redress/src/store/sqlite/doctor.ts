import { accessSync, closeSync, constants, existsSync, openSync, readSync, statfsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { RedressError } from '../../core/errors.ts'
import type { DoctorStore, SqliteFacts } from '../contract/doctor.ts'
import { readJobFacts } from '../scripts/doctor.ts'
import { finish } from '../scripts/tx/script.ts'
import { APPLICATION_ID, pragma, SQLITE_VERSION_MIN } from './connection/connection.ts'
import { storeError } from './connection/errors.ts'
import { lockPath } from './connection/store-lock.ts'
import { openTx } from './connection/tx.ts'
import { COMPANIONS } from './connection/whole-file.ts'
import { MIGRATIONS } from './schema/schema.ts'

/** Network file systems by their Linux number. The WAL index is shared memory, which works on one machine only. */
const NETWORK_FILE_SYSTEMS: Readonly<Record<number, string>> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'CIFS',
  4266872130: 'SMB2',
  12805120: 'Ceph',
  16914839: '9P',
}

const WAIT_MS = 10_000

export function openSqliteDoctor({ path, nowMs }: { path: string; nowMs: () => number }): DoctorStore {
  return {
    async facts({ isDeep }) {
      if (!existsSync(path)) throw new RedressError('STORE_NOT_FOUND', `There is no store at ${path}.`)
      let database: DatabaseSync | undefined
      try {
        const opened = new DatabaseSync(path, { readOnly: true, timeout: WAIT_MS })
        database = opened
        const base = readBase(opened, path, isDeep)
        const isReadable = base.isOurs && base.version.found === base.version.known
        const tx = openTx({ database: opened, prepare: opened.prepare.bind(opened) }, { nowMs })
        return { place: path, base, jobs: isReadable ? finish(readJobFacts(tx, nowMs())) : null }
      } catch (error) {
        throw storeError(error, `looking at ${path}`)
      } finally {
        database?.close()
      }
    },
    stop: async () => undefined,
  }
}

function readBase(database: DatabaseSync, path: string, isDeep: boolean): SqliteFacts {
  const { type, bavail, bsize } = statfsSync(path)
  return {
    kind: 'sqlite',
    sqliteVersion: process.versions.sqlite ?? '0',
    sqliteVersionMin: SQLITE_VERSION_MIN.join('.'),
    isOurs: pragma(database, 'application_id') === APPLICATION_ID,
    version: { found: pragma(database, 'user_version'), known: MIGRATIONS.length },
    journalMode: String(database.prepare('PRAGMA journal_mode').get()?.journal_mode),
    fileBytes: statSync(path).size,
    walBytes: existsSync(`${path}-wal`) ? statSync(`${path}-wal`).size : 0,
    walPagesPending: pagesPending(`${path}-shm`),
    diskFreeBytes: bavail * bsize,
    networkFileSystem: NETWORK_FILE_SYSTEMS[type] ?? null,
    mayWriteFile: mayWrite(path),
    mayWriteFolder: mayWrite(dirname(path)),
    mayLock: mayLock(lockPath(path)),
    mode: ['', ...COMPANIONS].reduce((mode, name) => mode | modeOf(`${path}${name}`), 0),
    damage: isDeep ? damageOf(database) : null,
  }
}

/** Reads from the WAL index (sqlite.org/walformat.html) how long the WAL is and how far it has been checkpointed. */
function pagesPending(path: string): number | null {
  if (!existsSync(path)) return null
  const [LAST_FRAME, COPIED_TO] = [16, 96]
  const header = Buffer.alloc(100)
  const file = openSync(path, 'r')
  try {
    if (readSync(file, header, 0, header.length, 0) < header.length) return null
  } finally {
    closeSync(file)
  }
  return Math.max(0, header.readUInt32LE(LAST_FRAME) - header.readUInt32LE(COPIED_TO))
}

const modeOf = (path: string): number => (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o777

/** Closing a descriptor of the lock file could drop locks of this process, so only its permissions are read. */
function mayLock(path: string): boolean {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined || (found.isFile() && may(path, constants.R_OK))
}

const mayWrite = (path: string): boolean => may(path, constants.W_OK)

function may(path: string, right: number): boolean {
  try {
    accessSync(path, right)
    return true
  } catch {
    return false
  }
}

function damageOf(database: DatabaseSync): string[] {
  const lines = database.prepare('PRAGMA quick_check(20)').all()
  return lines.map(({ quick_check }) => String(quick_check)).filter((line) => line !== 'ok')
}
