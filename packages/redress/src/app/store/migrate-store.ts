import { existsSync } from 'node:fs'
import { RedressError } from '../../core/errors.ts'
import type { Clock } from '../../runtime/clock.ts'
import { openDoctor } from './doctor.ts'
import { openDriver, placeOf, placeText } from './open-store.ts'

/** Versions of the tables; 0 where there are none yet. */
export interface Migration {
  from: number
  to: number
}

/** Brings a store up to date, as opening it does; with `isDryRun` only says from where to where. */
export async function migrateStore(
  location: string,
  { isDryRun, clock }: { isDryRun: boolean; clock: Clock },
): Promise<Migration> {
  const before = await versionAt(location, clock)
  if (isDryRun) return { from: before.found, to: Math.max(before.found, before.known) }
  const store = await openDriver(placeOf(location), clock)
  await store.stop()
  const { found } = await versionAt(location, clock)
  return { from: before.found, to: found }
}

async function versionAt(location: string, clock: Clock): Promise<{ found: number; known: number }> {
  const place = placeOf(location)
  if (place.kind === 'memory') {
    throw new RedressError('OPTION_INVALID', 'A store in memory is always up to date, and gone with its process.')
  }
  if (place.kind === 'file' && !existsSync(place.path)) return { found: 0, known: await knownToSqlite() }
  const doctor = await openDoctor(location, clock)
  try {
    const { base } = await doctor.facts({ isDeep: false })
    if (base.kind === 'sqlite' && !base.isOurs && base.fileBytes > 0) {
      throw new RedressError(
        'STORE_NOT_REDRESS',
        `${placeText(location)} is a database of another program; it was not changed.`,
      )
    }
    return base.version
  } finally {
    await doctor.stop()
  }
}

const knownToSqlite = async (): Promise<number> =>
  (await import('../../store/sqlite/schema/schema.ts')).MIGRATIONS.length
