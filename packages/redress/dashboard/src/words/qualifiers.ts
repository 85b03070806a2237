import type { Status } from '../../../src/core/job/states.ts'
import type { InputOf } from '../../../src/operations/table.ts'
import { nearest } from './nearest.ts'

/** `age:<1h` is `since`, `age:>1h` is `until`, and a word without a qualifier is `q`. */
export type Filter = Pick<
  InputOf<'jobs.list'>,
  'status' | 'code' | 'type' | 'queue' | 'owner' | 'batch' | 'since' | 'until' | 'q'
>

export const STATUSES = ['queued', 'processing', 'complete', 'failed', 'cancelled'] as const satisfies readonly Status[]

/** Each with what it means, in the order in which they are written. */
export const QUALIFIERS = {
  status: 'how it stands',
  code: 'the code it failed with',
  type: 'its job type',
  queue: 'the queue of its type',
  owner: 'whose job it is',
  batch: 'the id of its batch',
  age: 'since when it is there: <1h or >1h',
} as const
export type Qualifier = keyof typeof QUALIFIERS
const NAMES = Object.keys(QUALIFIERS) as Qualifier[]

/** A part of the line, with where it stands. */
export interface Token {
  start: number
  end: number
  /** null where it is no `name:value`. */
  name: string | null
  value: string
  /** A quotation mark was opened and not closed. */
  isOpen: boolean
}

interface FilterProblem {
  text: string
  /** The whole line as it was probably meant; null where nobody knows. */
  better: string | null
}

export interface ParsedFilter {
  filter: Filter
  problems: FilterProblem[]
}

const SPACE = /\s/
const NAME = /^([A-Za-z][\w-]*):/

/** Cuts a line into its parts. Every line can be cut; what the parts are worth is said by `parse`. */
export function tokens(line: string): Token[] {
  const found: Token[] = []
  for (let at = 0; at < line.length; ) {
    if (SPACE.test(line.charAt(at))) at++
    else {
      const name = NAME.exec(line.slice(at))?.[1] ?? null
      const valueAt = name === null ? at : at + name.length + 1
      const { value, end, isOpen } = line.charAt(valueAt) === '"' ? quotedAt(line, valueAt) : wordAt(line, valueAt)
      found.push({ start: at, end, name: name?.toLowerCase() ?? null, value, isOpen })
      at = end
    }
  }
  return found
}

function quotedAt(line: string, start: number): Pick<Token, 'value' | 'end' | 'isOpen'> {
  let value = ''
  for (let at = start + 1; at < line.length; at++) {
    const char = line.charAt(at)
    if (char === '"') return { value, end: at + 1, isOpen: false }
    const next = line.charAt(at + 1)
    const isEscaped = char === '\\' && (next === '"' || next === '\\')
    value += isEscaped ? next : char
    if (isEscaped) at++
  }
  return { value, end: line.length, isOpen: true }
}

function wordAt(line: string, start: number): Pick<Token, 'value' | 'end' | 'isOpen'> {
  let end = start
  while (end < line.length && !SPACE.test(line.charAt(end))) end++
  return { value: line.slice(start, end), end, isOpen: false }
}

/** What a line asks for, and what is wrong with it. With a problem, the filter is not what was meant. */
export function parse(line: string): ParsedFilter {
  const filter: Filter = {}
  const problems: FilterProblem[] = []
  const words: string[] = []
  for (const token of tokens(line)) {
    const { start, end, name, value, isOpen } = token
    const complaint = isOpen
      ? { text: 'A quotation mark is opened and not closed.', instead: `${line.slice(start)}"` }
      : name === null
        ? null
        : readQualifier(name, value, filter)
    if (complaint === null && name === null) words.push(value)
    if (complaint !== null) {
      const { text, instead } = complaint
      problems.push({ text, better: instead === null ? null : line.slice(0, start) + instead + line.slice(end) })
    }
  }
  const q = words.join(' ').trim()
  return { filter: q === '' ? filter : { ...filter, q }, problems }
}

interface Complaint {
  text: string
  /** What was probably meant in its place. */
  instead: string | null
}

