import type { Policy } from '../../core/policy/policy.ts'
import { policyFields } from '../../core/policy/text.ts'
import type { OutputOf } from '../../operations/table.ts'
import { columns } from '../terminal/columns.ts'
import type { Terminal } from '../terminal/terminal.ts'
import type { Renderers, Rendering } from './rendering.ts'

function types({ types: shown }: OutputOf<'types.list'>, { terminal }: Rendering): string {
  return columns(
    shown,
    [
      { title: 'TYPE', of: (type) => type.name },
      { title: 'QUEUE', of: (type) => type.queue },
      { title: 'TRIES', of: (type) => type.policy.retry.max, isNumber: true },
      { title: 'MANUAL RETRY', of: (type) => type.policy.manualRetry.mode },
      { title: 'LOST WORKER', of: (type) => type.policy.orphan.action },
      { title: 'DEAD LETTER', of: (type) => type.policy.deadLetter },
      { title: '', of: (type) => marksOf(type.policy), charsMin: 6 },
    ],
    terminal,
  )
}

const marksOf = ({ locked, forwardOnly }: Policy): string =>
  [locked ? 'locked' : '', forwardOnly ? 'forward only' : ''].filter(Boolean).join(', ')

function policyPreview(shown: OutputOf<'policy.preview'>, { hint }: Rendering): string {
  if (!shown.isCodesKnown) hint(`Only the program that declares ${shown.type} knows its failure codes.`)
  return shown.text
}

const policy = ({ type, policy: shown }: OutputOf<'policy.show'>, { terminal }: Rendering): string =>
  `${terminal.paint('strong', type)}\n${policyLines(shown, terminal)}`

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

export const typeRenderers = {
  'types.list': types,
  'policy.show': policy,
  'policy.preview': policyPreview,
} satisfies Partial<Renderers>
