import type { InputOf } from '../../../src/operations/table.ts'
import type { Changes } from '../api/live.ts'
import type { FilterFormField } from '../parts/FilterForm.tsx'

/** By what dead letters are found, here and wherever all that match are meant. */
export const LETTER_FIELDS = [
  { name: 'type', label: 'Type' },
  { name: 'code', label: 'Code' },
  { name: 'owner', label: 'Owner' },
  { name: 'fingerprint', label: 'Fingerprint' },
  { name: 'since', label: 'Since', hint: '2h, 2026-01-31' },
  { name: 'until', label: 'Until', hint: '90d, 2026-01-31' },
  {
    name: 'replayed',
    label: 'Replayed',
    choices: [
      { value: '', label: 'either' },
      { value: 'no', label: 'not yet' },
      { value: 'yes', label: 'already' },
    ],
  },
] as const satisfies readonly FilterFormField[]

export type LetterFilter = Pick<InputOf<'dead-letters.purge'>, (typeof LETTER_FIELDS)[number]['name']>

/** What an address says of them. The server says what is wrong with it. */
export function letterFilter(query: Readonly<Record<string, string>>): LetterFilter {
  const set = LETTER_FIELDS.flatMap(({ name }) => (query[name] ? [[name, query[name]] as const] : []))
  return Object.fromEntries(set) as LetterFilter
}

export const isFiltered = (filter: LetterFilter): boolean => Object.keys(filter).length > 0

type Selection = Readonly<Record<string, string | boolean | undefined>>

/** 'type mail.send, code NOT_PDF, not yet replayed'. */
export function selectionWords({ replayed, ...rest }: Selection): string {
  const words = Object.entries(rest).map(([name, value]) => `${name} ${value}`)
  if (replayed !== undefined)
    words.push(replayed === true || replayed === 'yes' ? 'replayed already' : 'not yet replayed')
  return words.join(', ') || 'every dead letter'
}

/** What sets a letter aside, or makes a job of one. */
const TOLD_BY = ['job.failed', 'job.queued', 'job.manual-retry']
export const mayTouchLetters = ({ events }: Changes): boolean => TOLD_BY.some((event) => event in events)
