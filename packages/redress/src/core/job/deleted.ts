import type { Status } from './states.ts'

const FILES_PREFIX = 'redress.files.'

/** The type of the job that removes the files of a deleted job of this type. Only types that own files have one. */
export const filesTypeOf = (type: string): string => `${FILES_PREFIX}${type}`

/** The type whose files jobs of this type remove; null for all other types. */
export const filesOwnerOf = (type: string): string | null =>
  type.startsWith(FILES_PREFIX) ? type.slice(FILES_PREFIX.length) : null

/** A finished job that a person deleted: the only thing left is what it needs to find its files. */
export interface DeletedJob<Input = unknown> {
  id: string
  type: string
  owner: string | null
  status: Extract<Status, 'complete' | 'failed' | 'cancelled'>
  /** As it was stored. */
  input: Input
  /** null unless it was complete. */
  result: unknown
}
