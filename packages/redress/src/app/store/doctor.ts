import { existsSync } from 'node:fs'
import { RedressError } from '../../core/errors.ts'
import { type Diagnosis, diagnose } from '../../operations/doctor/doctor.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { DoctorStore, OrphanFact } from '../../store/contract/doctor.ts'
import { openDriver, placeOf, placeText } from './open-store.ts'

export type { Diagnosis } from '../../operations/doctor/doctor.ts'
export type { Finding } from '../../operations/doctor/findings.ts'

/** Looks at a store without opening it as one: that would bring its tables up to date, or be refused. */
export async function examine(
  location: string,
  { isDeep, clock }: { isDeep: boolean; clock: Clock },
): Promise<Diagnosis> {
  const doctor = await openDoctor(location, clock)
  try {
    return diagnose(await doctor.facts({ isDeep }))
  } finally {
    await doctor.stop()
  }
}

/** All orphans that wait for a person. Read-only, like the rest of the doctor. */
export async function findOrphans(location: string, clock: Clock): Promise<{ store: string; orphans: OrphanFact[] }> {
  const doctor = await openDoctor(location, clock)
  try {
    const { place, jobs } = await doctor.facts({ isDeep: false })
    if (jobs !== null) return { store: place, orphans: jobs.orphaned }
    throw new RedressError('STORE_FAILED', `The jobs of ${place} cannot be read by this version of Redress.`, {
      action: 'Run redress doctor to see the reason.',
    })
  } finally {
    await doctor.stop()
  }
}

async function openDoctor(location: string, clock: Clock): Promise<DoctorStore> {
  const place = placeOf(location)
  switch (place.kind) {
    case 'postgres':
      return (await import('../../store/postgres/doctor.ts')).openPostgresDoctor({ url: place.url, nowMs: clock.nowMs })
    case 'file':
      return (await import('../../store/sqlite/doctor.ts')).openSqliteDoctor({ path: place.path, nowMs: clock.nowMs })
    case 'memory':
      throw new RedressError('STORE_NOT_FOUND', 'A store in memory cannot be read by another process.')
  }
}

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
