import { z } from 'zod'
import { RedressError } from '../../core/errors.ts'
import type { LetterFilter } from '../../store/contract/dead-letters.ts'
import { momentField, momentMs, typeField } from '../input-fields.ts'

/** Which letters are meant. */
export const filterFields = {
  type: typeField.optional().describe('only letters of this job type'),
  code: z.string().min(1).optional().describe('only letters with this failure code'),
  owner: z.string().min(1).optional().describe('only letters of this owner'),
  fingerprint: z.string().min(1).optional().describe('only letters of this failure group'),
  since: momentField('only letters since'),
  until: momentField('only letters before'),
  replayed: z.enum(['yes', 'no']).optional().describe('only letters that were replayed (yes), or were not (no)'),
}

export const offsetField = z.coerce.number().int().min(1).describe('offset of the dead letter')
export const allField = z.boolean().default(false).describe('all dead letters, instead of a filter')

const fields = z.object(filterFields)

export function filterOf(given: z.output<typeof fields>, nowMs: number): LetterFilter {
  const { type, code, owner, fingerprint, since, until, replayed } = given
  return {
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    ...(owner !== undefined && { owner }),
    ...(fingerprint !== undefined && { fingerprint }),
    ...(since !== undefined && { sinceMs: momentMs(since, 'since', nowMs) }),
    ...(until !== undefined && { untilMs: momentMs(until, 'until', nowMs) }),
    ...(replayed !== undefined && { isReplayed: replayed === 'yes' }),
  }
}

/** A forgotten filter must not act on every letter. */
export function refuseAccidentalAll(filter: LetterFilter, all: boolean, what: string): void {
  const isFiltered = Object.keys(filter).length > 0
  if (isFiltered && all) {
    throw new RedressError('OPTION_INVALID', 'A filter and `all` cannot be combined.')
  }
  if (isFiltered || all) return
  throw new RedressError('OPTION_INVALID', `A filter is missing: this would ${what} every dead letter.`, {
    action: 'Give type, code, owner, fingerprint, since, until or replayed; or `all`.',
  })
}
