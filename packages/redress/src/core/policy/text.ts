import { z } from 'zod'
import { formatMs } from '../text/duration.ts'
import { flag, name, text } from '../views/fields.ts'
import { policy as makePolicy, type Policy } from './policy.ts'

/** A field of a policy under the name its author writes. */
export const policyFieldSchema = z.strictObject({ name, value: text.describe('in words'), isDefault: flag })
type PolicyField = z.infer<typeof policyFieldSchema>

export function policyFields(policy: Policy): PolicyField[] {
  const defaults = new Map(fieldsOf(makePolicy()))
  return fieldsOf(policy).map(([name, value]) => ({ name, value, isDefault: defaults.get(name) === value }))
}

/** `lease.ttlMs` is written `lease.ttl` by its author. */
function fieldsOf(policy: Policy): [name: string, value: string][] {
  return Object.entries(policy).flatMap(([name, value]): [string, string][] => {
    if (!isSection(value)) return [[name, inWords(name, value)]]
    return Object.entries(value).map(([field, inner]) => [`${name}.${authorsName(field)}`, inWords(field, inner)])
  })
}

const authorsName = (field: string): string =>
  field === 'retryAfterMsMax' ? 'retryAfterMax' : field.replace(/Ms$/, '')

const isSection = (value: unknown): value is object => typeof value === 'object' && value !== null

function inWords(field: string, value: unknown): string {
  if (value === null) return 'none'
  if (typeof value === 'number' && /Ms(Max)?$/.test(field)) return formatMs(value)
  if (field === 'backoff') return backoffInWords(value as NonNullable<Policy['retry']['backoff']>)
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

function backoffInWords(backoff: NonNullable<Policy['retry']['backoff']>): string {
  const { jitter } = backoff
  const spread =
    jitter === null
      ? ''
      : jitter.kind === 'add'
        ? `, plus 0 to ${formatMs(jitter.maxMs)}`
        : `, ± ${jitter.ratio * 100} %`
  if (backoff.kind === 'table') return `table ${backoff.delaysMs.map(formatMs).join(', ')}${spread}`
  const cap = backoff.capMs === null ? '' : `, at most ${formatMs(backoff.capMs)}`
  return `exponential from ${formatMs(backoff.baseMs)}, times ${backoff.factor}${cap}${spread}`
}
