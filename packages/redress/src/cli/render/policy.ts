import type { Policy } from '../../core/policy/policy.ts'
import { policyFields } from '../../core/policy/words.ts'
import type { Terminal } from '../terminal/terminal.ts'

/** Every field under the name its author writes, with a mark where it is not the default. */
export function policyLines(policy: Policy, terminal: Terminal): string {
  const fields = policyFields(policy)
  const width = Math.max(...fields.map(({ name }) => name.length))
  return fields
    .map(({ name, value, isDefault }) => {
      const line = `${isDefault ? ' ' : '*'} ${name.padEnd(width)}  ${value}`
      return `${terminal.paint(isDefault ? 'quiet' : 'plain', line)}\n`
    })
    .join('')
    .concat(terminal.paint('quiet', '* not the default'), '\n')
}
