/** A recipient, and the line of the text that names them. */
export interface Line {
  line: number
  recipient: { name: string; email: string }
}

/** 'Ann Example, ann@example.org' on each line, as people write it and as spreadsheets do. */
export function linesOf(text: string): Line[] {
  return text
    .replace(/^\ufeff/, '')
    .split(/\r\n|\r|\n/)
    .map((written, i) => ({ line: i + 1, written }))
    .filter(({ written }) => written.trim() !== '')
    .map(({ line, written }) => {
      const [, name = written, email = ''] = /^(.*)[,;\t](.*)$/.exec(written) ?? []
      return { line, recipient: { name: unquoted(name), email: unquoted(email) } }
    })
    .filter(({ recipient }, i) => i > 0 || !isHeading(recipient))
}

/** The same recipients as text that reads back as them. */
export const textOf = (recipients: readonly Line['recipient'][]): string =>
  recipients.map(({ name, email }) => `${quoted(name)}, ${email}`).join('\n')

const quoted = (name: string): string => (/[",;]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name)

/** A spreadsheet puts quotes around what has a comma in it, and doubles those that are there. */
function unquoted(field: string): string {
  const text = field.trim()
  return /^"(.*)"$/.exec(text)?.[1]?.replaceAll('""', '"') ?? text
}

const isHeading = ({ name, email }: Line['recipient']): boolean =>
  /^(full )?name$|^recipient$/i.test(name) && /^e-?mail( address)?$/i.test(email)
