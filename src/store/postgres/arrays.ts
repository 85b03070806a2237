/**
 * Arrays in PostgreSQL's own words, for `unnest`. The client would go through them value by value. Where there are only
 * NULLs nothing is sent: `unnest` fills up the shorter ones of its arrays, so one of them must have all its values.
 */
export function numbers(values: readonly (number | null)[]): string {
  for (const value of values) if (value !== null) return `{${values.map((n) => n ?? 'NULL').join()}}`
  return '{}'
}

/** The same of texts. Those that come together are often much alike: what was just escaped is not escaped again. */
export function texts(values: readonly (string | null)[]): string {
  let last: string | null = null
  let lastQuoted = 'NULL'
  let isAny = false
  const quoted = values.map((value) => {
    if (value !== last) {
      last = value
      isAny = true
      lastQuoted = value === null ? 'NULL' : quotedText(value)
    }
    return lastQuoted
  })
  return isAny ? `{${quoted.join()}}` : '{}'
}

/** Looked through first: most have nothing to escape, and looking is cheap. */
function quotedText(value: string): string {
  let text = value
  if (text.includes('\\')) text = text.replaceAll('\\', '\\\\')
  if (text.includes('"')) text = text.replaceAll('"', '\\"')
  return `"${text}"`
}