const twice = (what: string): Complaint => ({
  text: `“${what}” is given twice, and only one is possible.`,
  instead: '',
})

/** Puts it into the filter, or says why not. */
function readQualifier(name: string, value: string, filter: Filter): Complaint | null {
  if (!isQualifier(name)) return unknownQualifier(name, value)
  if (value === '') return { text: `“${name}:” has no value. It says ${QUALIFIERS[name]}.`, instead: null }
  if (name === 'age') return readAge(value, filter)
  if (filter[name] !== undefined) return twice(`${name}:`)
  if (name !== 'status') {
    filter[name] = value
    return null
  }
  const status = STATUSES.find((one) => one === value.toLowerCase())
  if (status !== undefined) {
    filter.status = status
    return null
  }
  const meant = nearest(value, STATUSES) ?? MEANT[value.toLowerCase()] ?? null
  const help = meant === null ? `It is one of ${STATUSES.join(', ')}.` : `Did you mean “${meant}”?`
  return { text: `No job has the status “${value}”. ${help}`, instead: meant === null ? null : `status:${meant}` }
}

function unknownQualifier(name: string, value: string): Complaint {
  const meant = nearest(name, NAMES)
  const help = meant === null ? '' : ` Did you mean “${meant}:”?`
  return {
    text: `There is no qualifier “${name}:”.${help} To look for the text itself, put it in quotation marks.`,
    instead: meant === null ? asText(`${name}:${value}`) : `${meant}:${asValue(value)}`,
  }
}

/** What other programs call them. */
const MEANT: Readonly<Record<string, Status>> = {
  running: 'processing',
  active: 'processing',
  waiting: 'queued',
  pending: 'queued',
  done: 'complete',
  succeeded: 'complete',
  success: 'complete',
  dead: 'failed',
  error: 'failed',
}

const DURATION = /^(?=\d)(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?(\d+(\.\d+)?ms)?$/

function readAge(value: string, filter: Filter): Complaint | null {
  const [, sign = '', duration = ''] = /^([<>]?)=?(.*)$/s.exec(value) ?? []
  if (sign === '' || !DURATION.test(duration) || value !== sign + duration) {
    const [, amount, unit] = /^(\d+)\s*([dhms]?)/.exec(duration) ?? []
    const better = DURATION.test(duration) ? duration : amount === undefined ? null : `${amount}${unit || 'h'}`
    return {
      text: `“age:” does not take “${value}”. It is < or > and a duration: age:<15m, age:<2h, age:>7d.`,
      instead: better && `age:${sign || '<'}${better}`,
    }
  }
  const field = sign === '<' ? 'since' : 'until'
  if (filter[field] !== undefined) return twice(`age:${sign}`)
  filter[field] = duration
  return null
}

const isQualifier = (name: string): name is Qualifier => Object.hasOwn(QUALIFIERS, name)

const inQuotes = (text: string): string => `"${text.replaceAll(/["\\]/g, (char) => `\\${char}`)}"`

/** A value as the line takes it: in quotation marks where it would not be read as one. */
export const asValue = (value: string): string => (/[\s"]/.test(value) || value === '' ? inQuotes(value) : value)

/** Text without a qualifier; in quotation marks where it would be read as one. */
const asText = (text: string): string => (/[\s":]/.test(text) ? inQuotes(text) : text)

/** The line of a filter: `parse` reads the same filter from it. */
export function format({ since, until, q, ...named }: Filter): string {
  const words = NAMES.flatMap((name) => {
    if (name === 'age') return []
    const value = named[name]
    return value === undefined ? [] : [`${name}:${asValue(value)}`]
  })
  if (since !== undefined) words.push(`age:<${since}`)
  if (until !== undefined) words.push(`age:>${until}`)
  if (q !== undefined) words.push(asText(q))
  return words.join(' ')
}

/** The line with one qualifier set to another value, or left out. */
export function withStatus(filter: Filter, status: Status | null): string {
  const { status: _, ...rest } = filter
  return format(status === null ? rest : { ...rest, status })
}
