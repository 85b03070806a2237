import type { TokenView } from './campaign-view.ts'

/**
 * A field that a spreadsheet shows and never runs: what begins like a formula gets an apostrophe before it. Some take the
 * wide signs of East Asian keyboards for the same.
 */
function csvField(value: string): string {
  const safe = /^[=+\-@\t\r\n|＝＋－＠]/.test(value) ? `'${value}` : value
  return `"${safe.replaceAll('"', '""')}"`
}

/** Who gets which link. With a mark of its encoding, without which some programs spoil names. */
export function linksCsv(tokens: readonly TokenView[], origin: string): string {
  const lines = tokens.map(({ name, email, state, link }) => [name, email, state, `${origin}${link ?? ''}`])
  return `\ufeff${[['name', 'email', 'state', 'link'], ...lines].map((line) => line.map(csvField).join(',')).join('\r\n')}\r\n`
}
