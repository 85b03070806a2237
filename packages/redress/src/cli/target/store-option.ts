import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { defaultLocation, placeOf, shownLocation } from '../../app/store/open-store.ts'
import { RedressError } from '../../core/errors.ts'
import { quoted } from '../language/commands.ts'

export interface StoreChoice {
  location: string
  /** Options that lead another command to the same store; empty for the default store. */
  flags: string
  isGiven: boolean
}

/** `--store`, or `--data`, or the environment, or the folder's own. */
export function chooseStore({ data, store }: { data?: unknown; store?: unknown }): StoreChoice {
  if (typeof data === 'string' && typeof store === 'string') {
    throw new RedressError('USAGE', '--data and --store cannot be combined.', { action: 'Give only one of them.' })
  }
  if (typeof store === 'string') return { location: store, flags: storeFlag(store), isGiven: true }
  if (typeof data !== 'string') return { location: defaultLocation().location, flags: '', isGiven: false }
  return { location: `sqlite:${join(data, 'redress.db')}`, flags: ` --data ${quoted(data)}`, isGiven: true }
}

/** For hints that people paste. Hints end up in logs and screenshots, so the password is left out. */
export const storeFlag = (location: string): string => ` --store ${quoted(shownLocation(location))}`

/** A look at a store must not make one: the empty answer would hide that the path is wrong. */
export function refuseMissingStore(location: string): void {
  const place = placeOf(location)
  if (place.kind === 'postgres' || (place.kind === 'file' && existsSync(place.path))) return
  const where =
    place.kind === 'memory'
      ? 'A store in memory cannot be read by another process.'
      : `There is no store at ${place.path}.`
  throw new RedressError('STORE_NOT_FOUND', where)
}
