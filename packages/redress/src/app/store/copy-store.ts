import { RedressError } from '../../core/errors.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { CopySource, CopyTarget } from '../../store/contract/copying.ts'
import { type Copied, type CopyOptions, copyStore as copyAll, planCopy } from '../../store/copy/copy.ts'
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
