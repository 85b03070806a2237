import { ENVIRONMENT } from '../packages/redress/src/runtime/environment.ts'
import { page, table } from './reference-text.ts'

export function environmentPage(): string {
  const rows = Object.entries(ENVIRONMENT).map(([name, { fallback, meaning }]) => [
    `\`${name}\``,
    fallback === null ? '' : `\`${fallback}\``,
    meaning,
  ])
  return page(
    'Environment',
    `Every variable that means something to Redress. What is said by an option, or in code, comes first.`,
    table(['variable', 'default', 'meaning'], rows),
  )
}
