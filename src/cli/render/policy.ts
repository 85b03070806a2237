import { formatMs } from '../../core/duration.ts'
import { policy as makePolicy, type Policy } from '../../core/policy.ts'
import type { Terminal } from '../terminal.ts'

/** Every field under the name its author writes, with a mark where it is not the default. */
export function policyLines(policy: Policy, terminal: Terminal): string {
  const defaults = new Map(fieldsOf(makePolicy()))
  const fields = fieldsOf(policy)
  const width = Math.max(...fields.map(([name]) => name.length))
  return fields
    .map(([name, value]) => {
      const isDefault = defaults.get(name) === value
      const line = `${isDefault ? ' ' : '*'} ${name.padEnd(width)}  ${value}`
      return `${terminal.paint(isDefault ? 'quiet' : 'plain', line)}\n`
    })
    .join('')
    .concat(terminal.paint('quiet', '* not the default'), '\n')
}

/** `lease.ttlMs` is written `lease.ttl` by its author. */
export function fieldsOf(policy: Policy): [name: string, value: string][] {
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
