import { existsSync, realpathSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { RedressError } from '../../core/errors.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { CopySource, CopyTarget, TableCount } from '../../store/contract/copying.ts'
import type { ActorAndReason } from '../../store/contract/store.ts'
import { type Copied, type CopyOptions, copyStore as copyAll, planCopy } from '../../store/copy/copy.ts'
import type { OnPages, Restored } from '../../store/sqlite/backup.ts'
import { App } from '../app.ts'
import { placeOf, type StorePlace } from './open-store.ts'

export type { Copied } from '../../store/copy/copy.ts'

export interface CopyStoreOptions extends CopyOptions {
  from: string
  to: string
  /** Only says what would be copied. */
  isDryRun: boolean
  clock: Clock
}

/** A whole store into an empty one, of the same driver or another. */
export async function copyStore({ from, to, isDryRun, clock, ...options }: CopyStoreOptions): Promise<Copied> {
  const [fromPlace, toPlace] = [placeOf(from), placeOf(to)]
  if (JSON.stringify(fromPlace) === JSON.stringify(toPlace)) {
    throw new RedressError('OPTION_INVALID', 'Both are the same store: there is nothing to copy.')
  }
  const source = await openSource(fromPlace, clock)
  try {
    const target = await openTarget(toPlace)
    try {
      return await (isDryRun ? planCopy : copyAll)(source, target, options)
    } finally {
      await target.stop()
    }
  } finally {
    await source.stop()
  }
}

async function openSource(place: StorePlace, clock: Clock): Promise<CopySource> {
  switch (place.kind) {
    case 'postgres':
      return (await import('../../store/postgres/copying.ts')).openPostgresSource({ url: place.url })
    case 'file':
      return (await import('../../store/sqlite/copying.ts')).openSqliteSource({ path: place.path, nowMs: clock.nowMs })
    case 'memory':
      throw inMemory()
  }
}

async function openTarget(place: StorePlace): Promise<CopyTarget> {
  switch (place.kind) {
    case 'postgres':
      return (await import('../../store/postgres/copying.ts')).openPostgresTarget({ url: place.url })
    case 'file':
      return (await import('../../store/sqlite/copying.ts')).openSqliteTarget(place.path)
    case 'memory':
      throw inMemory()
  }
}

const inMemory = (): RedressError =>
  new RedressError('OPTION_INVALID', 'A store in memory is gone with its process: it can be neither copied nor filled.')

export type { Restored }

export interface Backup {
  file: string
  bytes: number
  version: number
  tables: TableCount[]
}

interface BackupOptions {
  /** Where the store is. */
  from: string
  file: string
  mayReplace: boolean
  clock: Clock
  onProgress: (what: string, done: number, total: number) => void
}

/** Copies a store that may be in use into one file, which is there whole and checked, or not at all. */
export async function backupStore({ from, file, mayReplace, clock, onProgress }: BackupOptions): Promise<Backup> {
  const place = placeOf(from)
  const to = resolve(file)
  if (place.kind === 'memory') {
    throw new RedressError('OPTION_INVALID', 'A store in memory is gone with its process: there is nothing to keep.')
  }
  if (place.kind === 'file' && isSameFile(place.path, to)) {
    throw new RedressError('OPTION_INVALID', `${to} is the store itself: choose another name for its backup.`)
  }
  refuseNoPlace(to)
  const { checkFile, copyFile, makeWhole, standAlone } = await import('../../store/sqlite/backup.ts')
  const made = await makeWhole(to, { mayReplace, pid: process.pid }, async (partial) => {
    if (place.kind === 'file') return copyFile(place.path, partial, (done, total) => onProgress('copying', done, total))
    // Read as one moment of the database, whatever is written meanwhile.
    const { isWhole } = await copyStore({
      from,
      to: `sqlite:${partial}`,
      isDryRun: false,
      isInUseAllowed: true,
      clock,
      onProgress: ({ table, rows, total }) => onProgress(table, rows, total),
    })
    if (!isWhole) throw new RedressError('BACKUP_DAMAGED', 'The backup differs from the store; it was removed.')
    standAlone(partial)
    return checkFile(partial)
  })
  return { file: to, ...made }
}

interface RestoreOptions {
  file: string
  /** The location of the restored store. */
  to: string
  isForced: boolean
  /** Nothing of it is begun before a person says so. */
  isPaused: boolean
  by: ActorAndReason
  clock: Clock
  onPages: OnPages
}

/** Makes a store of a backup. What is there already is moved aside, and only if that was asked for. */
export async function restoreStore(options: RestoreOptions): Promise<Restored> {
  const { file, to, isForced, isPaused, by, clock, onPages } = options
  const place = placeOf(to)
  if (place.kind !== 'file') {
    throw new RedressError('OPTION_INVALID', 'A backup is restored into a file.', {
      action: 'Into PostgreSQL, copy it: redress copy --from sqlite:FILE --to postgres://...',
    })
  }
  const from = resolve(file)
  if (isSameFile(from, place.path)) throw new RedressError('OPTION_INVALID', `${from} is that store itself.`)
  const { restoreFile } = await import('../../store/sqlite/backup.ts')
  const nowMs = clock.nowMs()
  const stamp = new Date(nowMs).toISOString().replace(/[-:]|\.\d+/g, '')
  return restoreFile({
    from,
    to: place.path,
    aside: isForced ? `${place.path}.before-${stamp}` : null,
    by,
    nowMs,
    pid: process.pid,
    onPages,
    finish: (partial) => (isPaused ? pauseAll(partial, by, clock) : Promise.resolve()),
  })
}

async function pauseAll(path: string, by: ActorAndReason, clock: Clock): Promise<void> {
  const app = new App({ store: `sqlite:${path}`, clock, log: false })
  try {
    const { queues } = await app.perform('queues.list', {})
    const running = new Set(queues.flatMap(({ queue, paused }) => (paused === null ? [queue] : [])))
    for (const name of running) await app.perform('queues.pause', { name, ...by })
  } finally {
    await app.stop()
  }
}

/** Said before anything is copied, and of the place that is wrong: not of the store. */
function refuseNoPlace(path: string): void {
  const folder = dirname(path)
  const why = !existsSync(folder)
    ? `There is no folder ${folder}.`
    : statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
      ? `${path} is a folder.`
      : null
  if (why !== null) throw new RedressError('OPTION_INVALID', why, { action: 'Name a file in a folder that is there.' })
}

const isSameFile = (one: string, other: string): boolean => realPath(one) === realPath(other)

const realPath = (path: string): string => (existsSync(path) ? realpathSync(path) : resolve(path))
