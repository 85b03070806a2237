import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { onTestFinished, vi } from 'vitest'
import type { Store } from '../../../packages/redress/src/store/contract/store.ts'
import { openSqlite, type SqliteOptions } from '../../../packages/redress/src/store/sqlite/store.ts'

/** A folder that is gone when the test is over. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'redress-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Another program on the same file, which knows nothing of Redress. */
export function openRaw(path: string): DatabaseSync {
  const database = new DatabaseSync(path)
  onTestFinished(() => {
    if (database.isOpen) database.close()
  })
  return database
}

/** A store together with the connection it uses, for faults that only that connection can have. */
export function openWithConnection(options: Partial<SqliteOptions> & { path: string }): {
  store: Store
  database: DatabaseSync
} {
  const calls = vi.spyOn(DatabaseSync.prototype, 'exec')
  const store = openSqlite({ nowMs: () => 0, ...options })
  const database = calls.mock.contexts.at(-1) as DatabaseSync
  calls.mockRestore()
  onTestFinished(() => store.stop())
  return { store, database }
}

/** How often something was committed to this file: the last frame of each transaction in the log is marked. */
export function commitsInLog(log: Buffer): number {
  const HEADER_BYTES = 32
  const FRAME_HEADER_BYTES = 24
  const pageBytes = log.readUInt32BE(8)
  const salt = log.subarray(16, 24)
  let commits = 0
  for (let at = HEADER_BYTES; at + FRAME_HEADER_BYTES <= log.length; at += FRAME_HEADER_BYTES + pageBytes) {
    // A frame with another salt is left over from before the log was begun anew.
    if (!log.subarray(at + 8, at + 16).equals(salt)) break
    if (log.readUInt32BE(at + 4) > 0) commits++
  }
  return commits
}
