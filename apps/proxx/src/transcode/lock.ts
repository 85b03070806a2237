import { createHash } from 'node:crypto'
import { open, readFile, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Log } from 'redress'
import { errnoOf } from '../paths.ts'

/** In the output directory itself, so that every machine that shares it sees it. */
export const LOCK_NAME = '.proxx.lock'

/** The content of the lock file: who holds it. */
export interface LockHolder {
  job: string
  host: string
  pid: number
  at: string
}

export class DirectoryLocked extends Error {
  override readonly name = 'DirectoryLocked'
  /** Null if the file is not a valid lock. */
  readonly holder: LockHolder | null

  constructor(directory: string, holder: LockHolder | null) {
    const who =
      holder === null ? 'somebody' : `job ${holder.job} (process ${holder.pid} on ${holder.host}, ${holder.at})`
    super(`${who} holds ${join(directory, LOCK_NAME)}`)
    this.holder = holder
  }
}

interface LockOptions {
  log: Log
  nowMs: number
  /** Whether a job of this store has ended. Then its worker, or a person, has confirmed that no process works on it. */
  isOver(job: string): Promise<boolean>
  /** How long to wait for a process that is still there though its job is over. */
  patienceMs?: number
}

/** P64: exclusive, logged, and never bypassed. Returns the function that releases it. */
export async function lockDirectory(
  directory: string,
  job: string,
  options: LockOptions,
): Promise<() => Promise<void>> {
  const { log, nowMs } = options
  const path = join(directory, LOCK_NAME)
  const holder: LockHolder = { job, host: hostname(), pid: process.pid, at: new Date(nowMs).toISOString() }
  const text = `${JSON.stringify(holder)}\n`
  try {
    await writeExclusively(path, text)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
    await removeAbandoned(directory, path, job, options)
    await writeExclusively(path, text).catch(async (again: unknown) => {
      throw errnoOf(again) === 'EEXIST' ? new DirectoryLocked(directory, await holderOf(path)) : again
    })
  }
  heldHere.add(job)
  log.info({ event: 'lock_acquired', job_id: job, directory }, 'the lock of an output directory was acquired')
  return async () => {
    heldHere.delete(job)
    const now = await readFile(path, 'utf8').catch((error: unknown) => {
      if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error))) return null
      throw error
    })
    if (now !== text) {
      log.warn(
        { event: 'lock_gone', job_id: job, directory },
        'the lock of an output directory was taken away meanwhile',
      )
      return
    }
    await unlink(path)
    log.info({ event: 'lock_released', job_id: job, directory }, 'the lock of an output directory was released')
  }
}

/** Jobs of this process that still hold a lock. */
const heldHere = new Set<string>()
const LETTING_GO_MS_MAX = 10_000
const LOOK_AGAIN_MS = 100

/** A stopping process waits for this: its programs need a moment to end. */
export async function releaseLocks(): Promise<void> {
  for (let waitedMs = 0; heldHere.size > 0 && waitedMs < LETTING_GO_MS_MAX; waitedMs += LOOK_AGAIN_MS) {
    await setTimeout(LOOK_AGAIN_MS)
  }
}

async function writeExclusively(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o644)
  try {
    await file.writeFile(text)
    await file.sync()
  } catch (error) {
    // An unreadable lock would not say who holds it.
    await unlink(path)
    throw error
  } finally {
    await file.close()
  }
}

async function holderOf(path: string): Promise<LockHolder | null> {
  try {
    const read = JSON.parse(await readFile(path, 'utf8')) as LockHolder
    return typeof read.job === 'string' && typeof read.pid === 'number' ? read : null
  } catch {
    return null
  }
}

/**
 * A killed worker leaves its lock behind. The lock is removed only if its job has ended (for an orphan, a person
 * decides that) and its process is gone. Every other lock is left alone.
 */
async function removeAbandoned(
  directory: string,
  path: string,
  job: string,
  { log, isOver, patienceMs = LETTING_GO_MS_MAX }: LockOptions,
): Promise<void> {
  const holder = await holderOf(path)
  if (holder === null || !(await isOver(holder.job))) throw new DirectoryLocked(directory, holder)
  // A person marked a running job as failed, and its worker will notice soon.
  for (let waitedMs = 0; isAlive(holder) && waitedMs < patienceMs; waitedMs += LOOK_AGAIN_MS) {
    await setTimeout(LOOK_AGAIN_MS)
    if ((await holderOf(path)) === null) return
  }
  if (isAlive(holder)) throw new DirectoryLocked(directory, holder)
  if (await removeThis(path, holder)) {
    log.warn(
      { event: 'lock_abandoned', job_id: job, directory, holder },
      'the lock of a job that is over was taken away',
    )
  }
}

/**
 * Several processes may try to remove the same lock, and the first of them may already hold a new one. So the remover
 * first makes this file, which names the judged lock, and checks again: no other process's lock is ever moved. If the
 * remover is killed here, the file stays, and a person must remove both.
 */
async function removeThis(path: string, holder: LockHolder): Promise<boolean> {
  const judged = JSON.stringify(holder)
  const removing = `${path}.${createHash('sha256').update(judged).digest('hex').slice(0, 16)}`
  try {
    await (await open(removing, 'wx')).close()
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return false
    throw error
  }
  try {
    if (JSON.stringify(await holderOf(path)) !== judged) return false
    await unlink(path)
    return true
  } finally {
    await unlink(removing)
  }
}

function isAlive({ job, host, pid }: LockHolder): boolean {
  if (host !== hostname()) return false
  if (pid === process.pid) return heldHere.has(job)
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return errnoOf(error) !== 'ESRCH'
  }
}
